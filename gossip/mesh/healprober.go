package mesh

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// How members that failed are looked for.
const (
	seekEvery  = 250 * time.Millisecond // between rounds; with n members n/16 times as long
	seekAtOnce = 3                      // members a round
	seekFor    = 10 * time.Minute       // since they failed; then seeds alone find them
)

// probeFailed looks for members that failed lately, a few packets a second: the end
// of a partition is noticed at once and not when the seeds' turn comes. Who
// answers is joined. All members together look no more often than 16 do: a join
// is an exchange of all states, twice.
func (m *Mesh) probeFailed(ctx context.Context) {
	for {
		select {
		case <-time.After(jittered(max(1, time.Duration(m.roster.mourned())/16) * seekEvery)):
		case <-ctx.Done():
			return
		}
		var wg sync.WaitGroup
		for _, l := range m.roster.lost(m.cfg.Now().Add(-seekFor), seekAtOnce) {
			wg.Go(func() { m.seek(l) })
		}
		wg.Wait()
	}
}

// seek asks one member whether it lives; it waits for the answer as long as
// membership's own probes do.
func (m *Mesh) seek(l lostMember) {
	members := m.serf.Memberlist()
	if _, err := members.Ping(l.node, l.addr); err != nil {
		return
	}
	// The first exchange tells both that the other takes them for dead; the
	// second brings their objections. By gossip these would take their time.
	for range 2 {
		_, err := members.Join([]string{l.addr.String()})
		m.meter.joins.WithLabelValues(resultOf(err)).Inc()
		if err != nil {
			return
		}
	}
	if m.once.first("found " + l.node) {
		m.log.Info("a failed peer is reachable again", "node", l.node)
	}
}

// lostMember is a member that failed.
type lostMember struct {
	node string
	addr *net.UDPAddr
}

// lost draws up to n members that failed after since and whose address no
// other took over.
func (r *roster) lost(since time.Time, n int) []lostMember {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []lostMember
	for node, m := range r.members {
		if m.State != Failed || m.Since.Before(since) || r.takenLocked(m.Addr) {
			continue
		}
		if addr, err := net.ResolveUDPAddr("udp", m.Addr); err == nil { // a literal: nothing is looked up
			out = append(out, lostMember{node: node, addr: addr})
		}
	}
	rand.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out[:min(n, len(out))]
}

// takenLocked reports whether a member that lives has the address.
func (r *roster) takenLocked(addr string) bool {
	for _, m := range r.members {
		if m.State == Alive && m.Addr == addr {
			return true
		}
	}
	return false
}
