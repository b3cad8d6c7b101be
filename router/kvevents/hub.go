package kvevents

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/banyan-llm/banyan/router/kvevents/zmtp"
)

// Hub receives from engines that dial us and hands each message to the stream
// its topic names: "kv@<host[:port]>@<model>". Unknown topics are dropped and
// counted.
type Hub struct {
	sub *zmtp.Sub

	mu      sync.Mutex
	streams map[string]*Subscriber
	unknown uint64
}

// ListenHub binds a SUB socket, for example at "tcp://*:5557".
func ListenHub(addr string, opt zmtp.Options) (*Hub, error) {
	sub, err := zmtp.ListenSub(addr, "", opt)
	if err != nil {
		return nil, fmt.Errorf("listen for engines: %w", err)
	}
	return &Hub{sub: sub, streams: make(map[string]*Subscriber)}, nil
}

// Addr is the bound address.
func (h *Hub) Addr() net.Addr { return h.sub.Addr() }

// Register names the stream that messages with host in their topic belong to:
// "10.0.0.7:8000" or "10.0.0.7". A name has one stream; the last one wins.
func (h *Hub) Register(host string, s *Subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.streams[host] = s
}

// Unregister forgets a name.
func (h *Hub) Unregister(host string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.streams, host)
}

// Unknown counts messages whose topic named no registered stream.
func (h *Hub) Unknown() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.unknown
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
		if m.Kind != zmtp.Data || len(m.Frames) == 0 {
			continue // a stream learns of a new connection by its first message
		}
		if s := h.route(string(m.Frames[0])); s != nil {
			s.Feed(m)
		}
	}
}

// route finds a topic's stream.
func (h *Hub) route(topic string) *Subscriber {
	host := TopicHost(topic)
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.streams[host]
	if s == nil {
		h.unknown++
	}
	return s
}

// TopicHost is the host part of a topic "kv@<host[:port]>@<model>"; a topic of
// another form is taken whole. A model's name may hold "@".
func TopicHost(topic string) string {
	if parts := strings.SplitN(topic, "@", 3); len(parts) == 3 && parts[0] == "kv" {
		return parts[1]
	}
	return topic
}
