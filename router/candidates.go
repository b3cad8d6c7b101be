package router

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/banyan-llm/banyan/radix"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/index"
	"github.com/banyan-llm/banyan/router/load"
	"github.com/banyan-llm/banyan/router/openai"
	"github.com/banyan-llm/banyan/router/pick"
	"github.com/banyan-llm/banyan/router/proxy"
)

// candidateSet is replicas that may be tried, in one order.
type candidateSet struct {
	replicas []*fleet.Replica
	pick.Set
}

func (s *candidateSet) add(r *fleet.Replica, m *pick.Mark) {
	s.replicas = append(s.replicas, r)
	s.Add(m)
}

// clear empties the set and keeps their memory.
func (s *candidateSet) clear() {
	s.replicas = s.replicas[:0]
	s.Reset()
}

// modelReplicas is who serves one model. Immutable.
type modelReplicas struct {
	known bool   // somebody serves it
	told  bool   // somebody has told what it serves
	lora  string // the adapter, if the model is one
	// several are the models among which a request without one would have to
	// choose; nil if any replica may take it.
	several []string
	candidateSet
	stores  candidateSet     // shared cache layers that all of them can load from
	renders []*fleet.Replica // asked for tokens before replicas are
}

// candidateSets are those of one state of the fleet and of the configuration.
// Immutable.
type candidateSets struct {
	gen uint64
	of  *rules
	by  map[string]*modelReplicas // by model
}

// maxCandidateSets bounds the models whose set is kept. Only those that somebody
// serves are.
const maxCandidateSets = 4096

// candidateCache keeps the present sets: who serves a model changes when
// replicas come, go or load adapters, not from request to request.
type candidateCache struct {
	now atomic.Pointer[candidateSets]
	mu  sync.Mutex // serialises who replaces them
}

// directory knows which replicas serve a model, and which one stores an answer.
type directory struct {
	rules         *inForce
	clock         clock
	fleet         *fleet.Fleet
	index         *index.Index
	loads         *load.Table
	hasher        *radix.Hasher
	seal          seal
	candidateSets candidateCache
}

// modelReplicas returns who serves a model. Mostly a pointer to load and one look-up.
func (d *directory) modelReplicas(model string) *modelReplicas {
	gen, of := d.fleet.Generation(), d.rules.Load()
	if now := d.candidateSets.now.Load(); now != nil && now.gen == gen && now.of == of {
		if l := now.by[model]; l != nil {
			return l
		}
	}
	l := d.newModelReplicas(model, of.cfg.Routing.Disagg.On())
	if !l.known {
		return l
	}
	d.candidateSets.mu.Lock()
	defer d.candidateSets.mu.Unlock()
	next := &candidateSets{gen: gen, of: of, by: map[string]*modelReplicas{}}
	if now := d.candidateSets.now.Load(); now != nil && now.gen == gen && now.of == of && len(now.by) < maxCandidateSets {
		maps.Copy(next.by, now.by)
	}
	next.by[model] = l
	d.candidateSets.now.Store(next)
	return l
}

func (d *directory) newModelReplicas(model string, split bool) *modelReplicas {
	l := &modelReplicas{}
	for _, r := range d.fleet.List() {
		if r.Spec.Kind == fleet.KindRender {
			if _, ok := r.Serves(model); ok || model == "" {
				l.renders = append(l.renders, r)
			}
			continue
		}
		if r.Spec.Kind == fleet.KindPool {
			if _, ok := r.Serves(model); ok || model == "" {
				l.stores.add(r, d.markOf(r))
			}
			continue
		}
		if r.Spec.Role == "decode" && !split || !r.Fit() {
			continue
		}
		l.told = l.told || len(r.Models()) > 0
		name, ok := r.Serves(model)
		if !ok && model != "" {
			continue
		}
		l.known, l.lora = true, name
		l.add(r, d.markOf(r))
	}
	if model == "" {
		l.several = apart(l.replicas)
	}
	return l
}

// apart names the base models of replicas that have none in common; nil if they
// have one, or if not all have told.
func apart(replicas []*fleet.Replica) (models []string) {
	count := map[string]int{}
	for _, r := range replicas {
		for _, m := range r.Models() {
			if m.Parent == "" {
				if count[m.ID]++; count[m.ID] == 1 {
					models = append(models, m.ID)
				}
			}
		}
		if len(r.Models()) == 0 {
			return nil
		}
	}
	for _, n := range count {
		if n == len(replicas) {
			return nil
		}
	}
	return models
}

func (d *directory) markOf(r *fleet.Replica) *pick.Mark {
	if m, ok := r.Mark.Load().(*pick.Mark); ok {
		return m
	}
	m := &pick.Mark{ID: d.hash(r.Name()), Ref: d.index.Ref(r.Stream), Entry: d.loads.Entry(r.Stream)}
	r.Mark.Store(m)
	return m
}

// candidates lists the replicas that serve the call's model and may be tried:
// mostly the whole set, which is then not copied.
func (d *directory) candidates(s *scratch, call *proxy.Call) (lora string, err error) {
	l := d.modelReplicas(call.Body.Model)
	if l.several != nil && call.Endpoint != openai.Other && call.Stored == "" {
		return "", openai.Invalid("model", "the request names no model, and several are served: "+strings.Join(l.several, ", "))
	}
	s.candidateSet, s.serving, s.stores, s.renders = l.candidateSet, l.replicas, l.stores, l.renders
	now := time.Now()
	if len(call.Tried) > 0 || slices.ContainsFunc(l.replicas, func(r *fleet.Replica) bool { return !r.Up() || r.LeftOut(now) }) {
		s.candidateSet = *s.remaining(l, call, func(r *fleet.Replica) bool { return !r.LeftOut(now) })
		if len(s.replicas) == 0 { // a bad answer is better than none
			s.candidateSet = *s.remaining(l, call, func(*fleet.Replica) bool { return true })
		}
	}
	if len(s.replicas) > 0 {
		return l.lora, nil
	}
	if err := l.served(); err != nil {
		return "", err
	}
	return "", proxy.ErrNoReplica
}

// remaining are the replicas of a model that are up, were not tried yet and pass.
func (s *scratch) remaining(l *modelReplicas, call *proxy.Call, pass func(*fleet.Replica) bool) *candidateSet {
	left := &s.left
	left.clear()
	for i, r := range l.replicas {
		if r.Up() && !slices.Contains(call.Tried, r.Name()) && pass(r) {
			left.add(r, l.Marks[i])
		}
	}
	return left
}

// serves reports whether requests for a model may wait; their replicas may be
// down.
func (d *directory) serves(model string) error { return d.modelReplicas(model).served() }

// served is why nobody can take requests for the model, whatever happens to the
// replicas that are known; nil if somebody may.
func (l *modelReplicas) served() error {
	switch {
	case l.known:
		return nil
	case l.told:
		return proxy.ErrUnknownModel
	}
	return proxy.ErrNoReplica
}

// models lists the fleet's models for /v1/models.
func (d *directory) models() []proxy.Model {
	var out []proxy.Model
	for _, m := range d.fleet.ModelNames() {
		out = append(out, proxy.Model{
			ID: m.ID, Object: "model", Created: d.clock.began.Unix(), OwnedBy: fleet.PeerOwner, Root: m.Root, Parent: m.Parent, MaxModelLen: m.MaxLen,
		})
	}
	return out
}
