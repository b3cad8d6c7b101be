package report

import (
	"fmt"
	"strings"

	"github.com/banyan-llm/banyan/router/console"
)

// staleViewMs is the view age an operator should hear of.
const staleViewMs = 2000

// problems says what an operator should look at, with a cure each.
func problems(s *console.Status) []console.Problem {
	var out []console.Problem
	add := func(help, text string, args ...any) {
		out = append(out, console.Problem{Text: fmt.Sprintf(text, args...), Help: help})
	}
	switch {
	case s.Draining:
		add("It takes no new requests and ends with its last stream, at most drain.timeout later", "This peer drains")
	case !s.Ready:
		add("It gets no traffic until it is", "This peer is not ready: %s", s.Reason)
	}
	if len(s.Replicas) == 0 {
		add("List them under replicas: or turn discovery on", "No replica is known")
	}
	for _, r := range s.Replicas {
		if r.State == "down" {
			add(adviceFor(&r, s.Replicas, s.Disagg != nil)+", or see deploy/README.md#replica-down", "%s is down: %s", r.Name, r.Reason)
		}
		if r.State == "unfit" {
			add(r.Cure, "%s gets no requests: %s", r.Name, r.Reason)
		}
		switch r.Stream.State {
		case "quarantined", "unusable":
			add("Its cache is only guessed until that is repaired", "Events of %s are ignored: %s", r.Name, r.Stream.Detail)
		}
		if r.Unheard() {
			add(unheardCure(r.Stream.Detail), "Events of %s cannot be heard: %s", r.Name, dashed(r.Stream.Detail))
		}
	}
	if drained, needed := console.Drained(s.Replicas); needed != nil {
		add("Start another replica for it, or let one work again: banyan undrain "+drained[0], "Drained replicas still get all requests for %s: no other replica serves it", strings.Join(needed, ", "))
	}
	for _, q := range s.Peers {
		if q.State == "failed" {
			add("Other peers follow its event streams now. Restart it or start another at its address; if it is gone for good, it is forgotten an hour after it failed", "Peer %s failed", q.Name)
		}
		if q.Refused != "" {
			add("Give all peers of the mesh the same; until then these two share neither load nor facts", "Peer %s and this one refuse each other: %s", q.Name, q.Refused)
			continue
		}
		if q.ViewAgeMs != nil && *q.ViewAgeMs > staleViewMs {
			add("It is dead, or short of CPU, or the link or a clock is wrong: a dead peer is called failed within half a minute", "The view of peer %s is %.0f ms old", q.Name, *q.ViewAgeMs)
		}
	}
	if s.Alone() {
		more := ""
		if n := len(s.Mesh.Unjoined); n > 1 {
			more = fmt.Sprintf(" (and %d more)", n-1)
		}
		add("It answers requests, but shares nothing with other peers: check mesh.join, that the seeds run, and that all have the same mesh.key and mesh.label; it keeps trying",
			"This peer is alone: it never reached a seed of mesh.join: %s%s", s.Mesh.Unjoined[0], more)
	}
	if s.Config.Fault != "" {
		add("The old one stays in force; correct the file, and it is taken up at once", "The configuration was not taken up: %s", strings.ReplaceAll(s.Config.Fault, "\n", "; "))
	}
	if s.Behind != "" {
		add("It stays ready and routes on what it knows: look at its CPU (in a container, at its CPU limit) and at the link to the others", "This peer is behind the mesh: %s", s.Behind)
	}
	if s.Mesh.Divergent > 0 {
		add("It heals by snapshot; keep both digests and report a bug", "%d streams differ between peers at equal contexts", s.Mesh.Divergent)
	}
	return out
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
