package console

import (
	"fmt"
	"strings"
)

// Levels of the verdict.
const (
	LevelOK   = "ok"
	LevelWarn = "warn"
	LevelBad  = "bad"
)

// tally counts what the verdict names.
type tally struct{ peers, members, up, drained, replicas int }

func (s *Status) tally() tally {
	t := tally{replicas: len(s.Replicas)}
	for _, r := range s.Replicas {
		if r.Answers() {
			t.up++
		}
		if r.State == "draining" {
			t.drained++
		}
	}
	for _, p := range s.Peers {
		switch stateOf(&p) {
		case "alive":
			t.peers++
			t.members++
		case "failed", "refused":
			t.members++
		}
	}
	return t
}

// troubleRunes is how much of the first problem stands in the verdict.
const troubleRunes = 100

// trouble names the first problem, and how many more there are.
func (s *Status) trouble() string {
	text := s.Problems[0].Text
	if runes := []rune(text); len(runes) > troubleRunes {
		text = strings.TrimRight(string(runes[:troubleRunes]), " ,;:") + "…"
	}
	if more := len(s.Problems) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

// Judge fills OK, Level and Verdict from the rest of the document.
func (s *Status) Judge() {
	t := s.tally()
	s.OK = len(s.Problems) == 0
	s.Level = LevelOK
	if !s.OK {
		s.Level = LevelWarn
	}
	if t.up == 0 || s.Mesh.Divergent > 0 || !s.Ready && !s.Draining {
		s.Level = LevelBad
	}
	head := "Converged."
	switch {
	case s.Draining:
		head = "Draining."
	case !s.Ready:
		head = "Not ready: " + ReasonText(s.Reason) + "."
	case t.replicas == 0:
		head = "No replica is known."
	case t.up == 0:
		head = "No replica is up"
		if len(s.Problems) > 0 {
			head += ": " + s.trouble()
		}
		head += "."
	case s.Mesh.Divergent > 0:
		head = "Peers disagree."
	case !s.OK:
		head = s.trouble() + "."
	case t.members == 1:
		head = "Well, without other peers."
	}
	s.Verdict = fmt.Sprintf("%s %s, %s, %d divergent", head, s.peersText(&t), t.replicasText(), s.Mesh.Divergent)
}

// peersText is how many peers are alive; of one that should see others, and
// does not, "1/1" would look well.
func (s *Status) peersText(t *tally) string {
	if s.Alone() {
		return "alone"
	}
	return fmt.Sprintf("%d/%d peers", t.peers, t.members)
}

// replicasText is how many replicas are up, and how many of them an operator
// drained.
func (t *tally) replicasText() string {
	text := fmt.Sprintf("%d/%d replicas", t.up, t.replicas)
	if t.drained > 0 {
		text += fmt.Sprintf(" (%d drained)", t.drained)
	}
	return text
}
