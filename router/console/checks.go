package console

import (
	"fmt"
	"io"
)

// check is one thing that must hold.
type check struct {
	holds bool
	text  string
}

// aloneS is how long, in seconds, a peer that was given seeds may be alone before
// that is a problem: peers that are all started at once need a moment.
const aloneS = 10

// Alone reports whether the peer was given seeds and never reached one.
func (s *Status) Alone() bool { return len(s.Mesh.Unjoined) > 0 && s.UptimeS >= aloneS }

// unheardMs is how long the events of a replica that is up may not be heard
// before that is a problem.
const unheardMs = 10_000

// Unheard reports whether a replica answers and its events have not been heard
// for a while: the address is wrong, or the port is closed.
func (r *Replica) Unheard() bool {
	return r.State != "down" && r.Stream.ConnectingMs != nil && *r.Stream.ConnectingMs >= unheardMs
}

// Expect makes it a problem that fewer than n peers are alive.
func (s *Status) Expect(n int) {
	if t := s.tally(); t.peers < n {
		s.Problems = append(s.Problems, Problem{
			Text: fmt.Sprintf("%d of the %d expected peers are alive", t.peers, n),
			Help: "Start the others, or look at their logs: a peer that runs and is not here has another mesh.key, mesh.label or seed",
		})
		s.Judge()
	}
}

// WriteChecks says line by line what holds and what does not, and what to do
// about it. All holds exactly if s.OK.
func (s *Status) WriteChecks(w io.Writer, look Look) error {
	out := &printer{w: w, look: look}
	for _, c := range s.checks() {
		if c.holds {
			out.wrapped("  ", LevelOK, "√ %s", c.text)
		} else {
			out.wrapped("  ", LevelBad, "× %s", c.text)
		}
	}
	for _, p := range s.Problems {
		out.wrapped("  ", LevelWarn, "! %s. %s", p.Text, p.Help)
	}
	if s.OK {
		out.wrapped("", LevelOK, "all is well, seen from %s", s.Name)
	} else {
		out.wrapped("", LevelBad, "%d to look at, seen from %s", len(s.Problems), s.Name)
	}
	return out.err
}

func (s *Status) checks() []check {
	t := s.tally()
	oldest, deaf := 0.0, 0
	for _, p := range s.Peers {
		if p.State == "alive" && p.ViewAgeMs != nil {
			oldest = max(oldest, *p.ViewAgeMs)
		}
	}
	for _, r := range s.Replicas {
		if r.Stream.State == "quarantined" || r.Stream.State == "unusable" || r.Unheard() {
			deaf++
		}
	}
	return []check{
		{s.Ready, "this peer is ready: " + dash(s.Reason)},
		{t.peers == t.members, fmt.Sprintf("%d of %d peers are alive", t.peers, t.members)},
		{oldest <= 2*staleMs, "views of other peers are " + millis(&oldest) + " old at most"},
		{t.up > 0 && t.up == t.replicas, fmt.Sprintf("%d of %d replicas are up", t.up, t.replicas)},
		{deaf == 0, fmt.Sprintf("events of %d replicas are ignored or cannot be heard", deaf)},
		{!s.Alone(), fmt.Sprintf("%d seeds of mesh.join cannot be reached", len(s.Mesh.Unjoined))},
		{s.Mesh.Divergent == 0, fmt.Sprintf("%d streams differ between peers", s.Mesh.Divergent)},
	}
}
