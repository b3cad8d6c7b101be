package report

import (
	"fmt"
	"strings"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/console"
	"github.com/banyan-llm/banyan/router/index"
)

// Digest writes context and facts in 16 hex digits: equal on converged
// peers. Keys are left out: equal facts may be linked later here than there.
func Digest(d *crdt.Digest) string {
	h := uint64(14695981039346656037)
	add := func(words ...uint64) {
		for _, w := range words {
			h = (h ^ w) * 1099511628211
			h ^= h >> 29
		}
	}
	c := &d.Context
	add(c.Epoch, c.Anchor, c.Floor, uint64(len(c.Voids)), uint64(len(c.Above)), uint64(len(c.Lost)))
	for _, spans := range [][]crdt.Span{c.Voids, c.Above, c.Lost} {
		for _, sp := range spans {
			add(sp.From, sp.To)
		}
	}
	add(d.Base.Count, d.Base.Facts)
	return fmt.Sprintf("%016x", h)
}

// Unusable says why a stream is left alone, and what to do.
func Unusable(f *index.Full) string {
	if f.Bound == index.BoundMemory {
		return fmt.Sprintf("its %d blocks grew most when the prefix index reached limits.memory: its cache is predicted for ten minutes, then its events are read again; raise limits.memory", f.Facts)
	}
	return fmt.Sprintf("it reported %d blocks, more than its cache can hold or limits.stream_facts allows: its cache is predicted for ten minutes or until it is cleared; restart the engine, or raise limits.stream_facts", f.Facts)
}

// unheardCure says what to do about events that cannot be heard, by what the
// last attempt ended with.
func unheardCure(why string) string {
	const until = "Until then its cache is predicted from the traffic sent there"
	if strings.Contains(why, "ROUTER") {
		return "`events` names the engine's replay port: swap `events` and `replay`. " + until
	}
	return "Set `events` to the engine's publish address (vLLM: endpoint in --kv-events-config, with the replica's host for *) " +
		"and open that port to all peers, or leave `events` out if the engine reports it. " + until
}

func dashed(s string) string {
	if s == "" {
		return "no connection"
	}
	return s
}

// Unheard remembers which replicas' events cannot be heard, so that each is
// told once. One goroutine uses it.
type Unheard struct{ names map[string]bool }

// Silence is a replica whose events cannot be heard since the last look.
type Silence struct{ Replica, Why, Cure string }

// Look returns the replicas whose events cannot be heard any more, and the
// names of those that are heard again or gone.
func (u *Unheard) Look(replicas []console.Replica) (lost []Silence, back []string) {
	now := map[string]bool{}
	for i := range replicas {
		r := &replicas[i]
		if !r.Unheard() {
			continue
		}
		now[r.Name] = true
		if !u.names[r.Name] {
			lost = append(lost, Silence{r.Name, dashed(r.Stream.Detail), unheardCure(r.Stream.Detail)})
		}
	}
	for name := range u.names {
		if !now[name] {
			back = append(back, name)
		}
	}
	u.names = now
	return lost, back
}
