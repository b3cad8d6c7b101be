package router

import (
	"math"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/banyan-llm/banyan/router/proxy"
	"github.com/banyan-llm/banyan/router/requests"
)

// Bounds of labels that grow with what is served or who asks; the rest are
// "other".
const (
	maxModelSeries = 256
	maxUsageSeries = 256 // pairs of key and tenant
	otherLabel     = "other"
)

// outcome is how a try or an answer ended; a closed list, used as a label.
type outcome string

const (
	outcomeOK      outcome = "ok"
	outcomeInvalid outcome = "invalid" // 4xx but 429
	outcomeShed    outcome = "shed"    // 429
	outcomeError   outcome = "error"   // 5xx
	outcomeConnect outcome = "connect"
	outcomeReset   outcome = "reset"
	outcomeTimeout outcome = "timeout"
	outcomeCut     outcome = "cut"  // after its first byte, or told inside the stream
	outcomeLeft    outcome = "left" // the client went away
)

// tryOutcomes are those of replicas, answerOutcomes those of models.
var (
	tryOutcomes    = []outcome{outcomeOK, outcomeInvalid, outcomeShed, outcomeError, outcomeConnect, outcomeReset, outcomeTimeout, outcomeCut, outcomeLeft}
	answerOutcomes = []outcome{outcomeOK, outcomeInvalid, outcomeShed, outcomeError, outcomeCut, outcomeLeft}
)

// failure reports whether an outcome counts against who gave it.
func (o outcome) failure() bool {
	switch o {
	case outcomeError, outcomeConnect, outcomeReset, outcomeTimeout, outcomeCut:
		return true
	}
	return false
}

// kinds are those of tokens.
var kinds = [3]string{"prompt", "cached", "output"}

// counted are the series of one replica, model, or pair of key and tenant.
type counted struct {
	outcomes map[outcome]prometheus.Counter
	ttft     prometheus.Observer // nil: not measured
	tokens   [3]prometheus.Counter
	lately   lately
}

func (c *counted) count(o outcome, ttft time.Duration, now time.Time) {
	if counter := c.outcomes[o]; counter != nil {
		counter.Inc()
	}
	if ttft > 0 && c.ttft != nil {
		c.ttft.Observe(ttft.Seconds())
	}
	c.lately.add(now, o.failure(), ttft)
}

func (c *counted) addTokens(prompt, cached, output int) {
	for i, n := range [3]int{prompt, cached, output} {
		if n > 0 {
			c.tokens[i].Add(float64(n))
		}
	}
}

// usage names who caused what: metrics by replica, by model, and by key and
// tenant, each bounded.
type usage struct {
	replicaRequests, modelRequests, usageRequests *prometheus.CounterVec
	replicaTokens, modelTokens, usageTokens       *prometheus.CounterVec
	replicaTTFT, modelTTFT                        *prometheus.HistogramVec

	mu       sync.RWMutex // guards below
	replicas map[string]*counted
	models   map[string]*counted
	users    map[[2]string]*counted
}

func newUsage(reg prometheus.Registerer) *usage {
	f := promauto.With(reg)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help, label string) *prometheus.HistogramVec {
		return f.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(.01, 2.5, 10)}, []string{label})
	}
	return &usage{
		replicaRequests: counter("banyan_replica_requests_total", "Tries at a replica, by outcome: ok, invalid (4xx), shed (429), error (5xx), connect, reset (before the first byte), timeout, cut (after the first byte), left (the client disconnected).", "replica", "outcome"),
		replicaTokens:   counter("banyan_replica_tokens_total", "Tokens reported by a replica, by kind: prompt, cached (part of prompt), output.", "replica", "kind"),
		replicaTTFT:     histogram("banyan_replica_ttft_seconds", "Time from the dispatch to a replica to its first token.", "replica"),
		modelRequests:   counter("banyan_model_requests_total", "Requests by model and outcome for the client: ok, invalid (4xx), shed (429), error (5xx), cut (after the first byte), left (the client disconnected). Unknown models, and those beyond the first 256, count as other.", "model", "outcome"),
		modelTokens:     counter("banyan_model_tokens_total", "Tokens by model, as engines reported, by kind: prompt, cached (part of prompt), output.", "model", "kind"),
		modelTTFT:       histogram("banyan_model_ttft_seconds", "Time from the request to its first token, queue and retries included.", "model"),
		usageRequests:   counter("banyan_usage_requests_total", "Requests by client key and tenant. Pairs beyond the first 256 are other.", "key", "tenant"),
		usageTokens:     counter("banyan_usage_tokens_total", "Tokens by client key and tenant, as engines reported, by kind: prompt, cached (part of prompt), output. Pairs beyond the first 256 are other.", "key", "tenant", "kind"),
		replicas:        map[string]*counted{}, models: map[string]*counted{}, users: map[[2]string]*counted{},
	}
}

// known is of[key], made on first use while there are less than most.
func known[K comparable](u *usage, of map[K]*counted, key, other K, most int, start func(K) *counted) *counted {
	u.mu.RLock()
	c := of[key]
	u.mu.RUnlock()
	if c != nil {
		return c
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(of) >= most && of[key] == nil {
		key = other
	}
	if c = of[key]; c == nil {
		c = start(key)
		of[key] = c
	}
	return c
}

func (u *usage) replica(name string) *counted {
	return known(u, u.replicas, name, name, math.MaxInt, func(name string) *counted {
		return counting(name, tryOutcomes, u.replicaRequests, u.replicaTokens, u.replicaTTFT)
	})
}

func (u *usage) model(name string) *counted {
	return known(u, u.models, label(name), otherLabel, maxModelSeries, func(name string) *counted {
		return counting(name, answerOutcomes, u.modelRequests, u.modelTokens, u.modelTTFT)
	})
}

// counting makes the series of one replica or model.
func counting(name string, outcomes []outcome, requests, tokens *prometheus.CounterVec, ttft *prometheus.HistogramVec) *counted {
	c := &counted{outcomes: map[outcome]prometheus.Counter{}, ttft: ttft.WithLabelValues(name)}
	for _, o := range outcomes {
		c.outcomes[o] = requests.WithLabelValues(name, string(o))
	}
	for i, kind := range kinds {
		c.tokens[i] = tokens.WithLabelValues(name, kind)
	}
	return c
}

func (u *usage) user(key, tenant string) *counted {
	return known(u, u.users, [2]string{label(key), label(tenant)}, [2]string{otherLabel, otherLabel}, maxUsageSeries, func(who [2]string) *counted {
		c := &counted{outcomes: map[outcome]prometheus.Counter{outcomeOK: u.usageRequests.WithLabelValues(who[0], who[1])}}
		for i, kind := range kinds {
			c.tokens[i] = u.usageTokens.WithLabelValues(who[0], who[1], kind)
		}
		return c
	})
}

// label makes a word of the outside a label.
func label(s string) string {
	if !utf8.ValidString(s) {
		return otherLabel
	}
	return s
}

// keep forgets replicas that are not listed any more: names of pods never come
// back.
func (u *usage) keep(listed func(name string) bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for name := range u.replicas {
		if !listed(name) {
			delete(u.replicas, name)
			of := prometheus.Labels{"replica": name}
			u.replicaRequests.DeletePartialMatch(of)
			u.replicaTokens.DeletePartialMatch(of)
			u.replicaTTFT.DeletePartialMatch(of)
		}
	}
}

// lately is what the console tells of a replica's last minute.
func (u *usage) lately(name string, now time.Time) (n, failed int, meanTTFT time.Duration) {
	u.mu.RLock()
	c := u.replicas[name]
	u.mu.RUnlock()
	if c == nil {
		return 0, 0, 0
	}
	return c.lately.sum(now)
}

// observeTry counts a try against its replica.
func (u *usage) observeTry(t *ticket, res *proxy.Result, now time.Time) {
	u.replica(t.replica.Name()).count(tryOutcome(res), res.TTFT, now)
}

func tryOutcome(res *proxy.Result) outcome {
	switch {
	case res.ClientGone:
		return outcomeLeft
	case res.Cause == proxy.CauseConnect:
		return outcomeConnect
	case res.Cause == proxy.CauseTimeout:
		return outcomeTimeout
	case res.Status >= 500:
		return outcomeError
	case res.Answered && (res.Err != nil || res.Failed):
		return outcomeCut
	case res.Cause == proxy.CauseReset:
		return outcomeReset
	}
	return statusOutcome(res.Status)
}

func statusOutcome(status int) outcome {
	switch {
	case status >= 500:
		return outcomeError
	case status == 429:
		return outcomeShed
	case status >= 400:
		return outcomeInvalid
	}
	return outcomeOK
}

// observeRequest counts an ended request for its model and for who asked. The
// model must be one that somebody serves, or "other".
func (u *usage) observeRequest(r *requests.Record, model string, now time.Time) {
	o := statusOutcome(r.Status)
	switch r.Error {
	case requests.ErrLeft:
		o = outcomeLeft
	case requests.ErrCut, requests.ErrInStream:
		o = outcomeCut
	}
	m := u.model(model)
	m.count(o, r.TTFT, now)
	m.addTokens(r.Prompt, r.Cached, r.Output)
	who := u.user(r.Client, r.Tenant)
	who.outcomes[outcomeOK].Inc()
	who.addTokens(r.Prompt, r.Cached, r.Output)
}

// lately sums up the last minute in slots of 5 seconds.
type lately struct {
	mu    sync.Mutex // guards below
	slots [12]struct {
		at, n, failed, firsts int64
		ttft                  time.Duration
	}
}

const latelySlot = 5 // seconds

func (l *lately) add(now time.Time, failed bool, ttft time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := now.Unix() / latelySlot
	s := &l.slots[at%int64(len(l.slots))]
	if s.at != at {
		*s = struct {
			at, n, failed, firsts int64
			ttft                  time.Duration
		}{at: at}
	}
	s.n++
	if failed {
		s.failed++
	}
	if ttft > 0 {
		s.firsts, s.ttft = s.firsts+1, s.ttft+ttft
	}
}

func (l *lately) sum(now time.Time) (n, failed int, meanTTFT time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, firsts := now.Unix()/latelySlot, int64(0)
	for i := range l.slots {
		if s := &l.slots[i]; at-s.at < int64(len(l.slots)) {
			n, failed, firsts, meanTTFT = n+int(s.n), failed+int(s.failed), firsts+s.firsts, meanTTFT+s.ttft
		}
	}
	if firsts > 0 {
		meanTTFT /= time.Duration(firsts)
	}
	return n, failed, meanTTFT
}
