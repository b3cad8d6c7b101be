package mesh

import (
	"context"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/serf/serf"
)

const (
	firstJoin    = time.Second // wait after a seed was lost or not reached; doubles up to JoinEvery
	resolveBound = 5 * time.Second
	joinsARound  = 64 // addresses tried in one round
)

// seeds tries the seeds for ever (I7): also when the mesh is whole, because
// after a long partition both halves have forgotten each other. A lost member
// makes it try sooner: the loss may be the beginning of a partition.
func (m *Mesh) seeds(ctx context.Context) {
	wait := min(firstJoin, m.cfg.Timing.JoinEvery)
	for m.serf.State() == serf.SerfAlive {
		every := m.cfg.Timing.JoinEvery
		if missed := m.joinRound(ctx); missed || m.alone() {
			every = min(wait, every)
			wait = min(2*wait, m.cfg.Timing.JoinEvery)
		}
		select {
		case <-time.After(jittered(every)):
		case <-m.lost:
			wait = min(firstJoin, m.cfg.Timing.JoinEvery)
		case <-ctx.Done():
			return
		}
	}
}

// alone reports whether this peer knows of no other that lives.
func (m *Mesh) alone() bool {
	n, _ := m.roster.live("")
	return n <= 1
}

// jittered is d ± 20 %.
func jittered(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}

// SeedFault is a seed that the last round could not join, and why.
type SeedFault struct{ Seed, Reason string }

// Alone returns what keeps a peer alone that was given seeds: the faults of the
// last round, nil once any other peer was met, and before the first round ended.
func (m *Mesh) Alone() []SeedFault {
	if faults := m.unjoined.Load(); faults != nil && !m.met.Load() {
		return *faults
	}
	return nil
}

// joinRound resolves all seeds and joins every address that is not a live
// member, in random order. It reports whether one was not reached.
func (m *Mesh) joinRound(ctx context.Context) (missed bool) {
	addrs, faults := m.resolve(ctx)
	defer func() {
		if ctx.Err() == nil {
			m.unjoined.Store(&faults)
		}
	}()
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	for _, addr := range addrs[:min(len(addrs), joinsARound)] {
		if ctx.Err() != nil || m.serf.State() != serf.SerfAlive {
			return missed
		}
		if _, here := m.roster.live(addr); here || addr == m.transport.advertise.String() {
			continue
		}
		_, err := m.serf.Join([]string{addr}, true)
		m.meter.joins.WithLabelValues(resultOf(err)).Inc()
		if err != nil {
			missed = true
			faults = append(faults, SeedFault{addr, joinReason(err)})
		}
		switch {
		case err == nil:
			m.log.Info("joined", "seed", addr)
		case m.once.first("join " + addr):
			m.log.Warn("seed unreachable, will keep retrying", "seed", addr, "err", joinReason(err))
		}
	}
	if len(faults) == 0 && len(addrs) > 0 && m.alone() {
		faults = m.loops()
	}
	return missed
}

// loops are the seeds of a peer that is alone though it reached all of them: they
// lead back to it. None is told if one is a name: a name may come to stand for
// other peers too, as that of a Kubernetes Service does.
func (m *Mesh) loops() (out []SeedFault) {
	for _, seed := range m.cfg.Join {
		host, _ := splitPort(seed, "")
		if _, err := netip.ParseAddr(host); err != nil {
			return nil
		}
		out = append(out, SeedFault{seed, "it leads to this peer itself"})
	}
	return out
}

func resultOf(err error) string {
	if err != nil {
		return "failed"
	}
	return "ok"
}

// joinReason says in one line why a seed could not be joined. memberlist wraps
// it as "1 error occurred: * Failed to join ADDRESS: reason".
func joinReason(err error) string {
	reason := strings.Join(strings.Fields(err.Error()), " ")
	if i := strings.Index(strings.ToLower(reason), "failed to join "); i >= 0 {
		if _, after, found := strings.Cut(reason[i:], ": "); found {
			reason = after
		}
	}
	for _, word := range []string{"EOF", "reset by peer", "could decrypt"} {
		if strings.Contains(reason, word) {
			return "it has a different mesh key (mesh.keyring or mesh.key) or mesh.label (" + reason + ")"
		}
	}
	return reason
}

// resolve looks every seed up, each address once, and tells of those that have
// none.
func (m *Mesh) resolve(ctx context.Context) (out []string, faults []SeedFault) {
	seen := make(map[string]bool)
	for _, seed := range m.cfg.Join {
		addrs, err := resolveSeed(ctx, seed, m.seedPort())
		if err != nil && ctx.Err() == nil && m.once.first("resolve "+seed) {
			m.log.Warn("seed name does not resolve, will keep retrying", "seed", seed, "err", err)
		}
		if err != nil {
			faults = append(faults, SeedFault{seed, err.Error()})
		}
		for _, a := range addrs {
			if s := a.String(); !seen[s] {
				seen[s] = true
				out = append(out, s)
			}
		}
	}
	return out, faults
}

// seedPort is where a seed without a port listens: where this peer does.
func (m *Mesh) seedPort() string {
	if _, port, err := net.SplitHostPort(m.cfg.Bind); err == nil && port != "0" {
		return port
	}
	return defaultPort
}

func resolveSeed(ctx context.Context, seed, port string) ([]netip.AddrPort, error) {
	host, port := splitPort(seed, port)
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, resolveBound)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	out := make([]netip.AddrPort, 0, len(ips))
	for _, ip := range ips {
		out = append(out, netip.AddrPortFrom(ip.Unmap(), uint16(n)))
	}
	return out, nil
}
