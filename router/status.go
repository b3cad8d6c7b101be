package router

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/gossip/mesh"
	"github.com/banyan-llm/banyan/radix"
	"github.com/banyan-llm/banyan/router/console"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/index"
	"github.com/banyan-llm/banyan/router/load"
	"github.com/banyan-llm/banyan/router/token"
)

// staleViewMs is the view age an operator should hear of.
const staleViewMs = 2000

// report makes the status document.
type report struct {
	self
	rules     *inForce
	clock     clock
	index     *index.Index
	loads     *load.Table
	fleet     *fleet.Fleet
	tokens    *token.Tokenizer
	mesh      *link
	path      *requestPath
	journal   *journal
	readiness *readiness
	front     *front
	metrics   *metrics
	replicas  *replicaReport
	prefixes  *prefixUse
	page      *page
	recent    recent
}

// replicaReport tells of each replica and of its events.
type replicaReport struct {
	rules   *inForce
	clock   clock
	index   *index.Index
	loads   *load.Table
	fleet   *fleet.Fleet
	tokens  *token.Tokenizer
	ingest  *follower
	census  *census
	metrics *metrics
}

// Status is what this peer knows, for people and scripts.
func (p *Peer) Status() *console.Status { return p.report.statusWith(p.report.prefixes.top(20)) }

func (rep *report) statusWith(prefixes []console.Prefix) *console.Status {
	now := time.Now()
	ready, why := rep.readiness.ready()
	s := &console.Status{
		Name: rep.name, PeerID: rep.id.String(), Version: rep.version, Label: rep.rules.config().Mesh.Label, Policy: rep.rules.config().Policy, Grid: rep.rules.config().Grid,
		TimeMs: now.UnixMilli(), UptimeS: int64(now.Sub(rep.clock.began).Seconds()), Ready: ready, Draining: rep.readiness.draining.Load(), Reason: why, Behind: rep.readiness.behind(),
		Peers: rep.peerStatus(ready), Replicas: rep.replicas.replicaStatus(now), Mesh: rep.meshStatus(), Prefixes: prefixes, Problems: []console.Problem{}, Notes: []console.Problem{},
	}
	st := rep.index.Stats()
	s.Tree = console.Tree{Facts: uint64(st.Facts), Keys: uint64(st.Keys), Bytes: st.Bytes, Predicted: uint64(st.Predicted), Suspect: uint64(st.Suspect)}
	s.Requests = rep.requestStatus(now)
	s.Disagg, s.Queue = rep.disaggStatus(), rep.queueStatus()
	s.Config = rep.rules.configStatus()
	s.Problems = append(s.Problems, problems(s)...)
	s.Problems = append(s.Problems, queueProblems(s.Queue)...)
	s.Problems = append(s.Problems, rep.replicas.fleetProblems()...)
	s.Keys = rep.path.prompts.keyStatus(rep.tokens.Modes())
	s.Problems = append(s.Problems, keyProblems(s.Keys)...)
	s.Notes = append(s.Notes, notes(s)...)
	s.Notes = append(s.Notes, crowdedNotes(s.Queue.WorkingSet)...)
	s.Judge()
	return s
}

// peerStatus lists this peer first, then the members by name.
func (rep *report) peerStatus(ready bool) []console.Peer {
	vitals := rep.loads.Vitals()
	ages := map[crdt.PeerID]gossip.PeerInfo{}
	if v := rep.path.view.ages.Load(); v != nil {
		for _, info := range v.list {
			ages[info.ID] = info
		}
	}
	own := vitals[rep.id]
	out := []console.Peer{{
		ID: rep.id.String(), Name: rep.name, Address: rep.mesh.address(), HTTP: rep.front.public.Addr().String(), Self: true, State: "alive",
		Ready: ready, Draining: rep.readiness.draining.Load(), Version: rep.version, Rate: &own.Rate, Facts: &own.Facts, Memory: &own.Memory,
		ViewAges: viewAges(own.Ages),
	}}
	members := present(rep.mesh.members())
	slices.SortFunc(members, func(a, b mesh.Member) int { return strings.Compare(a.Name, b.Name) })
	for _, m := range members {
		q := console.Peer{
			ID: m.ID.String(), Name: m.Name, Address: m.Addr, HTTP: m.HTTP, State: string(m.State), Ready: m.Ready && m.State == mesh.Alive, Draining: m.Draining, Version: m.Version,
		}
		if info, ok := ages[m.ID]; ok && m.State == mesh.Alive {
			q.Refused = info.Refused
			age := float64(info.ViewAge)
			q.ViewAgeMs = &age
		}
		if v, ok := vitals[m.ID]; ok && m.State == mesh.Alive {
			q.Rate, q.Facts, q.Memory, q.ViewAges = &v.Rate, &v.Facts, &v.Memory, viewAges(v.Ages)
		}
		out = append(out, q)
	}
	return out
}

func viewAges(in map[crdt.PeerID]int64) map[string]int64 {
	out := make(map[string]int64, len(in))
	for id, ms := range in {
		out[id.String()] = ms
	}
	return out
}

func (rep *replicaReport) replicaStatus(now time.Time) []console.Replica {
	digests := rep.index.All()
	scrapes := rep.loads.Scrapes()
	modes := rep.tokens.Modes()
	out := []console.Replica{}
	for _, r := range rep.fleet.List() {
		out = append(out, rep.oneReplica(r, digests[r.Stream], scrapes, modes, now))
	}
	return out
}

func (rep *replicaReport) oneReplica(r *fleet.Replica, d crdt.Digest, scrapes map[crdt.StreamID]crdt.Scrape, modes []token.Mode, now time.Time) console.Replica {
	sum, prompt, cached := rep.loads.Totals(r.Stream)
	h := r.Health()
	unfit, cure := r.Unfit()
	q := console.Replica{
		Name: r.Name(), URL: r.Spec.URL, Rank: r.Spec.Rank, Engine: r.Engine(), Role: r.Spec.Role, Kind: r.Spec.Kind, State: "up",
		Reason: h.Reason, Models: []string{}, Inflight: int(sum.Waiting + sum.Streams), Waiting: int(sum.Waiting), Uncached: sum.Tokens,
	}
	switch {
	case !h.Up:
		q.State = "down"
	case unfit != "":
		q.State, q.Reason = "unfit", unfit
	case rep.loads.Draining(r.Stream):
		q.State = "draining"
	}
	since := h.Since
	if since.IsZero() {
		since = r.Since
	}
	q.SinceMs = now.Sub(since).Milliseconds()
	for _, m := range r.Models() {
		q.Models = append(q.Models, m.ID)
		if q.Tokenizer == "" {
			q.Tokenizer = modeOf(modes, m.ID)
		}
	}
	if s, ok := scrapes[r.Stream]; ok && load.Fresh(&s, now.UnixMilli(), 5*load.ScrapeFreshMs) {
		use, running, queued := float64(s.KVUse), int(s.Running), int(s.Waiting)
		q.KVUse, q.Running, q.Queued = &use, &running, &queued
	}
	rep.detected(&q, r, scrapes[r.Stream], now)
	if prompt > 0 {
		ratio := float64(cached) / float64(prompt)
		q.Cached = &ratio
	}
	var ttft time.Duration
	if q.Tries, q.Failed, ttft = rep.metrics.usage.lately(r.Name(), now); ttft > 0 {
		q.TTFTMs = new(1000 * ttft.Seconds())
	}
	q.Stream, q.Cure = rep.streamStatus(r, d), cure
	return q
}

// detected says what is known of the replica's engine, and where from.
func (rep *replicaReport) detected(q *console.Replica, r *fleet.Replica, s crdt.Scrape, now time.Time) {
	f := r.Facts()
	q.EngineFrom, q.BlockFrom, q.Source, q.LoadError = f.EngineFrom, f.BlockFrom, r.Source, r.LoadError()
	if f.Engine == "" {
		q.Engine = "unknown"
	}
	if f.BlockSize > 0 {
		q.BlockSize = &f.BlockSize
	}
	if s.Version > 0 {
		age := now.UnixMilli() - int64(s.Version)
		q.LoadAgeMs = &age
	}
	if w := r.Weight(now); w < 1 {
		q.SlowStart = &w
	}
}

func (rep *replicaReport) streamStatus(r *fleet.Replica, d crdt.Digest) console.Stream {
	s := rep.ingest.status(r)
	f := r.Facts()
	s.Events, s.EventsFrom, s.Replay = f.Events, f.EventsFrom, f.Replay
	c := d.Context
	s.Epoch, s.Anchor, s.Floor, s.Lost = c.Epoch, c.Anchor, c.Floor, len(c.Voids)+len(c.Lost)
	s.Holes = len(rep.index.Holes(r.Stream))
	s.Facts, s.Linked, s.Digest = d.Base.Count, d.Base.Linked, digestText(&d)
	if rep.index.Quarantined(r.Stream) {
		s.State, s.Detail = "quarantined", "its numbering restarts again and again; two processes behind one URL look like that"
	}
	if f, ok := rep.index.Full(r.Stream); ok {
		s.State, s.Detail = "unusable", fullDetail(&f)
	}
	if ago, ok := rep.index.Ref(r.Stream).SinceSlot(rep.clock.ms(time.Now())); ok {
		s.LastEventMs = &ago
	}
	return s
}

// digestText writes context and facts in 16 hex digits: equal on converged
// peers. Keys are left out: equal facts may be linked later here than there.
func digestText(d *crdt.Digest) string {
	h := uint64(14695981039346656037)
	add := func(words ...uint64) {
		for _, w := range words {
			h = (h ^ w) * 1099511628211
			h ^= h >> 29
		}
	}
	c := &d.Context
	add(c.Epoch, c.Anchor, c.Floor, uint64(len(c.Voids)), uint64(len(c.Above)), uint64(len(c.Lost)))
	for _, spans := range [][]crdt.Span{c.Voids, c.Above, c.Lost} {
		for _, sp := range spans {
			add(sp.From, sp.To)
		}
	}
	add(d.Base.Count, d.Base.Facts)
	return fmt.Sprintf("%016x", h)
}

func (rep *report) meshStatus() console.Mesh {
	m := console.Mesh{BytesIn: map[string]uint64{}, BytesOut: map[string]uint64{}, Snapshots: map[string]uint64{}, Peers: 1}
	if v := rep.path.view.ages.Load(); v != nil {
		m.Peers = v.Peers
		for _, info := range v.list {
			for kind, t := range info.In.ByName() {
				m.BytesIn[kind] += t.Bytes
			}
			for kind, t := range info.Out.ByName() {
				m.BytesOut[kind] += t.Bytes
			}
		}
	}
	if st := rep.path.view.coreStats.Load(); st != nil {
		m.Divergent = st.Divergent
		maps.Copy(m.Snapshots, st.Snapshots)
	}
	m.Quarantined = rep.index.Stats().Quarantined
	m.Unjoined = rep.mesh.unjoined()
	m.PropagationMs = quantiles(rep.metrics.propagation)
	return m
}

// quantiles reads p50 and p99 in ms off a histogram of seconds.
func quantiles(of prometheus.Histogram) console.Quantiles { return quantilesOf(readHistogram(of)) }

func quantilesOf(h *dto.Histogram) console.Quantiles {
	q := console.Quantiles{Count: h.GetSampleCount()}
	if q.Count == 0 {
		return q
	}
	at := func(share float64) *float64 {
		want := share * float64(q.Count)
		low, below := 0.0, 0.0
		for _, b := range h.GetBucket() {
			if n := float64(b.GetCumulativeCount()); n >= want && n > below {
				ms := 1000 * (low + (b.GetUpperBound()-low)*(want-below)/(n-below))
				return &ms
			}
			low, below = b.GetUpperBound(), float64(b.GetCumulativeCount())
		}
		ms := 1000 * low
		return &ms
	}
	q.P50, q.P99 = at(.5), at(.99)
	return q
}

func (rep *report) requestStatus(now time.Time) console.Requests {
	m := rep.metrics
	return console.Requests{
		Total: m.total.Load(), Failed: m.failed.Load(), PromptTokens: counterValue(m.prompt), MatchedTokens: counterValue(m.matched),
		CachedTokens: counterValue(m.cached), Rate: rep.journal.rate.perSecond(now, rep.journal.arrived.Load()),
		TTFTMs: quantiles(m.ttft), AddedMs: quantiles(m.overhead), Recent: rep.recent.since(now, m),
	}
}

// configStatus says what configuration is in force, and what is not.
func (c *inForce) configStatus() console.Config {
	out := console.Config{Hash: fmt.Sprintf("%08x", c.configHash()), LoadedMs: c.Load().at.UnixMilli(), Restart: []string{}}
	if fault := c.reloadFault.Load(); fault != nil {
		out.Fault = *fault
	}
	if waiting := c.restart.Load(); waiting != nil {
		out.Restart = append(out.Restart, *waiting...)
	}
	return out
}

// top lists the most shared prefixes with the names of their holders.
func (u *prefixUse) top(n int) []console.Prefix {
	names := map[crdt.StreamID]string{}
	for _, r := range u.fleet.List() {
		names[r.Stream] = r.Name()
	}
	out := []console.Prefix{}
	top := u.index.Top(n)
	hits, roots, of := u.hits.count(top)
	for i, t := range top {
		q := console.Prefix{
			Key: keyText(t.Key), Parent: keyText(t.Parent), Tokens: t.Depth * u.rules.config().Grid, Blocks: t.Blocks,
		}
		q.Model, q.Tenant = u.roots.find(roots[i])
		if t.Under != 0 {
			q.Under = keyText(t.Under)
		}
		if of > 0 {
			share := float64(hits[i]) / float64(of)
			q.HitShare = &share
		}
		for _, id := range t.Holders {
			if name, ok := names[id]; ok {
				q.Holders = append(q.Holders, name)
			}
		}
		if len(q.Holders) > 0 {
			out = append(out, q)
		}
	}
	return out
}

func keyText(k radix.Key) string { return fmt.Sprintf("%016x", uint64(k)) }

// unheardCure says what to do about events that cannot be heard, by what the
// last attempt ended with.
func unheardCure(why string) string {
	const until = "Its cache is guessed from the traffic sent there until then"
	if strings.Contains(why, "ROUTER") {
		return "events: names the engine's replay port: swap events: and replay:. " + until
	}
	return "Set events: to the address where the engine publishes (vLLM: endpoint in --kv-events-config, its * is the replica's host) " +
		"and open that port to all peers, or leave events: out if the engine tells it. " + until
}

func dashed(s string) string {
	if s == "" {
		return "no connection"
	}
	return s
}

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
