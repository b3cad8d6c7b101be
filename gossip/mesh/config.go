package mesh

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
)

// Core is the protocol the shell drives; *gossip.Core is one. It is called
// from one goroutine only.
type Core interface {
	// Step handles one event at a time of Config.Now, in ms since 1970.
	Step(nowMs int64, ev gossip.Event) []gossip.Effect
	// NextTick is when the core wants to be stepped next, ms.
	NextTick() int64
	// Links appends the known peers by id, for Members.
	Links([]gossip.Link) []gossip.Link
}

// TLSFiles are the PEM files for mutual TLS on peer streams. All or none; they
// are read again when they change. With none, certificates are derived from
// the keyring.
type TLSFiles struct {
	Cert, Key, CA string
}

func (f TLSFiles) any() bool { return f.Cert != "" || f.Key != "" || f.CA != "" }
func (f TLSFiles) all() bool { return f.Cert != "" && f.Key != "" && f.CA != "" }

// Timing are the shell's own times. Zero values take the defaults.
type Timing struct {
	JoinEvery time.Duration // seeds are resolved and tried again; default 30 s ± 20 %
	ReapAfter time.Duration // failed and left members are remembered; default 1 h
	Hello     time.Duration // a stranger has this long to say who it is; default 5 s
	Dial      time.Duration // TCP connect; default 3 s
	Stall     time.Duration // one write, or the rest of a frame begun; default 10 s
}

// Config is what a Mesh is made from.
type Config struct {
	Name      string      // for people, 1 to 100 bytes; serf's node name adds a piece of the peer id
	PeerID    crdt.PeerID // 128 random bits per process start; the core's Self
	Bind      string      // host:port for UDP and TCP; port 0 takes a free one
	Advertise string      // host:port or host that other peers use; default from Bind
	Join      []string    // seeds, host:port or host; retried without end (I7)
	Label     string      // cluster label, 1 to 255 bytes
	Keyring   []string    // base64 keys of 16, 24 or 32 bytes; the first one encrypts
	Insecure  bool        // allows an empty keyring: no encryption, and plaintext peer streams unless TLS is set
	TLS       TLSFiles
	Version   string // of the software, for people, at most 63 bytes
	HTTP      string // public listener's address for others, at most 127 bytes

	Core Core
	// Local takes the effects the shell does not handle itself: CutSnapshot,
	// JoinSnapshot, Missing, Observed, Caught. It is called from the loop, must
	// not block and must not call Do. nil ignores them.
	Local func(gossip.Effect)
	// OnChange is called after Members changed by an event of membership. It
	// must not block. nil is allowed.
	OnChange func()

	Logger     hclog.Logger          // nil: none
	Registerer prometheus.Registerer // nil: metrics are kept but not registered
	// Clock is the wall clock; nil: time.Now.
	Clock func() time.Time
	// Now is the core's time: it never runs back, and setting the wall clock does
	// not move it. nil: what Clock told when the mesh was made, and what passed
	// since.
	Now    func() time.Time
	Timing Timing

	tune func(*serf.Config) // tests: faster failure detection
	wire *wire              // tests: a network that can be cut; nil: the host's
}

const (
	maxNodeName = 100
	maxVersion  = 63
	maxHTTP     = 127
	maxSettings = 64
	maxSeeds    = 256
	defaultPort = "7946"
)

// Validate reports all faults, each beginning with its key.
func (c *Config) Validate() error {
	var errs []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	errs = append(errs, CheckName(c.Name))
	fault(c.PeerID == crdt.PeerID{}, "mesh.name: no peer id")
	fault(c.Core == nil, "mesh: no core")
	fault(!isAddress(c.Bind, true), "mesh.bind: %q is not host:port", c.Bind)
	fault(c.Advertise != "" && !isAddress(c.Advertise, false), "mesh.advertise: %q is not host or host:port", c.Advertise)
	fault(len(c.Join) > maxSeeds, "mesh.join: more than %d seeds", maxSeeds)
	for i, s := range c.Join {
		errs = append(errs, CheckSeed(i, s))
	}
	errs = append(errs, CheckLabel(c.Label))
	fault(c.TLS.any() && !c.TLS.all(), "mesh.tls: cert, key and ca go together")
	fault(c.Version != "" && !plain(c.Version, maxVersion), "mesh: version is not at most %d printable bytes", maxVersion)
	fault(c.HTTP != "" && !plain(c.HTTP, maxHTTP), "mesh: http address is not at most %d printable bytes", maxHTTP)
	if _, err := decodeKeys(c.Keyring); err != nil {
		errs = append(errs, err)
	}
	fault(len(c.Keyring) == 0 && !c.Insecure,
		"mesh.key: no keyring; `banyan keygen` makes a key, insecure runs without one")
	return errors.Join(errs...)
}

// CheckName reports what is wrong with the name of a peer.
func CheckName(name string) error {
	if !plain(name, maxNodeName) {
		return fmt.Errorf("mesh.name: %q is not 1 to %d printable bytes without spaces", name, maxNodeName)
	}
	return nil
}

// CheckLabel reports what is wrong with the label of a mesh.
func CheckLabel(label string) error {
	if len(label) < 1 || len(label) > memberlist.LabelMaxSize {
		return fmt.Errorf("mesh.label: not 1 to %d bytes", memberlist.LabelMaxSize)
	}
	return nil
}

// CheckSeed reports what is wrong with the i-th seed of a mesh.
func CheckSeed(i int, seed string) error {
	if !isAddress(seed, false) {
		return fmt.Errorf("mesh.join[%d]: %q is not host or host:port", i, seed)
	}
	return nil
}

// withDefaults fills what is zero.
func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Now == nil {
		c.Now = passing(c.Clock())
	}
	if c.Local == nil {
		c.Local = func(gossip.Effect) {}
	}
	if c.OnChange == nil {
		c.OnChange = func() {}
	}
	t := &c.Timing
	for _, d := range []struct {
		have *time.Duration
		def  time.Duration
	}{
		{&t.JoinEvery, 30 * time.Second},
		{&t.ReapAfter, time.Hour},
		{&t.Hello, 5 * time.Second},
		{&t.Dial, 3 * time.Second},
		{&t.Stall, 10 * time.Second},
	} {
		if *d.have <= 0 {
			*d.have = d.def
		}
	}
	return c
}

// plain reports whether s is 1 to max printable ASCII bytes without spaces.
func plain(s string, max int) bool {
	if s == "" || len(s) > max {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}

// isAddress reports whether s looks like host:port, or host if the port may be
// left out.
func isAddress(s string, needPort bool) bool {
	if strings.ContainsAny(s, " /\t\n") {
		return false
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return !needPort && s != "" && len(s) <= 255 && (!strings.Contains(s, ":") || net.ParseIP(s) != nil)
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil && (host != "" || needPort)
}

// CheckKey says what is wrong with a gossip key; the fault never shows the key.
func CheckKey(text string) error {
	_, err := decodeKey(text)
	return err
}

func decodeKey(text string) ([]byte, error) {
	k, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil {
		return nil, errors.New("not base64")
	}
	return k, memberlist.ValidateKey(k)
}

// decodeKeys decodes and checks ring keys.
func decodeKeys(ring []string) ([][]byte, error) {
	keys := make([][]byte, 0, len(ring))
	var errs []error
	for i, s := range ring {
		k, err := decodeKey(s)
		if err != nil {
			errs = append(errs, fmt.Errorf("mesh.keyring[%d]: %w", i, err))
			continue
		}
		keys = append(keys, k)
	}
	return keys, errors.Join(errs...)
}
