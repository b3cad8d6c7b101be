package router

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/banyan-llm/banyan/gossip/mesh"
	"github.com/banyan-llm/banyan/router/access"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/router/requests"
	"github.com/banyan-llm/banyan/router/tracing"
)

// Config is everything one peer is told. Every field is a YAML key, a flag
// and an environment variable; see DefaultConfig for the defaults.
type Config struct {
	HTTP      HTTPConfig      `yaml:"http"`
	Admin     AdminConfig     `yaml:"admin"`
	Mesh      MeshConfig      `yaml:"mesh"`
	Replicas  []fleet.Spec    `yaml:"replicas" doc:"the inference servers: [{name, url, events, replay, …}]; deploy/banyan.yaml explains each"`
	Discovery DiscoveryConfig `yaml:"discovery"`
	Ingest    IngestConfig    `yaml:"ingest"`
	Drain     DrainConfig     `yaml:"drain"`
	IsolateBy string          `yaml:"isolate_by" doc:"request header that names a tenant; tenants share no cached prefix: engines get a keyed hash of the name as cache_salt"`
	Grid      int             `yaml:"grid" doc:"tokens per block, one per mesh; must divide every event-fed engine's block size"`
	Tokenizer string          `yaml:"tokenizer" doc:"prompt to keys: auto, engine or text"`
	Policy    string          `yaml:"policy" doc:"routing policy; see README for the list"`
	Routing   policy.Config   `yaml:"routing"`
	Limits    LimitsConfig    `yaml:"limits"`
	Admission AdmissionConfig `yaml:"admission"`
	Hedge     HedgeConfig     `yaml:"hedge"`
	Tracing   tracing.Config  `yaml:"tracing"`
	Auth      AuthConfig      `yaml:"auth"`
	Log       LogConfig       `yaml:"log"`
	AccessLog requests.Config `yaml:"access_log"`
}

// HTTPConfig is the public listener.
type HTTPConfig struct {
	Listen         string           `yaml:"listen" doc:"OpenAI API listener"`
	ConnectionAge  time.Duration    `yaml:"connection_age" doc:"client connections end after this (+-20 %), never mid-answer; 0 = never"`
	PolicyOverride bool             `yaml:"policy_override" doc:"allow the X-Banyan-Policy request header"`
	TLS            access.TLSConfig `yaml:"tls"`
}

// AdminConfig is the admin listener. Beyond loopback it asks for keys or client
// certificates, unless it is told not to.
type AdminConfig struct {
	Listen   string           `yaml:"listen" doc:"status, metrics, console, drain"`
	Hosts    []string         `yaml:"hosts" doc:"names it answers to in the Host header, besides loopback and IP addresses; * = any"`
	KeysFile string           `yaml:"keys_file" doc:"hashed admin keys; lines may end in role=read"`
	Insecure bool             `yaml:"insecure" doc:"listen beyond loopback without keys (also --insecure-admin)"`
	TLS      access.TLSConfig `yaml:"tls"`
}

// MeshConfig is the mesh listener and how peers find and trust each other.
type MeshConfig struct {
	Bind       string        `yaml:"bind" doc:"serf UDP and TCP and peer streams, one port"`
	Advertise  string        `yaml:"advertise" doc:"address other peers use; default: from bind"`
	Join       []string      `yaml:"join" doc:"seeds, host:port or DNS names, retried until one answers"`
	Name       string        `yaml:"name" doc:"name for people; default: host name and a random suffix"`
	HashSecret string        `yaml:"hash_secret" doc:"file whose content keys every block hash; default: derived from the label"`
	Key        string        `yaml:"key" doc:"base64 gossip key (banyan keygen)" secret:"true"`
	Keyring    string        `yaml:"keyring" doc:"file with one base64 gossip key a line; the first one sends"`
	Label      string        `yaml:"label" doc:"cluster label: foreign clusters are refused"`
	Insecure   bool          `yaml:"insecure" doc:"run without a gossip key (also --insecure-mesh)"`
	TLS        MeshTLSConfig `yaml:"tls"`
}

// MeshTLSConfig names the PEM files of peer streams; without them certificates
// are derived from the gossip keys.
type MeshTLSConfig struct {
	Cert string `yaml:"cert" doc:"PEM certificate for peer streams"`
	Key  string `yaml:"key" doc:"PEM key for peer streams"`
	CA   string `yaml:"ca" doc:"PEM certificate authority of the mesh"`
}

// DiscoveryConfig finds replicas that come and go.
type DiscoveryConfig struct {
	DNS       []string      `yaml:"dns" doc:"names whose addresses are replicas: http://name:port"`
	Render    []string      `yaml:"render" doc:"names whose addresses are render servers: http://name:port"`
	SlowStart time.Duration `yaml:"slow_start" doc:"a replica that came up gets less than its share for this long; 0 = off"`
	// Replica is what neither DNS nor a pod says of a replica.
	Replica    fleet.Template         `yaml:"replica"`
	Kubernetes fleet.KubernetesConfig `yaml:"kubernetes"`
}

// IngestConfig says who listens to the engines.
type IngestConfig struct {
	Owners string `yaml:"owners" doc:"peers subscribed to each stream: a number or all"`
	Listen string `yaml:"listen" doc:"SUB bind address for engines that dial us: tcp://*:5557"`
	Poll   bool   `yaml:"poll" doc:"read the events of every TensorRT-LLM replica; this takes them from any other reader"`
	Token  string `yaml:"token" doc:"bearer token of POST /v1/kv-events on the admin listener; empty turns it off" secret:"true"`
}

// DrainConfig is the clean shutdown.
type DrainConfig struct {
	Delay   time.Duration `yaml:"delay" doc:"between not-ready and closing the listener"`
	Timeout time.Duration `yaml:"timeout" doc:"for running streams after that"`
}

// LimitsConfig bounds what clients may ask.
type LimitsConfig struct {
	BodyBytes    int64         `yaml:"body_bytes" doc:"largest request body"`
	BodyTime     time.Duration `yaml:"body_time" doc:"longest a client may take to send its body"`
	HeaderTime   time.Duration `yaml:"-"` // longest a client may take to send a request's header, TLS handshake included
	Connections  int           `yaml:"connections" doc:"open client connections; a newcomer beyond them replaces the one that waits longest for its client, or is told that this peer is full; 0 = no limit"`
	Concurrency  int           `yaml:"concurrency" doc:"requests in flight"`
	Queue        int           `yaml:"queue" doc:"requests that wait beyond limits.concurrency; more get 429"`
	QueueTimeout time.Duration `yaml:"queue_timeout" doc:"longest wait in the queue"`
	TTFT         time.Duration `yaml:"ttft" doc:"longest wait for the first byte of a streamed answer, per try"`
	Answer       time.Duration `yaml:"answer" doc:"longest wait for the first byte of an answer that is not streamed, per try"`
	Idle         time.Duration `yaml:"idle" doc:"longest silence of a replica inside an answer; then it is cut"`
	Deadline     time.Duration `yaml:"deadline" doc:"longest wait for the first byte of an answer, from the request on, all tries together; then 504; 0 = no limit"`
	Retries      int           `yaml:"retries" doc:"tries on other replicas before the first byte"`
	Continue     bool          `yaml:"continue_streams" doc:"when a vLLM replica is lost in mid-answer, another one goes on with the stream and the client notices nothing; for text without tools, stop strings and grammars; costs 4 bytes a token in flight"`
	Tokenize     time.Duration `yaml:"tokenize" doc:"deadline for asking an engine for token ids"`
	Memory       int64         `yaml:"memory" doc:"bytes for what is known of the replicas' caches; beyond that predictions are dropped first, then the streams that grew most; 0 = half of the container's or the machine's memory"`
	StreamFacts  int           `yaml:"stream_facts" doc:"blocks that one replica may announce; beyond, its cache is guessed; less where it tells a small cache"`
	Predictions  int           `yaml:"predictions" doc:"predicted blocks kept per replica and namespace; one number per mesh"`
}

// AuthConfig is who may call.
type AuthConfig struct {
	KeysFile string `yaml:"keys_file" doc:"hashed bearer keys; lines may end in tenant=NAME"`
}

// LogConfig shapes the log on stderr.
type LogConfig struct {
	Level string `yaml:"level" doc:"debug, info, warn or error"`
	JSON  bool   `yaml:"json" doc:"one JSON object a line"`
}

// DefaultConfig returns the documented defaults.
func DefaultConfig() Config {
	return Config{
		HTTP:  HTTPConfig{Listen: ":8080", ConnectionAge: 2 * time.Minute},
		Admin: AdminConfig{Listen: "127.0.0.1:8081"},
		Mesh:  MeshConfig{Bind: "0.0.0.0:7946", Label: "banyan"},
		Discovery: DiscoveryConfig{
			SlowStart: 10 * time.Second, Kubernetes: fleet.KubernetesConfig{Port: 8000, Account: fleet.DefaultAccount},
		},
		Ingest:    IngestConfig{Owners: "2"},
		Drain:     DrainConfig{Delay: 15 * time.Second, Timeout: 10 * time.Minute},
		Grid:      16,
		Tokenizer: "auto",
		Policy:    "ttft",
		Routing:   policy.DefaultConfig(),
		Limits: LimitsConfig{
			BodyBytes: 32 << 20, BodyTime: time.Minute, HeaderTime: 10 * time.Second, Connections: 32768, Concurrency: 4096, Queue: 4096, QueueTimeout: 30 * time.Second,
			TTFT: 5 * time.Minute, Answer: 30 * time.Minute, Idle: 5 * time.Minute, Deadline: 30 * time.Minute, Retries: 2, Tokenize: 250 * time.Millisecond,
			StreamFacts: 4 << 20, Predictions: 1 << 16,
		},
		Admission: AdmissionConfig{Classes: 3, DefaultClass: 1},
		Hedge:     HedgeConfig{Ratio: 0.05},
		Tracing:   tracing.DefaultConfig(),
		Log:       LogConfig{Level: "info"},
		AccessLog: requests.DefaultConfig(),
	}
}

// Validate reports every fault at once, each beginning with its key.
func (c *Config) Validate() error {
	var errs []error
	bad := func(key, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...)))
	}
	address := func(key, value string) {
		if _, port, err := net.SplitHostPort(value); err != nil {
			bad(key, "%q is not host:port", value)
		} else if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
			bad(key, "port %q is not a number from 0 to 65535", port)
		}
	}
	address("http.listen", c.HTTP.Listen)
	address("admin.listen", c.Admin.Listen)
	address("mesh.bind", c.Mesh.Bind)
	if sameAddress(c.HTTP.Listen, c.Admin.Listen) {
		bad("admin.listen", "%q is http.listen's address too: give each its own port", c.Admin.Listen)
	}
	for key, listen := range map[string]string{"http.listen": c.HTTP.Listen, "admin.listen": c.Admin.Listen} {
		if sameAddress(listen, c.Mesh.Bind) {
			bad("mesh.bind", "%q is %s's address too: give each its own port", c.Mesh.Bind, key)
		}
	}
	if c.Mesh.Advertise != "" {
		address("mesh.advertise", c.Mesh.Advertise)
	}
	for i, seed := range c.Mesh.Join {
		errs = append(errs, mesh.CheckSeed(i, seed))
	}
	if c.Mesh.Name != "" {
		errs = append(errs, mesh.CheckName(c.Mesh.Name))
	}
	errs = append(errs, mesh.CheckLabel(c.Mesh.Label))
	if c.Mesh.Key != "" {
		if err := mesh.CheckKey(c.Mesh.Key); err != nil {
			bad("mesh.key", "%v; `banyan keygen` makes one", err)
		}
	}
	if c.Mesh.Key == "" && c.Mesh.Keyring == "" && !c.Mesh.Insecure {
		bad("mesh.key", "required, or a file of keys in mesh.keyring: make one with `banyan keygen > mesh.key`, or pass --insecure-mesh to run without")
	}
	if t := c.Mesh.TLS; (t.Cert == "") != (t.Key == "") || (t.Cert == "") != (t.CA == "") {
		bad("mesh.tls", "cert, key and ca go together")
	}
	if c.Admin.open() && !c.Admin.Insecure {
		bad("admin.keys_file", "required, because %q can be reached from elsewhere: make keys with `banyan keygen --admin NAME`, "+
			"ask for client certificates (admin.tls.client_ca), listen on 127.0.0.1, or pass --insecure-admin to run without", c.Admin.Listen)
	}
	for key, path := range c.files() {
		if _, err := os.Stat(path); err != nil {
			bad(key, "%v", missing(path, err))
		}
	}
	errs = append(errs, c.HTTP.TLS.Validate("http.tls"), c.Admin.TLS.Validate("admin.tls"))
	if c.IsolateBy != "" && !isToken(c.IsolateBy) {
		bad("isolate_by", "%q is not the name of a header", c.IsolateBy)
	}
	if c.Grid < 1 || c.Grid > 1024 {
		bad("grid", "%d is not from 1 to 1024", c.Grid)
	}
	switch c.Tokenizer {
	case "auto", "engine", "text":
	default:
		bad("tokenizer", "%q is not auto, engine or text", c.Tokenizer)
	}
	if names := policy.Names(); !slices.Contains(names, c.Policy) {
		bad("policy", "%q is not one of %s", c.Policy, strings.Join(names, ", "))
	}
	if err := c.Routing.Validate(); err != nil {
		for fault := range strings.SplitSeq(err.Error(), "\n") {
			errs = append(errs, errors.New("routing."+fault))
		}
	}
	if _, err := c.Ingest.owners(); err != nil {
		bad("ingest.owners", "%v", err)
	}
	if c.Ingest.Listen != "" && !strings.HasPrefix(c.Ingest.Listen, "tcp://") {
		bad("ingest.listen", "%q does not begin with tcp://", c.Ingest.Listen)
	}
	positive := func(key string, v any) { // a whole number or a duration
		if reflect.ValueOf(v).Int() <= 0 {
			bad(key, "must be more than 0, not %v", v)
		}
	}
	positive("limits.body_bytes", c.Limits.BodyBytes)
	positive("limits.body_time", c.Limits.BodyTime)
	positive("limits.concurrency", c.Limits.Concurrency)
	positive("limits.ttft", c.Limits.TTFT)
	positive("limits.answer", c.Limits.Answer)
	positive("limits.idle", c.Limits.Idle)
	positive("limits.tokenize", c.Limits.Tokenize)
	positive("limits.stream_facts", c.Limits.StreamFacts)
	positive("limits.predictions", c.Limits.Predictions)
	natural := func(key string, v any) {
		if reflect.ValueOf(v).Int() < 0 {
			bad(key, "must be 0 or more, not %v", v)
		}
	}
	natural("limits.memory", c.Limits.Memory)
	natural("limits.queue", c.Limits.Queue)
	natural("limits.retries", c.Limits.Retries)
	natural("limits.queue_timeout", c.Limits.QueueTimeout)
	natural("limits.deadline", c.Limits.Deadline)
	natural("limits.connections", c.Limits.Connections)
	natural("drain.delay", c.Drain.Delay)
	natural("drain.timeout", c.Drain.Timeout)
	natural("http.connection_age", c.HTTP.ConnectionAge)
	natural("discovery.slow_start", c.Discovery.SlowStart)
	switch c.Log.Level {
	case "debug", "info", "warn", "error":
	default:
		bad("log.level", "%q is not debug, info, warn or error", c.Log.Level)
	}
	for key, names := range map[string][]string{"discovery.dns": c.Discovery.DNS, "discovery.render": c.Discovery.Render} {
		for i, name := range names {
			if u, err := url.Parse(name); err != nil || u.Scheme == "" || u.Hostname() == "" {
				bad(fmt.Sprintf("%s[%d]", key, i), "%q is not a URL like http://name:8000", name)
			}
		}
	}
	errs = append(errs, c.AccessLog.Faults()...)
	errs = append(errs, c.Admission.validate(), c.Tracing.Validate(), c.Hedge.validate(), fleet.ValidateSpecs(c.Replicas), c.Discovery.Replica.Validate("discovery.replica"),
		c.Discovery.Kubernetes.Validate("discovery.kubernetes"))
	return errors.Join(errs...)
}

// open reports whether strangers could use the listener: it is not on loopback
// and asks for nothing.
func (c *AdminConfig) open() bool {
	host, _, err := net.SplitHostPort(c.Listen)
	ip := net.ParseIP(host)
	return err == nil && host != "localhost" && !ip.IsLoopback() && c.KeysFile == "" && c.TLS.ClientCA == ""
}

// missing says which file a name stands for that is not there.
func missing(path string, err error) error {
	full, absErr := filepath.Abs(path)
	if !errors.Is(err, fs.ErrNotExist) || absErr != nil || filepath.IsAbs(path) {
		return err
	}
	return fmt.Errorf("%s: no such file or directory (looked for %s)", path, full)
}

// files are all that the configuration names, by key.
func (c *Config) files() map[string]string {
	out := c.named()
	if t := c.Mesh.TLS; t.Cert != "" && t.Key != "" && t.CA != "" {
		out["mesh.tls.cert"], out["mesh.tls.key"], out["mesh.tls.ca"] = t.Cert, t.Key, t.CA
	}
	if path := c.AccessLog.Path; path != "" && path != requests.Stdout {
		out["access_log.path"] = filepath.Dir(path)
	}
	return out
}

// named are the files that a change of has the configuration read again, by key.
// The mesh reads its certificates itself.
func (c *Config) named() map[string]string {
	out := map[string]string{
		"mesh.hash_secret": c.Mesh.HashSecret, "mesh.keyring": c.Mesh.Keyring, "auth.keys_file": c.Auth.KeysFile, "admin.keys_file": c.Admin.KeysFile,
		"http.tls.cert": c.HTTP.TLS.Cert, "http.tls.key": c.HTTP.TLS.Key, "http.tls.client_ca": c.HTTP.TLS.ClientCA,
		"admin.tls.cert": c.Admin.TLS.Cert, "admin.tls.key": c.Admin.TLS.Key, "admin.tls.client_ca": c.Admin.TLS.ClientCA,
	}
	for i := range c.Replicas {
		out[fmt.Sprintf("replicas[%d].credentials_file", i)] = c.Replicas[i].CredentialsFile
	}
	maps.DeleteFunc(out, func(_, path string) bool { return path == "" })
	return out
}

// isToken reports whether s may name a header (RFC 9110 section 5.6.2).
func isToken(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	}) < 0
}

// owners is how many peers listen to each stream; 0 means all.
func (c IngestConfig) owners() (int, error) {
	if c.Owners == "all" {
		return 0, nil
	}
	n, err := strconv.Atoi(c.Owners)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%q is not a number from 1 or all", c.Owners)
	}
	return n, nil
}

// sameAddress reports whether two listeners would want one port of one address.
// Port 0 is any free one.
func sameAddress(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB || portA == "0" {
		return false
	}
	all := func(host string) bool { return host == "" || net.ParseIP(host).IsUnspecified() }
	return hostA == hostB || all(hostA) || all(hostB)
}
