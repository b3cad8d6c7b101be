package mesh

import (
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// cause is why something from outside was refused: the closed list of the
// cause label of banyan_mesh_refused_total.
type cause string

const (
	causeGarbage     cause = "garbage"     // neither memberlist nor a peer stream
	causeLabel       cause = "label"       // another cluster
	causeKey         cause = "key"         // membership under another key
	causeTLS         cause = "tls"         // handshake failed, or plaintext where TLS is due
	causeVersion     cause = "version"     // no common version
	causeFingerprint cause = "fingerprint" // another hash, grid or secret
	causeOversize    cause = "oversize"    // a frame beyond its bound
	causeTimeout     cause = "timeout"     // a stranger that did not say who it is
	causeCrowd       cause = "crowd"       // too many at once
	causeMember      cause = "member"      // a member with unusable tags
	causeFrame       cause = "frame"       // the core rejected a frame
)

var causes = []cause{
	causeGarbage, causeLabel, causeKey, causeTLS, causeVersion, causeFingerprint,
	causeOversize, causeTimeout, causeCrowd, causeMember, causeFrame,
}

// refusalText says what was refused, and why.
var refusalText = map[cause]string{
	causeGarbage:     "connection refused: not a Banyan peer",
	causeLabel:       "peer refused: it has a different mesh.label",
	causeKey:         "peer refused: its gossip is encrypted with a key that this peer does not have",
	causeTLS:         "connection refused: the TLS handshake failed, its gossip key or certificate authority may be a different one",
	causeVersion:     "peer refused: no common protocol version, upgrade the older one",
	causeFingerprint: "peer refused: a setting that all peers must share differs",
	causeOversize:    "connection closed: a message was too large",
	causeTimeout:     "connection refused: it did not identify itself in time",
	causeCrowd:       "connection refused: too many at one time",
	causeMember:      "member refused: its details are unusable",
	causeFrame:       "connection closed: a message was malformed",
}

// causeOf classes the reasons of the core's refusals.
func causeOf(reason string) cause {
	switch {
	case strings.Contains(reason, "label"):
		return causeLabel
	case strings.Contains(reason, "fingerprint"):
		return causeFingerprint
	case strings.Contains(reason, "version"):
		return causeVersion
	}
	return causeFrame
}

// refusals counts and logs what is refused (I8).
type refusals struct {
	log   hclog.Logger
	count func(cause)
	once  *once
}

// refuse counts one refusal; the first of its cause and host is a warning.
func (r *refusals) refuse(why cause, from net.Addr, args ...any) {
	r.count(why)
	host := ""
	if from != nil {
		host = hostOf(from.String())
	}
	args = append([]any{"cause", string(why), "from", host}, args...)
	if r.once.first(string(why) + " " + host) {
		r.log.Warn(refusalText[why], args...)
	} else {
		r.log.Debug(refusalText[why], args...)
	}
}

func hostOf(addr string) string {
	if host, _, err := net.SplitHostPort(addr); err == nil {
		return host
	}
	return addr
}

// once remembers what was said lately, so that it is not said again.
type once struct {
	clock func() time.Time
	every time.Duration

	mu   sync.Mutex // guards below
	said map[string]time.Time
}

const (
	onceEvery = 10 * time.Minute
	onceMax   = 1024 // keys remembered; beyond, nothing new counts as first
)

func newOnce(clock func() time.Time, every time.Duration) *once {
	return &once{clock: clock, every: every, said: make(map[string]time.Time)}
}

// first reports whether key was not said lately, and notes it.
func (o *once) first(key string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.clock()
	if at, ok := o.said[key]; ok && now.Sub(at) < o.every {
		return false
	}
	if len(o.said) >= onceMax {
		for k, at := range o.said {
			if now.Sub(at) >= o.every {
				delete(o.said, k)
			}
		}
		if len(o.said) >= onceMax {
			return false
		}
	}
	o.said[key] = now
	return true
}
