package console

import (
	"fmt"
	"sync"
)

// MaxEvents is how many changes are remembered.
const MaxEvents = 128

// Event is a change that an operator may care about.
type Event struct {
	Seq    uint64 `json:"seq"`
	TimeMs int64  `json:"time_ms"`
	Level  string `json:"level"`
	Text   string `json:"text"`
}

// events finds changes between consecutive looks at the mesh.
type events struct {
	mu    sync.Mutex // guards below
	ring  []Event    // oldest first, at most MaxEvents
	seq   uint64
	known *looks // nil before the first look
}

// looks is what is compared: one word each.
type looks struct {
	replicas, streams, peers map[string]string
	divergent                int
}

func lookAt(s *Status) *looks {
	l := &looks{map[string]string{}, map[string]string{}, map[string]string{}, s.Mesh.Divergent}
	for _, r := range s.Replicas {
		l.replicas[r.Name] = r.State
		l.streams[r.Name] = r.Stream.State
	}
	for _, p := range s.Peers {
		l.peers[p.Name] = peerWord(&p)
	}
	return l
}

// peerWord is a peer's state in one word.
func peerWord(p *Peer) string {
	switch {
	case p.State != "alive":
		return p.State
	case p.Refused != "":
		return "refused"
	case p.Draining:
		return "draining"
	case !p.Ready:
		return "not ready"
	}
	return "ready"
}

// observe compares s with the last look and remembers the changes.
func (e *events) observe(s *Status) {
	now := lookAt(s)
	e.mu.Lock()
	defer e.mu.Unlock()
	old := e.known
	e.known = now
	if old == nil {
		e.addLocked(s.TimeMs, LevelOK, fmt.Sprintf("first look: %d replicas, %d peers", len(s.Replicas), len(s.Peers)))
		return
	}
	for _, r := range s.Replicas {
		e.replicaLocked(s.TimeMs, &r, old)
	}
	for name := range old.replicas {
		if _, ok := now.replicas[name]; !ok {
			e.addLocked(s.TimeMs, LevelWarn, "replica "+name+" was removed")
		}
	}
	for _, p := range s.Peers {
		if was, ok := old.peers[p.Name]; !ok {
			e.addLocked(s.TimeMs, LevelOK, "peer "+p.Name+" joined, "+now.peers[p.Name])
		} else if is := now.peers[p.Name]; is != was {
			e.addLocked(s.TimeMs, levelOf(is), "peer "+p.Name+" "+is)
		}
	}
	for name, was := range old.peers {
		switch _, ok := now.peers[name]; {
		case !ok && was == "failed":
			e.addLocked(s.TimeMs, LevelOK, "peer "+name+", which failed, was replaced or is no longer remembered")
		case !ok:
			e.addLocked(s.TimeMs, LevelOK, "peer "+name+" left")
		}
	}
	if now.divergent > old.divergent {
		e.addLocked(s.TimeMs, LevelBad, fmt.Sprintf("%d streams differ between peers", now.divergent))
	} else if now.divergent == 0 && old.divergent > 0 {
		e.addLocked(s.TimeMs, LevelOK, "peers agree again")
	}
}

func (e *events) replicaLocked(at int64, r *Replica, old *looks) {
	was, ok := old.replicas[r.Name]
	text := "replica " + r.Name + " " + r.State
	if !r.Answers() && r.Reason != "" {
		text += ": " + r.Reason
	}
	switch {
	case !ok:
		e.addLocked(at, LevelOK, "new "+text)
	case was != r.State:
		e.addLocked(at, levelOf(r.State), text)
	}
	if was := old.streams[r.Name]; ok && was != r.Stream.State {
		e.addLocked(at, levelOf(r.Stream.State), "events of "+r.Name+": "+r.Stream.State)
	}
}

// levelOf tells how bad a state's word is.
func levelOf(word string) string {
	switch word {
	case "down", "unfit", "refused", "failed", "quarantined", "unusable":
		return LevelBad
	case "draining", "ejected", "not ready", "left", "connecting", "none":
		return LevelWarn
	}
	return LevelOK
}

func (e *events) addLocked(at int64, level, text string) {
	e.seq++
	if len(e.ring) == MaxEvents {
		copy(e.ring, e.ring[1:])
		e.ring = e.ring[:MaxEvents-1]
	}
	e.ring = append(e.ring, Event{Seq: e.seq, TimeMs: at, Level: level, Text: text})
}

// last returns the newest n events with a number above after, newest first.
func (e *events) last(n int, after uint64) []Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := []Event{}
	for i := len(e.ring) - 1; i >= 0 && len(out) < n && e.ring[i].Seq > after; i-- {
		out = append(out, e.ring[i])
	}
	return out
}
