package router

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/gossip/mesh"
	"github.com/banyan-llm/banyan/router/console"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/index"
	"github.com/banyan-llm/banyan/router/load"
	"github.com/banyan-llm/banyan/router/metrics"
	"github.com/banyan-llm/banyan/router/report"
	"github.com/banyan-llm/banyan/router/token"
)

// statusReport makes the status document.
type statusReport struct {
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
	metrics   *metrics.Metrics
	replicas  *replicaReport
	prefixes  *prefixUse
	page      *page
	recent    report.LastMinute
	turns     report.Turns
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
	metrics *metrics.Metrics
}

// Status is what this peer knows, for people and scripts.
func (p *Peer) Status() *console.Status { return p.report.statusWith(p.report.prefixes.top(20)) }

func (rep *statusReport) statusWith(prefixes []console.Prefix) *console.Status {
	now := time.Now()
	ready, why := rep.readiness.ready()
	s := &console.Status{
		Name: rep.name, PeerID: rep.id.String(), Version: rep.version, Label: rep.rules.config().Mesh.Label, Policy: rep.rules.config().Policy, Grid: rep.rules.config().Grid,
		TimeMs: now.UnixMilli(), UptimeS: int64(now.Sub(rep.clock.began).Seconds()), Ready: ready, Draining: rep.readiness.draining.Load(), Reason: why, Behind: rep.readiness.behind(), LateMs: rep.turns.MeanMs(),
		Peers: rep.peerStatus(ready), Replicas: rep.replicas.replicaStatus(now), Mesh: rep.meshStatus(), Prefixes: prefixes, Problems: []console.Problem{}, Notes: []console.Problem{},
	}
	st := rep.index.Stats()
	s.Tree = console.Tree{Facts: uint64(st.Facts), Keys: uint64(st.Keys), Bytes: st.Bytes, Predicted: uint64(st.Predicted), Suspect: uint64(st.Suspect)}
	s.Requests = rep.requestStatus(now)
	s.Disagg, s.Queue = rep.disaggStatus(), rep.queueStatus()
	s.Config = rep.rules.configStatus()
	s.Keys = rep.path.prompts.keyStatus(rep.tokens.Modes())
	report.Complete(s, rep.replicas.listed(now))
	return s
}

// peerStatus lists this peer first, then the members by name.
func (rep *statusReport) peerStatus(ready bool) []console.Peer {
	vitals := rep.loads.Vitals()
	ages := map[crdt.PeerID]gossip.PeerInfo{}
	if v := rep.path.view.ages.Load(); v != nil {
		for _, info := range v.list {
			ages[info.ID] = info
		}
	}
	own := vitals[rep.id]
	now, rules := rep.clock.at(time.Now()), rep.rules.Load()
	out := []console.Peer{{
		ID: rep.id.String(), Name: rep.name, Address: rep.mesh.address(), HTTP: rep.front.public.Addr().String(), Self: true, State: "alive",
		Ready: ready, Draining: rep.readiness.draining.Load(), Version: rep.version, Rate: &own.Rate, Facts: &own.Facts, Memory: &own.Memory,
		ViewAges: viewAges(own.Ages),
	}}
	members := present(rep.mesh.everybody(), rep.id)
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
		if m.State == mesh.Alive && now.Sub(m.Settled) >= differMin && now.Sub(rules.at) >= differMin {
			q.Differs = differences(rules.print, &m, rep.version)
		}
		q.Steady = m.State == mesh.Alive && now.Sub(m.Since) >= differMin
		q.Flaps = m.Flaps(now)
		out = append(out, q)
	}
	return out
}

// differMin is how long two peers may be configured otherwise, or go by one name,
// before that is told: a reload reaches them a moment apart, and a peer that was
// started again elsewhere is not missed before 22 s.
const differMin = time.Minute

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
	default:
		switch why, left := r.Ejected(now); {
		case left > 0:
			q.State, q.Reason = "ejected", fmt.Sprintf("%s; tried again in %s", why, left.Round(time.Second))
		case why != "":
			q.WasOut = why
		}
	}
	q.Bad, q.Answered = r.FailedShare(now)
	since := h.Since
	if since.IsZero() {
		since = r.Since
	}
	q.SinceMs = now.Sub(since).Milliseconds()
	for _, m := range r.Models() {
		q.Models = append(q.Models, m.ID)
		if q.Tokenizer == "" {
			q.Tokenizer = report.KeyScheme(modes, m.ID)
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
	if q.Tries, q.Failed, ttft = rep.metrics.Usage.Lately(r.Name(), now); ttft > 0 {
		q.TTFTMs = new(1000 * ttft.Seconds())
	}
	q.HidesCached = r.HidesCached()
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
	s.Facts, s.Linked, s.Digest = d.Base.Count, d.Base.Linked, report.Digest(&d)
	if rep.index.Quarantined(r.Stream) {
		s.State, s.Detail = "quarantined", "its numbering restarts again and again, as with two engines behind one URL; give each engine a URL of its own"
	}
	if f, ok := rep.index.Full(r.Stream); ok {
		s.State, s.Detail = "unusable", report.Unusable(&f)
	}
	if ago, ok := rep.index.Ref(r.Stream).SinceSlot(rep.clock.ms(time.Now())); ok {
		s.LastEventMs = &ago
	}
	return s
}

func (rep *statusReport) meshStatus() console.Mesh {
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
	m.Unjoined, m.UDPLost = rep.mesh.unjoined(), rep.mesh.udpLost()
	m.PropagationMs = report.Quantiles(metrics.Histogram(rep.metrics.Propagation))
	return m
}

func (rep *statusReport) requestStatus(now time.Time) console.Requests {
	m, logFault, logLost := rep.metrics, "", uint64(0)
	if log := rep.journal.access; log != nil {
		logFault, logLost = log.Fault(), log.Stats().Failed
	}
	return console.Requests{
		Total: m.Total.Load(), Failed: m.Failed.Load(), PromptTokens: metrics.Count(m.Prompt), MatchedTokens: metrics.Count(m.Matched),
		CachedTokens: metrics.Count(m.Cached), Rate: rep.journal.rate.PerSecond(now, rep.journal.arrived.Load()),
		TTFTMs: report.Quantiles(metrics.Histogram(m.TTFT)), AddedMs: report.Quantiles(metrics.Histogram(m.Overhead)), Recent: rep.recent.Since(now),
		Failures: rep.journal.failures.Since(now), FewFiles: rep.front.fewFiles, LogFault: logFault, LogLost: logLost,
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
