package mesh

import (
	"strings"
	"sync"
	"time"
)

// A mesh of which UDP is lost: so many probes without an answer within a time,
// each of a peer that answers over TCP. A busy peer misses one now and then.
const (
	lostProbes = 5
	lostWithin = time.Minute
)

// udpLoss notes probes by UDP that had no answer although TCP had one: datagrams
// are dropped, or answers go to an address that is not this peer's.
type udpLoss struct {
	mu   sync.Mutex // guards last
	last [lostProbes]time.Time
}

// lostUDP reports whether a line of memberlist's log tells of such a probe: it
// has no other way to say so.
func lostUDP(line string) bool { return strings.Contains(line, "over TCP but UDP probes failed") }

// note adds a probe.
func (u *udpLoss) note(now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	copy(u.last[1:], u.last[:])
	u.last[0] = now
}

// lost reports whether so many probes were lost lately that it is no accident.
func (u *udpLoss) lost(now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	oldest := u.last[lostProbes-1]
	return !oldest.IsZero() && now.Sub(oldest) < lostWithin
}

// UDPLost reports whether other peers answer this one over TCP and not over UDP:
// mesh.advertise is not its address, or UDP is filtered. The others then take it
// for failed now and then.
func (m *Mesh) UDPLost() bool { return m.udp.lost(m.cfg.Now()) }
