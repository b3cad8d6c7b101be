package router

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/banyan-llm/banyan/router/access"
	"github.com/banyan-llm/banyan/router/console"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/metrics"
)

// told is a configuration that a test changes while a peer follows it.
type told struct {
	mu  sync.Mutex
	cfg Config
	err error
}

func (s *told) load() (Config, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cfg, s.err
}

func (s *told) change(f func(*Config), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.cfg)
	s.err = err
}

// followingPeer is a quiet peer whose log and configuration the test has.
func followingPeer(t *testing.T, change func(*Config)) (*Peer, *told, *bytes.Buffer) {
	t.Helper()
	s, log := &told{}, &bytes.Buffer{}
	p := loggingPeer(t, log, func(c *Config) {
		change(c)
		s.cfg = *c
	})
	p.rules.source.Load = s.load
	return p, s, log
}

func TestAReloadTakesUpWhatItCanAndNamesTheRest(t *testing.T) {
	p, s, log := followingPeer(t, func(c *Config) {
		c.Replicas = []fleet.Spec{{Name: "a", URL: "http://a:1"}, {Name: "b", URL: "http://b:1", Credentials: "hush-old"}}
		c.Ingest.Token = "hush-token"
	})
	kept := p.fleet.Get("a")
	s.change(func(c *Config) {
		c.Replicas = []fleet.Spec{{Name: "a", URL: "http://a:1"}, {Name: "c", URL: "http://c:1", Credentials: "hush-new"}}
		c.Policy, c.Routing.TTFT.StaleMs, c.Log.Level, c.Ingest.Token = "prefix", 1234, "debug", "hush-token-2"
		c.Limits.Concurrency, c.Drain.Delay, c.Admin.Hosts = 7, 3, []string{"h"}
		c.Grid, c.HTTP.Listen, c.Limits.Predictions, c.Routing.Disagg.Mode = 32, ":1", 5, "threshold"
	}, nil)
	if err := p.rules.reload(false); err != nil {
		t.Fatal(err)
	}
	c := p.rules.config()
	if c.Policy != "prefix" || c.Routing.TTFT.StaleMs != 1234 || c.Limits.Concurrency != 7 || c.Drain.Delay != 3 || c.Ingest.Token != "hush-token-2" {
		t.Errorf("not taken up: %+v", c)
	}
	if c.Grid != 16 || c.HTTP.Listen != "127.0.0.1:0" || c.Limits.Predictions != 1<<16 || c.Routing.Disagg.On() {
		t.Errorf("taken up without a restart: %+v", c)
	}
	if p.fleet.Get("a") != kept || p.fleet.Get("b") != nil || p.fleet.Get("c").Spec.Credentials != "hush-new" {
		t.Error("the fleet is not the new list")
	}
	if !p.log.IsDebug() {
		t.Error("the log level stayed")
	}
	if !slices.Contains(p.rules.Load().Hosts, "h") {
		t.Error("the new name is not answered to")
	}
	restart := []string{"http.listen", "grid", "routing.disaggregate.mode", "limits.predictions"}
	if st := p.Status().Config; !slices.Equal(st.Restart, restart) || st.Fault != "" {
		t.Errorf("status %+v", st)
	}
	text := log.String()
	for _, want := range append(restart, "policy: ttft -> prefix", "replicas: a b -> a c", "limits.concurrency: 4096 -> 7", "ingest.token") {
		if !strings.Contains(text, want) {
			t.Errorf("the log does not say %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "hush") {
		t.Errorf("the log holds a secret:\n%s", text)
	}
	log.Reset()
	if err := p.rules.reload(false); err != nil || log.Len() > 0 {
		t.Errorf("nothing changed, %v: %s", err, log)
	}
}

func TestABadConfigurationChangesNothing(t *testing.T) {
	_, line := access.NewKey("a")
	clients := fileOf(t, line)
	p, s, log := followingPeer(t, func(c *Config) {
		c.Auth.KeysFile = clients
		c.Replicas = []fleet.Spec{{Name: "a", URL: "http://a:1"}}
	})
	before := p.rules.Load()
	s.change(func(c *Config) {
		c.Policy = "nonsense"
		c.Replicas = []fleet.Spec{{URL: "nonsense"}, {Name: "b", URL: "http://b:1", CredentialsFile: "/does/not/exist"}}
		c.Limits.Concurrency = 0
	}, nil)
	if err := os.WriteFile(clients, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if p.rules.reload(false) == nil {
			t.Fatal("taken up")
		}
	}
	for _, want := range []string{"policy", "replicas[0].url", "replicas[1].credentials_file", "limits.concurrency", "auth.keys_file"} {
		if n := strings.Count(log.String(), want+":"); n != 1 {
			t.Errorf("%q is logged %d times:\n%s", want, n, log)
		}
		if !strings.Contains(p.Status().Config.Fault, want+":") {
			t.Errorf("the status does not say %q: %s", want, p.Status().Config.Fault)
		}
	}
	if p.rules.Load() != before || p.fleet.Get("a") == nil {
		t.Error("something changed")
	}
	if n := metrics.Count(p.metrics.ReloadFailures); n != 3 {
		t.Errorf("%d failures are counted", n)
	}
	s.change(func(c *Config) { *c = *before.told }, errors.New("banyan.yaml is empty"))
	if err := p.rules.reload(false); err == nil || !strings.Contains(p.Status().Config.Fault, "is empty") {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(clients, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	s.change(func(*Config) {}, nil)
	for _, nobody := range []string{"", "# later\n"} { // emptied, or half written
		if err := os.WriteFile(clients, []byte(nobody), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := p.rules.reload(false); err == nil || !strings.Contains(p.Status().Config.Fault, "holds no key") || p.rules.Load() != before {
			t.Errorf("a keys file of %q: %v", nobody, err)
		}
	}
	if err := os.WriteFile(clients, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	s.change(func(c *Config) { c.Policy = "random" }, nil)
	if err := p.rules.reload(false); err != nil || p.rules.config().Policy != "random" || p.Status().Config.Fault != "" {
		t.Errorf("after the faults were mended: %v, policy %s", err, p.rules.config().Policy)
	}
}

// What decides who may come in is given at the start.
func TestAReloadOpensNoDoor(t *testing.T) {
	for _, key := range []string{
		"auth.keys_file", "admin.keys_file", "admin.insecure", "admin.listen", "http.listen", "http.tls.cert", "http.tls.client_ca", "admin.tls.client_ca",
		"mesh.insecure", "mesh.keyring", "mesh.hash_secret", "mesh.label", "isolate_by",
	} {
		if isReloadable(key) {
			t.Errorf("%s changes while a peer runs", key)
		}
	}
	cfg := DefaultConfig()
	known := map[string]bool{}
	for _, s := range Settings(&cfg) {
		known[s.Key] = true
	}
	for _, key := range append(slices.Clone(fixed), reloadable...) {
		found := known[key]
		for k := range known {
			found = found || strings.HasPrefix(k, key+".")
		}
		if !found {
			t.Errorf("there is no setting %s", key)
		}
	}
}

func TestStampsSeeEveryKindOfChange(t *testing.T) {
	dir := t.TempDir()
	path := func(parts ...string) string { return filepath.Join(append([]string{dir}, parts...)...) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	// As Kubernetes mounts a ConfigMap: file -> ..data/file, ..data -> a dated folder.
	for _, version := range []string{"v1", "v2"} {
		must(os.Mkdir(path(version), 0o700))
		must(os.WriteFile(path(version, "banyan.yaml"), []byte("same size "+version), 0o600))
	}
	must(os.Symlink("v1", path("..data")))
	must(os.Symlink(filepath.Join("..data", "banyan.yaml"), path("banyan.yaml")))
	at := fileStatesOf([]string{path("banyan.yaml"), path("absent")})
	if !at.equal(at.again()) {
		t.Fatal("nothing changed")
	}
	for _, c := range []struct {
		what string
		do   func()
	}{
		{"the swap of the link above", func() {
			must(os.Symlink("v2", path("..tmp")))
			must(os.Rename(path("..tmp"), path("..data")))
		}},
		{"a file that appears", func() { must(os.WriteFile(path("absent"), nil, 0o600)) }},
		{"a longer file", func() { must(os.WriteFile(path("absent"), []byte("x"), 0o600)) }},
		{"a file that vanishes", func() { must(os.Remove(path("banyan.yaml"))) }},
	} {
		c.do()
		now := at.again()
		if at.equal(now) || now.equal(at) {
			t.Errorf("%s goes unseen", c.what)
		}
		at = now
	}
}

func TestCredentialsComeFromWhereTheConfigurationSays(t *testing.T) {
	t.Setenv("TEST_REPLICA_KEY", "of-env")
	cfg := DefaultConfig()
	cfg.Replicas = []fleet.Spec{
		{URL: "http://a:1", CredentialsFile: fileOf(t, "of-file")}, {URL: "http://b:1", CredentialsEnv: "TEST_REPLICA_KEY"}, {URL: "http://c:1", Credentials: "said"}, {URL: "http://d:1"},
	}
	got, faults := cfg.withCredentials()
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	for i, want := range []string{"of-file", "of-env", "said", ""} {
		if got.Replicas[i].Credentials != want {
			t.Errorf("replica %d has %q, want %q", i, got.Replicas[i].Credentials, want)
		}
	}
	if cfg.Replicas[0].Credentials != "" {
		t.Error("the configuration as it was given changed")
	}
	for want, bad := range map[string]fleet.Spec{
		"credentials: give one":                   {URL: "http://a:1", Credentials: "hush", CredentialsEnv: "TEST_REPLICA_KEY"},
		"credentials_file: ":                      {URL: "http://a:1", CredentialsFile: fileOf(t, "hush", "more")},
		"credentials_env: NO_SUCH_VAR is not set": {URL: "http://a:1", CredentialsEnv: "NO_SUCH_VAR"},
	} {
		cfg.Replicas = []fleet.Spec{bad}
		_, faults := cfg.withCredentials()
		if text := fmt.Sprint(faults); len(faults) != 1 || !strings.Contains(text, "replicas[0]."+want) || strings.Contains(text, "hush") {
			t.Errorf("%s: %v", want, faults)
		}
	}
}

// A faulty file is said to be faulty once, and to be right again once.
func TestAMendedConfigurationIsTold(t *testing.T) {
	p, s, log := followingPeer(t, func(c *Config) { c.Replicas = []fleet.Spec{{Name: "a", URL: "http://a:1"}} })
	s.change(func(*Config) {}, errors.New("a: no such key (line 1)"))
	for range 3 {
		if p.rules.reload(false) == nil {
			t.Fatal("taken up")
		}
	}
	var out strings.Builder
	if err := p.Status().WriteChecks(&out, console.Look{}); err != nil || !strings.Contains(out.String(), "× a changed configuration was not applied") {
		t.Errorf("%v:\n%s", err, out.String())
	}
	s.change(func(*Config) {}, nil)
	for range 2 {
		if err := p.rules.reload(false); err != nil {
			t.Fatal(err)
		}
	}
	if text := log.String(); strings.Count(text, "configuration rejected") != 1 || strings.Count(text, "valid again") != 1 {
		t.Errorf("%s", text)
	}
}
