package simulation

import (
	"fmt"
	"hash"
	"io"

	"github.com/banyan-llm/banyan/gossip"
)

// traceLines is how much of the trace's end a report keeps.
const traceLines = 400

// faultTrace is the story of a run, a line an event. Equal runs have equal
// hashes.
type faultTrace struct {
	hash hash.Hash64
	tell func(string)
	ring []string
	next int
}

func (t *faultTrace) add(line string) {
	_, _ = io.WriteString(t.hash, line)
	if t.tell != nil {
		t.tell(line)
	}
	if len(t.ring) < traceLines {
		t.ring = append(t.ring, line)
		return
	}
	t.ring[t.next] = line
	t.next = (t.next + 1) % traceLines
}

// lines are those kept, oldest first.
func (t *faultTrace) lines() []string {
	return append(append([]string(nil), t.ring[t.next:]...), t.ring[:t.next]...)
}

func (r *faultRun) trace(who, format string, args ...any) {
	r.log.add(fmt.Sprintf("%9.3f %-4s %s", float64(r.now-faultStart)/1000, who, fmt.Sprintf(format, args...)))
}

func (r *faultRun) traceFrame(p *faultPeer, s gossip.Send) {
	to, words := "?", new(gossip.Describer)
	if e := p.pipes[s.Conn]; e != nil {
		to, words = e.other.peer.name, &e.words
	}
	r.trace(p.name, "> %s %s", to, words.Describe(s.Data))
}
