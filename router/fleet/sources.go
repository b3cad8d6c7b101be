package fleet

import (
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	maxSourcesBytes = 1 << 20
	// resolveWait bounds the look-up of a replica's host.
	resolveWait = time.Second
)

// errSources says that a /kv_event_sources was no such thing.
var errSources = plainError("/kv_event_sources is not what an engine sends")

// reachable turns an endpoint as the engine binds it into one to dial: any
// interface means the host of the replica's URL. A host told outright counts
// only if it is that host: an engine must not send a router elsewhere. Where it
// differs, the configuration names the endpoint.
func reachable(endpoint, base string, rank int) string {
	host, port, ok := splitEndpoint(endpoint)
	u, err := url.Parse(base)
	if !ok || err != nil || rank < 0 || port+rank > 65535 {
		return ""
	}
	if !anyHost(host) && host != u.Hostname() {
		return ""
	}
	return "tcp://" + net.JoinHostPort(u.Hostname(), strconv.Itoa(port+rank))
}

// splitEndpoint cuts tcp://host:port, the host without brackets.
func splitEndpoint(endpoint string) (host string, port int, ok bool) {
	address, ok := strings.CutPrefix(endpoint, "tcp://")
	i := strings.LastIndexByte(address, ':')
	if !ok || i < 0 {
		return "", 0, false
	}
	port, err := strconv.Atoi(address[i+1:])
	return strings.Trim(address[:i], "[]"), port, err == nil && port > 0 && port <= 65535
}

// anyHost reports whether a host is how a socket is bound to every interface.
// Nobody can dial it.
func anyHost(host string) bool {
	return host == "" || host == "*" || host == "0.0.0.0" || host == "::"
}

// dialed is a configured endpoint with the replica's own host in place of a
// wildcard: people paste what the engine binds.
func (s *Spec) dialed(endpoint string) string {
	if host, _, ok := splitEndpoint(endpoint); ok && anyHost(host) {
		if own := reachable(endpoint, s.URL, 0); own != "" {
			return own
		}
	}
	return endpoint
}

// source is one publisher of vLLM's /kv_event_sources. Its ports are those of
// its own rank.
type source struct {
	Endpoint string `json:"endpoint"`
	Replay   string `json:"replay_endpoint"`
	Topic    string `json:"topic"`
}

// parseSources reads the publisher of a rank off a /kv_event_sources, and how
// many ranks publish if they are numbered from 0 without a gap. A page of one
// publisher alone counts for rank 0 whatever its number: with an external
// balancer there is one server a rank. ok is false if the rank publishes
// nothing.
func parseSources(body []byte, rank int) (s source, ranks int, ok bool, err error) {
	var page map[string]source
	if json.Unmarshal(body, &page) != nil || len(page) > maxRanks {
		return s, 0, false, errSources
	}
	for ; ranks < len(page); ranks++ {
		if _, there := page[strconv.Itoa(ranks)]; !there {
			ranks = 0
			break
		}
	}
	s, ok = page[strconv.Itoa(rank)]
	if !ok && rank == 0 && len(page) == 1 {
		for _, s = range page {
			ok = true
		}
	}
	return s, ranks, ok, nil
}

// askSources reads vLLM's /kv_event_sources (0.32; older versions have none).
func (q *inquiry) askSources() {
	spec := &q.replica.Spec
	body, err := q.pages.read(q.ctx, fromSources, maxSourcesBytes)
	if err != nil {
		q.open = q.open || !definite(err)
		return
	}
	s, ranks, ok, err := parseSources(body, spec.Rank)
	if err != nil || !ok {
		return
	}
	if q.facts.Ranks == 0 && ranks > 1 {
		q.facts.Ranks = ranks
	}
	q.publishes(fromSources, q.own(s.Endpoint), q.own(s.Replay), s.Topic)
}

// askAgain asks a known engine only where it publishes, and follows it if that
// changed: a server that was replaced between two probes never looked down.
func (f *Fleet) askAgain(ctx context.Context, r *Replica, read *urlPages) bool {
	q := &inquiry{fleet: f, pages: read, ctx: ctx, replica: r, facts: r.Facts()}
	set := r.Spec.configured()
	q.facts.Events, q.facts.EventsFrom, q.facts.Replay, q.facts.Topic = set.Events, set.EventsFrom, set.Replay, set.Topic
	q.facts.Tells, q.facts.Elsewhere, q.facts.Loads, q.facts.LoadTopic = "", "", "", ""
	switch q.facts.Engine {
	case vllm:
		q.askSources()
	case sglang:
		q.askInfo()
	default:
		return true
	}
	if q.open || ctx.Err() != nil {
		return false
	}
	f.learned(r, q.facts)
	return true
}

// learned publishes facts and says so where they change how events are read.
func (f *Fleet) learned(r *Replica, facts Facts) {
	if !r.note(facts) {
		return
	}
	f.gen.Add(1) // who serves what may depend on the engine
	f.cfg.Logger.Info("engine known", "replica", r.Name(), "engine", facts.Engine, "engine_from", facts.EngineFrom,
		"block_size", facts.BlockSize, "events", facts.Events, "events_from", facts.EventsFrom, "replay", facts.Replay)
	f.changed()
}

// publishes takes where the engine says it publishes. What the configuration
// says stays.
func (q *inquiry) publishes(from, events, replay, topic string) {
	if events != "" {
		q.facts.Tells = events
	}
	if q.facts.Events == "" && events != "" {
		q.facts.Events, q.facts.EventsFrom, q.facts.Topic = events, from, topic
	}
	if q.facts.Replay == "" && q.facts.Events != "" && q.facts.Events != Poll {
		q.facts.Replay = replay
	}
}

// own turns an endpoint into one to dial, as reachable does, and also takes an
// address that the replica's host resolves to: tcp://*:0 is told with the
// address of the node (vLLM 0.32).
func (q *inquiry) own(endpoint string) string {
	base := q.replica.Spec.URL
	if to := reachable(endpoint, base, 0); to != "" {
		return to
	}
	host, port, ok := splitEndpoint(endpoint)
	addr, err := netip.ParseAddr(host)
	u, urlErr := url.Parse(base)
	if !ok || err != nil || urlErr != nil || addr.IsLoopback() || addr.IsUnspecified() {
		return ""
	}
	if sameHost(q.ctx, addr.Unmap(), u.Hostname()) {
		return "tcp://" + net.JoinHostPort(host, strconv.Itoa(port))
	}
	q.facts.Elsewhere = "tcp://" + net.JoinHostPort(addr.String(), strconv.Itoa(port))
	return ""
}

// sameHost reports whether an address is the host's: one of those its name
// resolves to, or, where the host is this machine's loopback, one of this
// machine's.
func sameHost(ctx context.Context, addr netip.Addr, host string) bool {
	ctx, cancel := context.WithTimeout(ctx, resolveWait)
	defer cancel()
	list, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return false
	}
	local := false
	for _, a := range list {
		if a.Unmap() == addr {
			return true
		}
		local = local || a.IsLoopback()
	}
	if !local {
		return false
	}
	mine, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range mine {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Unmap() == addr {
			return true
		}
	}
	return false
}
