package kvevents

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/banyan-llm/banyan/router/kvevents/zmtp"
)

// Hub receives from engines that dial us and hands each message to the stream
// its topic names: "kv@<host[:port]>@<model>". Of several data-parallel ranks
// under one name the batch itself says whose it is. Unknown topics and ranks
// are dropped and counted.
type Hub struct {
	sub *zmtp.Sub

	mu      sync.Mutex
	streams map[string]map[int]*Subscriber // by name and rank
	unknown uint64
	strange string    // topic of the last unknown message, cut short
	at      time.Time // when it came
}

// ListenHub binds a SUB socket, for example at "tcp://*:5557".
func ListenHub(addr string, opt zmtp.Options) (*Hub, error) {
	sub, err := zmtp.ListenSub(addr, "", opt)
	if err != nil {
		return nil, fmt.Errorf("listen for engines: %w", err)
	}
	return &Hub{sub: sub, streams: make(map[string]map[int]*Subscriber)}, nil
}

// Addr is the bound address.
func (h *Hub) Addr() net.Addr { return h.sub.Addr() }

// Register names the stream that messages of a rank with host in their topic
// belong to: "10.0.0.7:8000" or "10.0.0.7". The last one wins.
func (h *Hub) Register(host string, rank int, s *Subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.streams[host] == nil {
		h.streams[host] = make(map[int]*Subscriber)
	}
	h.streams[host][rank] = s
}

// Unregister forgets a rank's name.
func (h *Hub) Unregister(host string, rank int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if delete(h.streams[host], rank); len(h.streams[host]) == 0 {
		delete(h.streams, host)
	}
}

// Unknown counts messages that named no registered stream.
func (h *Hub) Unknown() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.unknown
}

// maxTopicShown bounds what is kept of a topic that nobody goes by, bytes.
const maxTopicShown = 128

// Strange is Unknown, with the topic of the last such message, cut short, and
// when it came.
func (h *Hub) Strange() (n uint64, topic string, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.unknown, h.strange, h.at
}

// State is the state of the listening socket.
func (h *Hub) State() zmtp.State { return h.sub.State() }

// Run routes messages until ctx ends, then closes the socket.
func (h *Hub) Run(ctx context.Context) error {
	defer func() { _ = h.sub.Close() }()
	for {
		m, err := h.sub.Recv(ctx)
		if err != nil {
			return err
		}
		if m.Kind == zmtp.Down {
			h.ended(m)
		}
		if m.Kind != zmtp.Data || len(m.Frames) == 0 {
			m.Held.Release()
			continue // a stream learns of a new connection by its first message
		}
		if s := h.route(m.Frames); s != nil {
			s.Feed(m)
		} else {
			m.Held.Release()
		}
	}
}

// ended tells every stream that a connection ended; it was one's.
func (h *Hub) ended(m zmtp.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, ranks := range h.streams {
		for _, s := range ranks {
			s.Feed(m)
		}
	}
}

// route finds a message's stream.
func (h *Hub) route(frames [][]byte) *Subscriber {
	host := TopicHost(string(frames[0]))
	h.mu.Lock()
	defer h.mu.Unlock()
	ranks := h.streams[host]
	if len(ranks) == 1 {
		for _, s := range ranks { // whatever number it gives itself
			return s
		}
	}
	var s *Subscriber
	if len(ranks) > 1 {
		s = ranks[rankOf(frames[len(frames)-1])]
	}
	if s == nil {
		h.unknown++
		h.strange, h.at = string(frames[0][:min(len(frames[0]), maxTopicShown)]), time.Now()
	}
	return s
}

// rankOf reads the data-parallel rank of a batch without decoding it; -1 if
// the batch does not say. A batch in the form of a map is not looked into.
func rankOf(payload []byte) int {
	c := newCursor(payload)
	if n, err := c.array(); err != nil || n < 3 {
		return -1
	}
	for range 2 {
		if c.skip() != nil {
			return -1
		}
	}
	v, negative, err := c.integer()
	if err != nil || negative || v > maxRank {
		return -1
	}
	return int(v)
}

// TopicHost is the host part of a topic "kv@<host[:port]>@<model>"; a topic of
// another form is taken whole. A model's name may hold "@".
func TopicHost(topic string) string {
	if parts := strings.SplitN(topic, "@", 3); len(parts) == 3 && parts[0] == "kv" {
		return parts[1]
	}
	return topic
}
