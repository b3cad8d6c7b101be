package standin

import (
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"sync"

	"github.com/banyan-llm/banyan/router/kvevents"
	"github.com/banyan-llm/banyan/router/kvevents/zmtp"
)

// batch is one published batch.
type batch struct {
	seq     uint64
	payload []byte
}

// publisher numbers batches, sends them to subscribers and keeps the last
// ones for replay, as vLLM's ZmqEventPublisher does. One per incarnation.
type publisher struct {
	topic  []byte
	frames int // of a replayed batch as the engine's ROUTER sends it, identity included
	steps  int

	pub    *zmtp.Pub    // nil: none
	router *zmtp.Router // nil: none

	mu   sync.Mutex
	next uint64
	ring []batch // ring[seq % steps]; holes after burnt numbers
}

// newPublisher binds (or dials) the sockets. Either endpoint may be empty.
func newPublisher(cfg *Config, events, replay string) (*publisher, error) {
	p := &publisher{topic: []byte(cfg.Topic), frames: cfg.ReplayFrames, steps: cfg.BufferSteps}
	var err error
	switch {
	case events == "":
	case cfg.EventsDial:
		p.pub, err = zmtp.DialPub(events, zmtp.Options{})
	default:
		p.pub, err = zmtp.ListenPub(events, zmtp.Options{})
	}
	if err == nil && replay != "" {
		p.router, err = zmtp.ListenRouter(replay, zmtp.Options{}, p.replay)
	}
	if err != nil {
		p.close()
		return nil, fmt.Errorf("publish events: %w", err)
	}
	return p, nil
}

func (p *publisher) close() {
	if p.pub != nil {
		_ = p.pub.Close()
	}
	if p.router != nil {
		_ = p.router.Close()
	}
}

// enabled reports whether anybody could ever see a batch.
func (p *publisher) enabled() bool { return p.pub != nil || p.router != nil }

// fate is what becomes of a batch.
type fate uint8

const (
	deliver fate = iota
	drop         // subscribers miss it; replay has it
	burn         // its number is used up; nobody ever gets it
)

// publish sends one batch; it never blocks.
func (p *publisher) publish(payload []byte, f fate) {
	p.mu.Lock()
	seq := p.next
	p.next++
	if f != burn {
		if at := int(seq % uint64(p.steps)); at < len(p.ring) {
			p.ring[at] = batch{seq, payload}
		} else {
			for len(p.ring) < at {
				p.ring = append(p.ring, batch{seq: math.MaxUint64})
			}
			p.ring = append(p.ring, batch{seq, payload})
		}
	}
	p.mu.Unlock()
	if f == deliver && p.pub != nil {
		p.pub.Send(p.topic, binary.BigEndian.AppendUint64(nil, seq), payload)
	}
}

// sent is the number of batches so far.
func (p *publisher) sent() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next
}

// since copies the kept batches from seq on, in order.
func (p *publisher) since(seq uint64) []batch {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := uint64(0)
	if p.next > uint64(p.steps) {
		first = p.next - uint64(p.steps)
	}
	var out []batch
	for s := max(first, seq); s < p.next; s++ {
		if at := int(s % uint64(p.steps)); at < len(p.ring) && p.ring[at].seq == s {
			out = append(out, p.ring[at])
		}
	}
	return out
}

// replay answers [delimiter, start]; anything else is never answered.
func (p *publisher) replay(r *zmtp.Request) {
	from, err := kvevents.ParseReplayRequest(r.Frames)
	if err != nil {
		return
	}
	for _, b := range p.since(from) {
		if p.reply(r, p.topic, b.seq, b.payload) != nil {
			return
		}
	}
	_ = p.reply(r, nil, math.MaxUint64, nil)
}

func (p *publisher) reply(r *zmtp.Request, topic []byte, seq uint64, payload []byte) error {
	number := binary.BigEndian.AppendUint64(nil, seq)
	if p.frames == 4 {
		return r.Reply(nil, number, payload)
	}
	return r.Reply(nil, topic, number, payload)
}

// addrs are the bound endpoints, "" where there is none.
func (p *publisher) addrs() (events, replay string) {
	if p.pub != nil && p.pub.Addr() != nil {
		events = endpointOf(p.pub.Addr())
	}
	if p.router != nil {
		replay = endpointOf(p.router.Addr())
	}
	return events, replay
}

func endpointOf(a net.Addr) string {
	if a.Network() == "unix" {
		return "ipc://" + a.String()
	}
	return "tcp://" + a.String()
}
