package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/banyan-llm/banyan/router/console"
)

// staleViewMs is the view age an operator should hear of.
const staleViewMs = 2000

// A replica whose failed answers an operator should hear of: so many, and such a
// share.
const (
	oddAnswers = 3
	oddShare   = 0.04
)

// found collects problems, each with a cure.
type found []console.Problem

func (f *found) add(help, text string, args ...any) {
	*f = append(*f, console.Problem{Text: fmt.Sprintf(text, args...), Help: help})
}

// problems says what an operator should look at.
func problems(s *console.Status) []console.Problem {
	var f found
	switch {
	case s.Draining:
		f.add("It takes no new requests and exits after its last one, at most drain.timeout later", "This peer is shutting down")
	case !s.Ready:
		f.add("It gets no traffic until it is, normally within seconds. If this lasts, look at the other lines, and at UDP and TCP of mesh.bind", "This peer is not ready: %s", console.ReasonText(s.Reason))
	}
	if len(s.Replicas) == 0 {
		f.add("List them under `replicas`, or turn discovery on", "No replica is known")
	}
	f.replicas(s)
	f.peers(s)
	if s.Config.Fault != "" {
		f.add("The old one stays in force; correct the file, and it is applied at once", "The changed configuration was not applied: %s", strings.ReplaceAll(s.Config.Fault, "\n", "; "))
	}
	if s.Behind != "" {
		f.add("It stays ready and routes on what it knows: look at its CPU (in a container, at its CPU limit) and at the link to the others", "This peer is behind the mesh: %s", console.ReasonText(s.Behind))
	}
	if s.Mesh.Divergent > 0 {
		f.add("It repairs itself, and requests go on. Save `banyan status --json` of two peers and report a bug", "Peers disagree on the cached blocks of %d replicas", s.Mesh.Divergent)
	}
	return f
}

func (f *found) replicas(s *console.Status) {
	for _, r := range s.Replicas {
		if r.State == "down" {
			f.add(adviceFor(&r, s.Replicas, s.Disagg != nil)+", or see deploy/README.md#replica-down", "%s is down: %s", r.Name, r.Reason)
		}
		if r.State == "unfit" {
			f.add(r.Cure, "%s gets no requests: %s", r.Name, r.Reason)
		}
		switch {
		case r.State == "ejected":
			f.add("Other replicas answer in its place. Look at its log and correct it: it is tried again by itself", "%s is left out: %s", r.Name, r.Reason)
		case r.WasOut != "":
			f.add("It gets a part of its requests until its answers are good again. Look at its log", "%s is tried again after it was left out: %s", r.Name, r.WasOut)
		case r.Bad >= oddAnswers && float64(r.Bad) >= oddShare*float64(r.Answered):
			f.add("It gets fewer requests while this lasts. Look at its log", "%s failed %d of its last %d requests, which other replicas answered", r.Name, r.Bad, r.Answered)
		}
		switch r.Stream.State {
		case "quarantined", "unusable":
			f.add("Its cache is predicted meanwhile", "Events of %s are ignored: %s", r.Name, r.Stream.Detail)
		}
		if r.Unheard() {
			f.add(unheardCure(r.Stream.Detail), "Events of %s cannot be received: %s", r.Name, dashed(r.Stream.Detail))
		}
	}
	if drained, needed := console.Drained(s.Replicas); needed != nil {
		f.add("Start another replica for it, or let one work again: banyan undrain "+drained[0], "Drained replicas still get all requests for %s: no other replica serves it", strings.Join(needed, ", "))
	}
}

func (f *found) peers(s *console.Status) {
	for _, q := range s.Peers {
		switch {
		case q.Flaps:
			f.add(fmt.Sprintf("It lives, and this peer does not reach it well at %s. If that is not its address, correct its mesh.advertise; else look at its CPU limit and at UDP and TCP between the two", q.Address),
				"Peer %s comes and goes: it was called failed twice in ten minutes and was heard of again", q.Name)
		case q.State == "failed":
			f.add("The others took over. Restart it; if it is gone for good, do nothing: it leaves this list an hour after it failed", "Peer %s failed", q.Name)
		}
		if q.Refused != "" {
			f.add("They share neither load nor cached blocks until both have the same: correct the one that is wrong and restart it", "Peer %s and this one refuse each other: %s", q.Name, q.Refused)
			continue
		}
		if q.ViewAgeMs != nil && *q.ViewAgeMs > staleViewMs {
			f.add("The peer is dead, short of CPU or cut off. A dead peer is listed as failed after 6 to 22 s; if it is not, look at its CPU limit and the link", "Load data of peer %s is %.1f s old", q.Name, *q.ViewAgeMs/1000)
		}
	}
	f.otherwise(s.Peers)
	if s.Mesh.UDPLost && len(s.Peers) > 0 {
		f.add(fmt.Sprintf("Others take it for failed now and then, and back. Check that %s is its address (mesh.advertise), and that UDP of that port is open both ways", s.Peers[0].Address),
			"Answers of other peers over UDP do not arrive at this peer; over TCP they do")
	}
	if s.Alone() {
		more := ""
		if n := len(s.Mesh.Unjoined); n > 1 {
			more = fmt.Sprintf(" (and %d more)", n-1)
		}
		f.add(fmt.Sprintf("Seed %s%s. This peer serves requests, but shares nothing with other peers. Check mesh.join, that the seeds run, and that all have the same mesh key (mesh.keyring or mesh.key) and mesh.label; it keeps trying", s.Mesh.Unjoined[0], more),
			"This peer is alone: it never reached a seed of mesh.join")
	}
}

// otherwise tells of peers that were configured otherwise than this one, and of
// those that go by one name.
func (f *found) otherwise(peers []console.Peer) {
	var differ, named groups
	for i := range peers {
		q := &peers[i]
		if len(q.Differs) > 0 && q.Refused == "" {
			differ.add(strings.Join(q.Differs, ", "), q.Name)
		}
		if q.Self || q.Steady {
			named.add(q.Name, q.Address)
		}
	}
	for _, g := range differ {
		who := "Peer " + g.members[0] + " is"
		if len(g.members) > 1 {
			who = "Peers " + listed(g.members) + " are"
		}
		f.add("Peers route differently then. Compare `banyan serve --print-config` of both and correct one; during a rollout this passes by itself",
			"%s configured otherwise than this one: %s", who, g.shared)
	}
	for _, g := range named {
		if n := len(g.members); n > 1 {
			f.add("Logs and metrics do not tell them apart: give each its own mesh.name, or none; then the name is drawn from the host's",
				"%d peers are named %s: %s", n, g.shared, listed(g.members))
		}
	}
}

// group is what has one thing in common.
type group struct {
	shared  string
	members []string
}

type groups []group

// add puts a member into the group of what it shares.
func (g *groups) add(shared, member string) {
	at := slices.IndexFunc(*g, func(old group) bool { return old.shared == shared })
	if at < 0 {
		at, *g = len(*g), append(*g, group{shared: shared})
	}
	(*g)[at].members = append((*g)[at].members, member)
}

// queueProblems says when requests were turned away.
func queueProblems(q *console.Queue) []console.Problem {
	if q.Waiting == 0 || q.Waiting < q.Most/2 {
		return nil
	}
	return []console.Problem{{
		Text: fmt.Sprintf("%d requests wait for room, the oldest for %.1f s", q.Waiting, float64(q.OldestMs)/1000),
		Help: "Add replicas, or raise admission.replica_limit if the engines have room",
	}}
}
