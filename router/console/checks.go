package console

import (
	"fmt"
	"io"
	"slices"
	"strings"
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
	return r.Answers() && r.Stream.ConnectingMs != nil && *r.Stream.ConnectingMs >= unheardMs
}

// Settled reports whether nothing is still being tried that may turn out to be a
// problem: seeds that were not reached yet, events that are not heard yet, peers
// that are not ready yet.
func (s *Status) Settled() bool {
	for _, r := range s.Replicas {
		if r.Answers() && r.Stream.ConnectingMs != nil {
			return false
		}
	}
	for i := range s.Peers {
		if p := &s.Peers[i]; stateOf(p) == "alive" && !p.Ready && !p.Draining {
			return false
		}
	}
	return len(s.Mesh.Unjoined) == 0
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
	s.writeProblems(out)
	if s.OK {
		out.wrapped("", LevelOK, "all is well, seen from %s", s.Name)
	} else {
		out.wrapped("", LevelBad, "%s, seen from %s", problemsText(len(s.Problems)), s.Name)
	}
	return out.err
}

func (s *Status) checks() []check {
	t := s.tally()
	oldest, deaf, trying, guessed, away := 0.0, 0, 0, 0, 0
	for _, p := range s.Peers {
		if stateOf(&p) == "alive" && p.ViewAgeMs != nil {
			oldest = max(oldest, *p.ViewAgeMs)
		}
	}
	for _, r := range s.Replicas {
		switch {
		case !r.Answers():
			away++
		case r.Stream.State == "quarantined" || r.Stream.State == "unusable" || r.Unheard():
			deaf++
		case r.Stream.ConnectingMs != nil:
			trying++
		case r.Stream.State == "none":
			guessed++
		}
	}
	drained, needed := Drained(s.Replicas)
	return []check{
		{s.Ready, readyText(s)},
		{t.peers == t.members, fmt.Sprintf("%d of %d peers are alive%s", t.peers, t.members, refusedText(s.Peers))},
		{oldest <= 2*staleMs, "views of other peers are at most " + millis(&oldest) + " old"},
		{t.up > 0 && t.up == t.replicas, fmt.Sprintf("%d of %d replicas are up", t.up, t.replicas)},
		{needed == nil, drainedText(drained, needed)},
		{deaf+away == 0, eventsText(deaf, trying, guessed, away, len(s.Replicas))},
		{!slices.ContainsFunc(s.Keys, func(k Keying) bool { return k.Off }), keysCheck(s.Keys)},
		{!s.Alone(), seedsText(len(s.Mesh.Unjoined))},
		{s.Mesh.Divergent == 0, factsText(s.Mesh.Divergent)},
		{s.Config.Fault == "", configText(&s.Config)},
	}
}

func problemsText(n int) string {
	if n == 1 {
		return "1 problem"
	}
	return fmt.Sprintf("%d problems", n)
}

func readyText(s *Status) string {
	if s.Ready {
		return "this peer is ready: " + dash(s.Reason)
	}
	return "this peer is not ready: " + dash(s.Reason)
}

// refusedText counts the peers that live and are not talked to.
func refusedText(peers []Peer) string {
	n := 0
	for i := range peers {
		if stateOf(&peers[i]) == "refused" {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" and of this mesh; %d refused", n)
}

// Drained names the replicas that an operator drained, and the models that only
// they serve, whose requests they still get.
func Drained(replicas []Replica) (names, only []string) {
	for i := range replicas {
		r := &replicas[i]
		if r.State != "draining" {
			continue
		}
		names = append(names, r.Name)
		for _, m := range r.Models {
			other := slices.ContainsFunc(replicas, func(o Replica) bool {
				return o.State == "up" && o.Role == r.Role && slices.Contains(o.Models, m)
			})
			if !other && !slices.Contains(only, m) {
				only = append(only, m)
			}
		}
	}
	return names, only
}

func drainedText(names, only []string) string {
	switch {
	case names == nil:
		return "no replica is drained"
	case only != nil:
		return "drained by an operator: " + strings.Join(names, ", ") + "; no other replica serves " + strings.Join(only, ", ") + ", so its requests still go there"
	}
	return "drained by an operator, without new requests: " + strings.Join(names, ", ")
}

// keysCheck says whether prompts get the keys that events are stored under.
func keysCheck(keys []Keying) string {
	var off []string
	for i := range keys {
		if k := &keys[i]; k.Off {
			off = append(off, k.Model+" ("+k.API+")")
		}
	}
	if off == nil {
		return "exact routing is on wherever events are followed"
	}
	return "exact routing is off for " + strings.Join(off, ", ")
}

// configText says whether the newest configuration is in force.
func configText(c *Config) string {
	switch {
	case c.Fault != "":
		return "a changed configuration was not taken up; the old one is in force"
	case len(c.Restart) > 0:
		return "the configuration is in force but for what waits for a restart: " + strings.Join(c.Restart, ", ")
	}
	return "the newest configuration is in force"
}

// eventsText says of how many replicas the events are heard.
func eventsText(deaf, trying, guessed, away, replicas int) string {
	text := fmt.Sprintf("events of %d of %d replicas are heard", replicas-deaf-trying-guessed-away, replicas)
	if deaf > 0 {
		text += fmt.Sprintf("; %d ignored or unreachable", deaf)
	}
	if trying > 0 {
		text += fmt.Sprintf("; %d not yet connected", trying)
	}
	if guessed > 0 {
		text += fmt.Sprintf("; %d announced nowhere: their cache is guessed", guessed)
	}
	if away > 0 {
		text += fmt.Sprintf("; %d not answering", away)
	}
	return text
}

func seedsText(unjoined int) string {
	if unjoined == 0 {
		return "seeds of mesh.join: none is unreachable"
	}
	return fmt.Sprintf("seeds of mesh.join still being tried: %d", unjoined)
}

func factsText(divergent int) string {
	if divergent == 0 {
		return "all peers hold the same facts"
	}
	return fmt.Sprintf("streams that differ between peers: %d", divergent)
}
