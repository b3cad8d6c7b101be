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
	Replicas  []fleet.Spec    `yaml:"replicas" doc:"inference servers: [{url: 'http://10.0.1.10:8000', events: 'tcp://10.0.1.10:5557'}, …]; only url is needed; more keys: name, engine, replay, topic, ranks, rank, role, kind, model, p2p, priority, labels, credentials, credentials_file, credentials_env"`
	Discovery DiscoveryConfig `yaml:"discovery"`
	Ingest    IngestConfig    `yaml:"ingest"`
	Drain     DrainConfig     `yaml:"drain"`
	IsolateBy string          `yaml:"isolate_by" doc:"request header that names the tenant; tenants then share no cached prefixes: each has a cache_salt of its own, a keyed hash of the name; empty = off"`
	Grid      int             `yaml:"grid" doc:"tokens per block of the prefix index; the same on all peers; every engine's block size must divide it, or be a multiple of it (up to 16 times)"`
	Tokenizer string          `yaml:"tokenizer" doc:"how prompts become block hashes: engine (exact: asks the replica for the token ids), text (hashes the text), auto (engine where a replica can be asked, else text)"`
	Policy    string          `yaml:"policy" doc:"routing policy: ttft, prefix, cache_aware, cost, weighted, sticky, consistent_hash, least_loaded, power_of_two, round_robin or random"`
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
	Listen         string           `yaml:"listen" doc:"address of the OpenAI API, for clients and the balancer"`
	ConnectionAge  time.Duration    `yaml:"connection_age" doc:"close client connections after this (+-20 %), between requests, so that a balancer spreads clients over new peers; 0 = never"`
	PolicyOverride bool             `yaml:"policy_override" doc:"let clients choose the policy by the request header X-Banyan-Policy"`
	AllowedOrigins []string         `yaml:"allowed_origins" doc:"origins of web pages that may call the API from a browser (CORS), as https://app.example.com; * = any; empty = none; what engines say of origins is not passed on"`
	TLS            access.TLSConfig `yaml:"tls"`
}

// AdminConfig is the admin listener. Beyond loopback it asks for keys or client
// certificates, unless it is told not to.
type AdminConfig struct {
	Listen   string           `yaml:"listen" doc:"address of status, metrics, console and drain"`
	Hosts    []string         `yaml:"hosts" doc:"names accepted in the Host header, besides IP addresses and localhost; * = any"`
	KeysFile string           `yaml:"keys_file" doc:"file of hashed admin keys (banyan keygen --admin NAME); lines may end in role=read; empty = no key is asked for"`
	Insecure bool             `yaml:"insecure" doc:"let anybody use an admin listener beyond loopback: no keys, no client certificates"`
	TLS      access.TLSConfig `yaml:"tls"`
}

// MeshConfig is the mesh listener and how peers find and trust each other.
type MeshConfig struct {
	Bind       string        `yaml:"bind" doc:"address for gossip (UDP and TCP) and for connections between peers; one port, open both ways"`
	Advertise  string        `yaml:"advertise" doc:"address that other peers connect to; default: that of mesh.bind, or if it is 0.0.0.0 the address of an interface, a private IPv4 one if there is any"`
	Join       []string      `yaml:"join" doc:"seeds: other peers as host:port or DNS names, tried again for ever"`
	Name       string        `yaml:"name" doc:"name of this peer in status and logs; default: host name and a random suffix"`
	HashSecret string        `yaml:"hash_secret" doc:"file with a secret that every block hash is keyed with; the same on all peers; default: derived from mesh.label, which is no secret"`
	Key        string        `yaml:"key" doc:"gossip key in base64 (banyan keygen); the same on all peers" secret:"true"`
	Keyring    string        `yaml:"keyring" doc:"file with one base64 gossip key per line; the first one encrypts, all of them decrypt"`
	Label      string        `yaml:"label" doc:"name of the mesh; peers with a different label are refused"`
	Insecure   bool          `yaml:"insecure" doc:"run without a gossip key: anyone who reaches the port is a peer"`
	TLS        MeshTLSConfig `yaml:"tls"`
}

// MeshTLSConfig names the PEM files of peer streams; without them certificates
// are derived from the gossip keys.
type MeshTLSConfig struct {
	Cert string `yaml:"cert" doc:"file with this peer's certificate for connections between peers (PEM); default: made from the gossip keys"`
	Key  string `yaml:"key" doc:"file with the private key of mesh.tls.cert (PEM)"`
	CA   string `yaml:"ca" doc:"file with the CA certificate of the mesh (PEM)"`
}

// DiscoveryConfig finds replicas that come and go.
type DiscoveryConfig struct {
	DNS       []string      `yaml:"dns" doc:"DNS names whose addresses are replicas, as http://name:port"`
	Render    []string      `yaml:"render" doc:"DNS names whose addresses are render servers (asked only for the token ids of prompts), as http://name:port"`
	SlowStart time.Duration `yaml:"slow_start" doc:"ramp up the traffic of a replica that came up over this time; 0 = off"`
	// Replica is what neither DNS nor a pod says of a replica.
	Replica    fleet.Template         `yaml:"replica"`
	Kubernetes fleet.KubernetesConfig `yaml:"kubernetes"`
}

// IngestConfig says who listens to the engines.
type IngestConfig struct {
	Owners string `yaml:"owners" doc:"how many peers subscribe to the KV events of each replica: a number, or all"`
	Listen string `yaml:"listen" doc:"ZeroMQ address to listen on for engines that connect to the router, as tcp://*:5557; empty = off"`
	Poll   bool   `yaml:"poll" doc:"read the KV events of every TensorRT-LLM replica; any other reader then misses them: set it only if nothing else reads them"`
	Token  string `yaml:"token" doc:"bearer token of POST /v1/kv-events on the admin listener; empty = off" secret:"true"`
}

// DrainConfig is the clean shutdown.
type DrainConfig struct {
	Delay   time.Duration `yaml:"delay" doc:"wait between answering not ready and closing the listener; must be longer than the balancer takes to notice"`
	Timeout time.Duration `yaml:"timeout" doc:"longest wait, after drain.delay, for running requests to end; then they are cut"`
}

// LimitsConfig bounds what clients may ask.
type LimitsConfig struct {
	BodyBytes    int64         `yaml:"body_bytes" doc:"largest request body, in bytes"`
	BodyTime     time.Duration `yaml:"body_time" doc:"longest a client may take to send its body"`
	HeaderTime   time.Duration `yaml:"-"` // longest a client may take to send a request's header, TLS handshake included
	Connections  int           `yaml:"connections" doc:"most open client connections; beyond it a new one replaces the one that has waited longest for its client (for a request or its body), or gets 503 if none is waiting; 0 = no limit"`
	Concurrency  int           `yaml:"concurrency" doc:"most requests in flight at this peer; more wait in the queue (limits.queue)"`
	Queue        int           `yaml:"queue" doc:"requests that wait beyond limits.concurrency; more get 429"`
	QueueTimeout time.Duration `yaml:"queue_timeout" doc:"longest wait in the queue; then 429"`
	TTFT         time.Duration `yaml:"ttft" doc:"longest wait for the first byte of a streamed response, per try"`
	Answer       time.Duration `yaml:"answer" doc:"longest wait for the first byte of a response that is not streamed, per try"`
	Idle         time.Duration `yaml:"idle" doc:"longest pause within a response; then the response is cut"`
	Deadline     time.Duration `yaml:"deadline" doc:"longest wait for the first byte of a response, from the request on, all tries together; then 504; 0 = no limit"`
	Retries      int           `yaml:"retries" doc:"most retries on other replicas, while no byte has gone to the client"`
	Continue     bool          `yaml:"continue_streams" doc:"if a vLLM replica fails during a streamed response, another one continues it and the client sees one response; not with tools, stop strings or grammars; costs 4 bytes per token in flight"`
	Tokenize     time.Duration `yaml:"tokenize" doc:"longest wait for an engine's token ids of a prompt; then the text is hashed"`
	Memory       int64         `yaml:"memory" doc:"memory for the prefix index, in bytes; beyond it predictions are dropped first, then the blocks of the replicas that grew most, whose cache is predicted from then on; 0 = half of the container's or the machine's memory"`
	StreamFacts  int           `yaml:"stream_facts" doc:"most cached blocks of one replica (a replica that reports a small KV cache may have fewer); beyond it its KV events are ignored and its cache is predicted"`
	Predictions  int           `yaml:"predictions" doc:"most predicted blocks kept per replica and namespace (tenant or LoRA adapter); the same on all peers"`
}

// AuthConfig is who may call.
type AuthConfig struct {
	KeysFile string `yaml:"keys_file" doc:"file of hashed client keys (banyan keygen --client NAME); lines may end in tenant=NAME; empty = no key is asked for"`
}

// LogConfig shapes the log on stderr.
type LogConfig struct {
	Level string `yaml:"level" doc:"debug, info, warn or error"`
	JSON  bool   `yaml:"json" doc:"one JSON object per line"`
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
	for i, origin := range c.HTTP.AllowedOrigins {
		if err := access.ValidateOrigin(origin); err != nil {
			bad(fmt.Sprintf("http.allowed_origins[%d]", i), "%v", err)
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
