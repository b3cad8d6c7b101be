package fleet

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/banyan-llm/banyan/crdt"
)

// Model is one entry of a replica's /v1/models.
type Model struct {
	ID     string
	Owner  string // owned_by: engines name themselves there
	Parent string // base model of a LoRA adapter
	Root   string
	MaxLen int
}

// Replica is one listed inference endpoint.
type Replica struct {
	Spec   Spec
	Stream crdt.StreamID
	Since  time.Time // listed since
	Source string    // who listed it: static, dns or kubernetes
	Told   bool      // nobody listed this rank: the engine told of it

	// Mark is what the owner notes of the replica; always of one type.
	Mark atomic.Value

	slowStart time.Duration // length of the ramp, immutable
	began     time.Time     // when the fleet was made, immutable
	up        atomic.Bool
	noServer  atomic.Bool  // what answers there has no models, and none is configured
	many      atomic.Bool  // other ranks of the URL are listed
	cut       atomic.Bool  // the engine tells of more ranks than were taken
	rose      atomic.Int64 // ms of its clock: when the ramp began; 0: it has none
	lastPage  lastPage
	hidden    atomic.Int64  // answers in a row that should have told cached tokens, since it last did or came up
	epoch     atomic.Uint64 // of its events, as last told; 0: none yet
	belief    belief
	renewed   atomic.Bool  // it may serve other models now
	reports   atomic.Int64 // rose + 1 of the rise since which it has told cached tokens; 0: it never did
	models    atomic.Pointer[[]Model]
	facts     atomic.Pointer[Facts]

	// What its answers did to it, in ms of its clock; 0: nothing. See outlier.go.
	out     atomic.Int64  // it is left out until then
	rest    atomic.Int64  // it asked to be left alone until then
	doubted atomic.Int64  // trust counts until then
	trust   atomic.Uint64 // bits of what is left of its weight

	mu      sync.Mutex // guards below; never held across I/O
	breaker breaker
	outlier outlier
	probed  time.Time
	loadErr string // why the last scrape brought nothing
	listErr string // why its models were not read last
}

func newReplica(spec Spec, now time.Time) *Replica {
	spec = spec.withDefaults()
	r := &Replica{Spec: spec, Stream: spec.Stream(), Since: now, Source: SourceStatic, began: now}
	facts := spec.configured()
	r.facts.Store(&facts)
	r.up.Store(true)
	return r
}

// Name is the replica's name for people.
func (r *Replica) Name() string { return r.Spec.Name }

// Up reports whether the replica may get requests.
func (r *Replica) Up() bool { return r.up.Load() }

// PeerOwner is the owner of the models that a Banyan peer lists.
const PeerOwner = "banyan"

// atPeer reports whether a Banyan peer answers at the URL, itself or behind the
// balancer: requests sent there would go round in the mesh.
func (r *Replica) atPeer() bool {
	told := r.models.Load()
	return told != nil && slices.ContainsFunc(*told, func(m Model) bool { return m.Owner == PeerOwner })
}

// Models lists what the replica serves, as far as known.
func (r *Replica) Models() []Model {
	if r.atPeer() {
		return nil
	}
	if m := r.models.Load(); m != nil {
		return *m
	}
	if r.Spec.Model != "" {
		return []Model{{ID: r.Spec.Model}}
	}
	return nil
}

// Serves reports whether the replica serves a model, and the LoRA adapter's
// name if the model is one. A replica that has not told its models yet serves
// nothing unless its spec names the model; one that is not fit serves nothing.
func (r *Replica) Serves(model string) (lora string, ok bool) {
	if !r.Fit() {
		return "", false
	}
	models := r.Models()
	i := slices.IndexFunc(models, func(m Model) bool { return m.ID == model })
	switch {
	case i >= 0 && models[i].Parent != "":
		return model, true
	case i >= 0 || model == r.Spec.Model && model != "":
		return "", true
	}
	return "", false
}

// Fit reports whether the replica can do what it is listed for, as far as known.
// Who is not fit gets no request, whatever model it names.
func (r *Replica) Fit() bool { return !r.atPeer() && !r.misnamed() && !r.noServer.Load() }

// misnamed reports whether the spec names a model that the engine does not
// have: vLLM would answer 404; others take any name.
func (r *Replica) misnamed() bool {
	told := r.models.Load()
	return told != nil && r.Spec.Model != "" && r.Engine() == vllm &&
		!slices.ContainsFunc(*told, func(m Model) bool { return m.ID == r.Spec.Model })
}

// Unfit says why a replica that answers cannot do what it is listed for, and
// what to do; empty if it can, as far as known.
func (r *Replica) Unfit() (why, cure string) {
	if r.Spec.Kind != KindReplica || !r.Up() {
		return "", ""
	}
	if r.atPeer() {
		return "a Banyan peer answers there, not an inference server", "Set `url` to the inference server itself, not to a peer or to the balancer before the peers"
	}
	if r.misnamed() {
		var names []string
		for _, m := range r.Models() {
			names = append(names, m.ID)
		}
		return fmt.Sprintf("model: is %s, but the server there serves %s", r.Spec.Model, strings.Join(names, ", ")), "Correct model:, or leave it out"
	}
	if r.noServer.Load() {
		r.mu.Lock()
		defer r.mu.Unlock()
		return "no LLM server answers there: " + r.listErr, "Set `url` to the base URL of an OpenAI API, without /v1. If it needs a key, set `credentials_file`"
	}
	return "", ""
}

// noteList remembers how the last look at the models went. It reports whether that
// changed who is fit.
func (r *Replica) noteList(err error) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listErr = ""
	if err != nil {
		r.listErr = listCause(err)
	}
	none := err != nil && r.models.Load() == nil && r.Spec.Model == "" && r.Spec.Kind == KindReplica
	return r.noServer.Swap(none) != none
}

// listCause says in a few words why a page of models was not one.
func listCause(err error) string {
	var status *statusError
	switch {
	case errors.As(err, &status):
		return fmt.Sprintf("%s answers %d", status.path, status.code)
	case errors.Is(err, errModels):
		return "/v1/models is no list of models"
	}
	return "/v1/models: " + Cause(err)
}

// Rise changes whenever the replica came up again: what was learned of the
// process before need not hold of this one.
func (r *Replica) Rise() int64 { return r.rose.Load() }

// Began notes the epoch of the replica's events. Another one than before is another
// process: what it serves, and what it is, is read at once.
func (r *Replica) Began(epoch uint64) {
	if before := r.epoch.Swap(epoch); before != 0 && before != epoch {
		r.belief.word.Store(0)
		r.renewed.Store(true)
	}
}

// NoteReport remembers that an answer told a number of cached tokens.
func (r *Replica) NoteReport() {
	r.hidden.Store(0)
	r.reports.Store(r.rose.Load() + 1)
}

// NoteSilence remembers that an answer told no cached tokens though there should
// have been some.
func (r *Replica) NoteSilence() { r.hidden.Add(1) }

// hiddenEnough is how many such answers in a row are not taken for chance: a
// cache may hold less than a router believes, and older engines leave a nought
// out.
const hiddenEnough = 8

// HidesCached reports whether the engine seems to be one that was not started to
// tell cached tokens.
func (r *Replica) HidesCached() bool { return !r.Reports() && r.hidden.Load() >= hiddenEnough }

// Reports reports whether the engine, since it last came up, told cached tokens
// at least once. Engines leave a nought out, and also leave the number out if
// they were not started to tell it: only after one was seen does nothing mean
// nought.
func (r *Replica) Reports() bool { return r.reports.Load() == r.rose.Load()+1 }

// Health is a replica's state for people.
type Health struct {
	Up     bool
	Since  time.Time // of the present state; zero: since it was listed
	Reason string    // why it is down
	Probed time.Time // last answer to a probe
}

// Health returns the replica's state.
func (r *Replica) Health() Health {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Health{Up: !r.breaker.open, Since: r.breaker.since, Reason: r.breaker.reason, Probed: r.probed}
}

// Lost reports whether the replica is down and its last probe agrees; mute says
// that this got no answer at all, neither a refusal nor a bad one.
func (r *Replica) Lost() (lost, mute bool) {
	if r.Up() {
		return false, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.breaker.lost()
}

// LoadError says why the last scrape through this peer brought nothing; empty
// if it did, or if this peer does not scrape the replica.
func (r *Replica) LoadError() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.loadErr
}

// Fail records a failed request. hard means that nobody listened. It reports
// whether the replica went down now.
func (r *Replica) Fail(now time.Time, hard bool, reason string) bool {
	return r.judge(now, func(b *breaker) bool { return b.fail(now, hard, reason) })
}

// OK records an answered request. It reports whether the replica came up now.
func (r *Replica) OK(now time.Time) bool {
	return r.judge(now, func(b *breaker) bool { return b.ok(now) })
}

// judge changes the breaker and publishes what follows. It reports whether the
// replica went up or down.
func (r *Replica) judge(now time.Time, change func(*breaker) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := change(&r.breaker)
	if changed && !r.breaker.open {
		r.rose.Store(r.ms(now))
		r.hidden.Store(0)
		r.lastPage.forget()
		r.belief.word.Store(0)
	}
	r.up.Store(!r.breaker.open)
	return changed
}

// probeDue reports whether an active probe should run now.
func (r *Replica) probeDue(now time.Time, every time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.breaker.open {
		return !now.Before(r.breaker.retryAt)
	}
	return now.Sub(r.probed) >= every
}
