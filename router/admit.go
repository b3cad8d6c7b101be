package router

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/banyan-llm/banyan/router/console"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/load"
	"github.com/banyan-llm/banyan/router/metrics"
	"github.com/banyan-llm/banyan/router/pick"
	"github.com/banyan-llm/banyan/router/proxy"
	"github.com/banyan-llm/banyan/router/report"
	"github.com/banyan-llm/banyan/router/workingset"
)

// AdmissionConfig says when requests wait here rather than at the engines, and
// who goes first then. A replica is full when one of the three figures says
// so; a request waits while every replica that could take it is full, or while
// limits.concurrency are in flight. limits.queue and limits.queue_timeout
// bound the wait.
type AdmissionConfig struct {
	ReplicaLimit   int            `yaml:"replica_limit" doc:"a replica is full at this many requests in flight, counted over all peers; each peer may use its equal part; 0 = no limit"`
	EngineQueue    int            `yaml:"engine_queue" doc:"a replica is full while its engine reports this many waiting requests; 0 = off"`
	KVLoad         float64        `yaml:"kv_load" doc:"a replica is full when the tokens in flight there reach this multiple of the KV capacity it reports; a shared prefix counts for every request; 0 = off"`
	WorkingSet     float64        `yaml:"working_set" doc:"new conversations wait while the tokens used within three minutes exceed this share of the replicas' KV caches, so that running conversations stay cached; 0.8 is a good value; 0 = off"`
	Classes        int            `yaml:"classes" doc:"number of priority classes; class 0 goes first, except that one request in 16 comes from the others"`
	DefaultClass   int            `yaml:"default_class" doc:"class of requests without one"`
	PriorityHeader string         `yaml:"priority_header" doc:"request header that sets the class, a number (out of range = the nearest class); empty = off"`
	KeyClasses     map[string]int `yaml:"key_classes" doc:"per client key: its default class, which is also the best it may ask for, as {batch: 2}"`
	TenantQueue    int            `yaml:"tenant_queue" doc:"most requests of one tenant (client key, else isolate_by) that wait for one model; 0 = limits.queue"`
}

// maxClasses bounds admission.classes.
const maxClasses = 16

func (c *AdmissionConfig) validate() error {
	var errs []error
	bad := func(key, format string, args ...any) {
		errs = append(errs, fmt.Errorf("admission.%s: %s", key, fmt.Sprintf(format, args...)))
	}
	for key, n := range map[string]int{"replica_limit": c.ReplicaLimit, "engine_queue": c.EngineQueue, "tenant_queue": c.TenantQueue} {
		if n < 0 {
			bad(key, "must be 0 or more, not %d", n)
		}
	}
	if !(c.KVLoad >= 0 && c.KVLoad <= 1000) {
		bad("kv_load", "must be from 0 to 1000, not %v", c.KVLoad)
	}
	if !(c.WorkingSet >= 0 && c.WorkingSet <= 1000) {
		bad("working_set", "must be from 0 to 1000, not %v", c.WorkingSet)
	}
	if c.Classes < 1 || c.Classes > maxClasses {
		bad("classes", "must be from 1 to %d, not %d", maxClasses, c.Classes)
	}
	if c.DefaultClass < 0 || c.DefaultClass >= c.Classes {
		bad("default_class", "must be 0 or more and less than admission.classes (%d), not %d", c.Classes, c.DefaultClass)
	}
	for name, class := range c.KeyClasses {
		if class < 0 || class >= c.Classes {
			bad("key_classes", "%s: must be 0 or more and less than admission.classes (%d), not %d", name, c.Classes, class)
		}
	}
	return errors.Join(errs...)
}

// on reports whether replicas can be full.
func (c *AdmissionConfig) on() bool { return c.ReplicaLimit > 0 || c.EngineQueue > 0 || c.KVLoad > 0 }

func (c *AdmissionConfig) proxy() proxy.Admission {
	return proxy.Admission{
		Classes: c.Classes, Default: c.DefaultClass, Header: c.PriorityHeader, TenantQueue: c.TenantQueue, Keys: c.KeyClasses,
	}
}

// capacity says which replicas are full and how much the others take.
type capacity struct {
	rules   *inForce
	clock   clock
	fleet   *fleet.Fleet
	loads   *load.Table
	picker  *pick.Picker
	view    *meshView
	metrics *metrics.Metrics
	used    *workingset.Set
}

// limit is the capacity limit of a replica as this peer sees it now.
func (c *capacity) limit(now time.Time) *load.Limit {
	cfg, seen := c.rules.config(), c.view.seen(now)
	a := &cfg.Admission
	return &load.Limit{
		ReplicaLimit: a.ReplicaLimit, EngineQueue: a.EngineQueue, KVLoad: a.KVLoad,
		Peers: seen.Peers, Rank: seen.Rank, Grid: cfg.Grid,
	}
}

// limitFor is the limit that a try must keep; nil for none: a retry goes
// wherever it can.
func (c *capacity) limitFor(call *proxy.Call, now time.Time) *load.Limit {
	if call.Attempt > 0 || !c.rules.config().Admission.on() {
		return nil
	}
	return c.limit(now)
}

// hasCapacity keeps the candidates that are not full. In a pool of two roles at
// least one replica that decodes must be left.
func (c *capacity) hasCapacity(s *scratch, call *proxy.Call, now time.Time) error {
	limit := c.limitFor(call, now)
	if limit == nil {
		return nil
	}
	c.picker.WithCapacity(&s.Scratch, &s.Set, limit, c.clock.ms(now))
	for i := range s.Cands {
		if s.replicas[s.Cands[i].Index].Spec.Role != "prefill" {
			return nil
		}
	}
	if len(s.Cands) > 0 && !c.rules.config().Routing.Disagg.On() {
		return nil
	}
	return proxy.ErrSaturated
}

// headroom is how many more requests the replicas of a model take now; any number
// if none serves it, for then Pick has an answer.
func (c *capacity) headroom(model string) int {
	if !c.rules.config().Admission.on() {
		return math.MaxInt
	}
	now := time.Now()
	limit, sum, some := c.limit(now), 0, false
	for _, r := range c.fleet.List() {
		if c.takes(r, model) {
			some = true
			sum += c.loads.Headroom(r.Stream, limit, c.clock.ms(now))
		}
	}
	if !some {
		return math.MaxInt
	}
	return sum
}

// takes reports whether a replica takes requests of a model now; "" is any.
func (c *capacity) takes(r *fleet.Replica, model string) bool {
	if r.Spec.Kind != fleet.KindReplica || r.Spec.Role == "prefill" && c.rules.config().Routing.Disagg.On() || !r.Up() || c.loads.Draining(r.Stream) {
		return false
	}
	_, ok := r.Serves(model)
	return ok || model == ""
}

// waited counts a request that could not be dispatched at once.
func (c *capacity) waited(how proxy.Outcome, took time.Duration) {
	c.metrics.Waits.WithLabelValues(string(how)).Inc()
	c.metrics.QueueWait.Observe(took.Seconds())
}

// queueStatus says who waits for room.
func (rep *statusReport) queueStatus() *console.Queue {
	cfg := rep.rules.config()
	q := &console.Queue{
		Concurrency: cfg.Limits.Concurrency, Most: cfg.Limits.Queue, ReplicaLimit: cfg.Admission.ReplicaLimit,
		EngineQueue: cfg.Admission.EngineQueue, KVLoad: cfg.Admission.KVLoad, Outcomes: map[string]uint64{},
	}
	s := rep.front.waiting()
	q.InFlight, q.Waiting, q.Classes, q.Tenants, q.OldestMs = s.InFlight, s.Queued, s.Classes, s.Tenants, s.Oldest.Milliseconds()
	for _, how := range proxy.Outcomes {
		q.Outcomes[string(how)] = metrics.Count(rep.metrics.Waits.WithLabelValues(string(how)))
	}
	q.WaitMs = report.Quantiles(metrics.Histogram(rep.metrics.QueueWait))
	q.WorkingSet = rep.path.capacity.workingSet(time.Now())
	return q
}
