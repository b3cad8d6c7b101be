package fleet

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
)

// KubernetesConfig is what an operator says of Kubernetes discovery. An empty
// selector turns it off.
type KubernetesConfig struct {
	Selector  string `yaml:"selector" doc:"label selector of the pods that are replicas, as app=vllm; empty = off"`
	Namespace string `yaml:"namespace" doc:"namespace of the replicas' pods; default: this pod's own; * = all"`
	Port      int    `yaml:"port" doc:"port of the replicas' OpenAI API"`
	API       string `yaml:"api" doc:"URL of the Kubernetes API server; default: that of the cluster this pod runs in"`
	Account   string `yaml:"account" doc:"folder with token, ca.crt and namespace of a service account"`
}

// DefaultAccount is where Kubernetes mounts a pod's service account.
const DefaultAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

// Validate reports every fault by key.
func (c *KubernetesConfig) Validate(key string) error {
	if c.Selector == "" {
		return nil
	}
	var errs []error
	if c.Port < 1 || c.Port > 65535 {
		errs = append(errs, fmt.Errorf("%s.port: %d is not from 1 to 65535", key, c.Port))
	}
	if c.API != "" {
		if u, err := url.Parse(c.API); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			errs = append(errs, fmt.Errorf("%s.api: %q is not an http:// or https:// address", key, c.API))
		}
	}
	if strings.ContainsAny(c.Namespace, "/ ") {
		errs = append(errs, fmt.Errorf("%s.namespace: %q is not a name", key, c.Namespace))
	}
	return errors.Join(errs...)
}

// NewKubernetes makes discovery from configuration, the service account and
// the environment of a pod. t is what a pod does not tell.
func NewKubernetes(c KubernetesConfig, t Template, logger hclog.Logger) (*Kubernetes, error) {
	k := &Kubernetes{API: c.API, Namespace: c.Namespace, Selector: c.Selector, Port: c.Port, Template: t, Logger: logger}
	if k.API == "" {
		host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
		if host == "" || port == "" {
			return nil, errors.New("discovery.kubernetes: this is no pod: set discovery.kubernetes.api")
		}
		k.API = "https://" + net.JoinHostPort(host, port)
	}
	if k.Namespace == "" {
		name, err := os.ReadFile(filepath.Join(c.Account, "namespace"))
		if err != nil {
			return nil, fmt.Errorf("discovery.kubernetes.namespace: %w", err)
		}
		k.Namespace = strings.TrimSpace(string(name))
	}
	if k.Namespace == "*" {
		k.Namespace = ""
	}
	roots, err := accountRoots(filepath.Join(c.Account, "ca.crt"))
	if err != nil {
		return nil, err
	}
	tokenFile := filepath.Join(c.Account, "token")
	if strings.HasPrefix(k.API, "https://") { // never in the clear
		k.Token = func() (string, error) {
			token, err := os.ReadFile(tokenFile)
			return strings.TrimSpace(string(token)), err
		}
	}
	k.Client = &http.Client{
		Transport: &http.Transport{
			DialContext:           (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			TLSClientConfig:       &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:   5 * time.Second,
			ResponseHeaderTimeout: 30 * time.Second,
			IdleConnTimeout:       30 * time.Second,
			ForceAttemptHTTP2:     true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return k, nil
}

// accountRoots reads the cluster's certificate authority; without the file the
// system's are used.
func accountRoots(path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("discovery.kubernetes.account: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("discovery.kubernetes.account: %s holds no certificate", path)
	}
	return roots, nil
}
