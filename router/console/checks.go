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
			Help: "Start the others, or look at their logs: a peer that runs and is not here has a different mesh key (mesh.keyring or mesh.key) or mesh.label, or no seed in common",
		})
		s.Judge()
	}
}

// Passes reports whether a check of the peer succeeds; a strict one fails where
// anything is advised.
func (s *Status) Passes(strict bool) bool { return s.OK && !(strict && len(s.Notes) > 0) }

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
	var wrong []string
	if !s.OK {
		wrong = append(wrong, problemsText(len(s.Problems)))
	}
	if look.Strict && len(s.Notes) > 0 {
		wrong = append(wrong, adviceText(len(s.Notes)))
	}
	if wrong == nil {
		out.wrapped("", LevelOK, "all is well, seen from %s", s.Name)
	} else {
		out.wrapped("", LevelBad, "%s, seen from %s", strings.Join(wrong, ", "), s.Name)
	}
	return out.err
}

func (s *Status) checks() []check {
	drained, needed := Drained(s.Replicas)
	return []check{
		{s.Ready, readyText(s)},
		s.peersCheck(),
		s.viewsCheck(),
		s.replicasCheck(),
		{needed == nil, drainedText(drained, needed)},
		s.eventsCheck(),
		s.keysCheck(),
		s.seedsCheck(),
		s.factsCheck(),
		{s.Config.Fault == "", configText(&s.Config)},
	}
}

// others counts the peers beside this one that it shares with.
func (s *Status) others() (n int) {
	for i := range s.Peers {
		if p := &s.Peers[i]; !p.Self && stateOf(p) == "alive" {
			n++
		}
	}
	return n
}

func (s *Status) peersCheck() check {
	t := s.tally()
	switch {
	case s.Alone():
		return check{false, "alone: no other peer was ever reached"}
	case t.members <= 1 && len(s.Mesh.Unjoined) > 0:
		return check{true, "no other peer is known yet"}
	case t.members <= 1:
		return check{true, "no other peer is known"}
	case t.peers == t.members:
		return check{true, fmt.Sprintf("%d of %d peers are alive", t.peers, t.members)}
	}
	refused, failed := 0, 0
	for i := range s.Peers {
		switch stateOf(&s.Peers[i]) {
		case "refused":
			refused++
		case "failed":
			failed++
		}
	}
	alive, whose := "are alive", ""
	if t.peers == 1 {
		alive = "is alive"
	}
	if refused > 0 {
		whose = " and of this mesh"
	}
	return check{false, fmt.Sprintf("only %d of %d peers %s%s: %s", t.peers, t.members, alive, whose, counted(", ", refused, "refused", failed, "failed"))}
}

// counted joins numbers with what they count; zeros are left out.
func counted(between string, pairs ...any) string {
	var parts []string
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i] != 0 {
			parts = append(parts, fmt.Sprint(pairs[i], " ", pairs[i+1]))
		}
	}
	return strings.Join(parts, between)
}

func (s *Status) viewsCheck() check {
	oldest, most := 0.0, float64(2*staleMs)
	for i := range s.Peers {
		if p := &s.Peers[i]; stateOf(p) == "alive" && p.ViewAgeMs != nil {
			oldest = max(oldest, *p.ViewAgeMs)
		}
	}
	switch {
	case oldest > most:
		return check{false, "load data of a peer is " + millis(&oldest) + " old, more than " + millis(&most)}
	case s.others() == 0:
		return check{true, "no other peer to compare load data with"}
	}
	return check{true, "load data of other peers is at most " + millis(&oldest) + " old"}
}

func (s *Status) replicasCheck() check {
	t := s.tally()
	switch {
	case t.replicas == 0:
		return check{false, "no replica is known"}
	case t.up == t.replicas:
		return check{true, fmt.Sprintf("%d of %d replicas are up", t.up, t.replicas)}
	}
	var names []string
	for i := range s.Replicas {
		if r := &s.Replicas[i]; !r.Answers() {
			names = append(names, r.Name)
		}
	}
	verb := "are"
	if len(names) == 1 {
		verb = "is"
	}
	if len(names) > shortList {
		names = append(names[:shortList:shortList], "…")
	}
	return check{false, fmt.Sprintf("%d of %d replicas %s down or unusable: %s", t.replicas-t.up, t.replicas, verb, strings.Join(names, ", "))}
}

func problemsText(n int) string {
	if n == 1 {
		return "1 problem"
	}
	return fmt.Sprintf("%d problems", n)
}

func adviceText(n int) string {
	if n == 1 {
		return "1 piece of advice"
	}
	return fmt.Sprintf("%d pieces of advice", n)
}

func readyText(s *Status) string {
	if s.Ready {
		return "this peer is ready: " + dash(ReasonText(s.Reason))
	}
	return "this peer is not ready: " + dash(ReasonText(s.Reason))
}

// reasonTexts are what the reasons of readiness mean to people.
var reasonTexts = map[string]string{
	"alone":                              "no other peer was found",
	"looking for the mesh":               "it is looking for the other peers",
	"waiting for digests":                "it waits for the state of the other peers",
	"waiting for a peer that has joined": "it waits for a peer that has all of the mesh's state",
	"catching up":                        "it copies the state of the other peers",
	"caught up":                          "in sync with the other peers",
	"caught up again":                    "in sync with the other peers again",
	"bound passed before the mesh was caught up with": "its time to copy the state of the other peers was over before it had all of it",
	"slots come late":                        "load and cache data of other peers comes late",
	"a stream is behind":                     "what it knows of a replica's cache is behind what another peer knows",
	"a stream needs snapshot after snapshot": "it copies what is known of a replica's cache again and again",
}

// ReasonText says in plain words why a peer is ready, not ready or behind.
func ReasonText(reason string) string {
	const behind = "behind the mesh: "
	if after, ok := strings.CutPrefix(reason, behind); ok {
		return behind + ReasonText(after)
	}
	if text := reasonTexts[reason]; text != "" {
		return text
	}
	return reason
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
	return "drained, gets no new requests: " + strings.Join(names, ", ")
}

// keysCheck says whether prompts get the keys that events are stored under, and
// whether there are events at all: without them nothing is routed exactly, which
// is no trouble.
func (s *Status) keysCheck() check {
	var off []string
	for i := range s.Keys {
		if k := &s.Keys[i]; k.Off {
			off = append(off, k.Model+" ("+k.API+")")
		}
	}
	events := slices.ContainsFunc(s.Replicas, func(r Replica) bool {
		return (r.Kind == "" || r.Kind == "replica") && r.Stream.State != "none"
	})
	switch {
	case off != nil:
		return check{false, "exact routing is off for " + strings.Join(off, ", ")}
	case !events:
		return check{true, "exact routing: off, because no replica announces cache events"}
	}
	return check{true, "exact routing: on for every model with events"}
}

// configText says whether the newest configuration is in force.
func configText(c *Config) string {
	switch {
	case c.Fault != "":
		return "a changed configuration was not applied; the old one is in force"
	case len(c.Restart) > 0:
		return "the configuration file is in force, with exceptions: " + c.waitingText()
	}
	return "the current configuration is in force"
}

// eventsCheck says of how many replicas this peer, or another for it, is
// connected to the events.
func (s *Status) eventsCheck() check {
	deaf, trying, silent, away := 0, 0, 0, 0
	for i := range s.Replicas {
		r := &s.Replicas[i]
		switch {
		case !r.Answers():
			away++
		case r.Stream.State == "quarantined" || r.Stream.State == "unusable" || r.Unheard():
			deaf++
		case r.Stream.ConnectingMs != nil:
			trying++
		case r.Stream.State == "none":
			silent++
		}
	}
	all := len(s.Replicas)
	connected := all - deaf - trying - silent - away
	more := counted(", ", deaf, "ignored or unreachable", away, "down or unusable", trying, "still connecting", silent, "without events (their cache is predicted)")
	only := ""
	if deaf > 0 {
		only = "only "
	}
	text := fmt.Sprintf("connected to the events of %s%d of %d replicas", only, connected, all)
	if more != "" {
		text += ": " + more
	}
	return check{deaf == 0, text} // replicas that are away are told in a line of their own
}

func (s *Status) seedsCheck() check {
	switch n := len(s.Mesh.Unjoined); {
	case s.Alone():
		return check{false, fmt.Sprintf("no seed of mesh.join was reached (%d tried)", n)}
	case n > 0:
		return check{true, fmt.Sprintf("seeds of mesh.join not reached yet: %d; %d s are allowed", n, aloneS)}
	case s.others() > 0:
		return check{true, "the mesh was joined"}
	}
	return check{true, "no seed of mesh.join is missing"}
}

func (s *Status) factsCheck() check {
	switch {
	case s.Mesh.Divergent > 0:
		return check{false, fmt.Sprintf("peers disagree on the cached blocks of %d replicas", s.Mesh.Divergent)}
	case s.others() == 0:
		return check{true, "no other peer to compare cached blocks with"}
	}
	return check{true, "all peers hold the same cached blocks"}
}
