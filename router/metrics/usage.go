package metrics

import (
	"math"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/banyan-llm/banyan/router/openai"
	"github.com/banyan-llm/banyan/router/proxy"
	"github.com/banyan-llm/banyan/router/requests"
)

// Bounds of labels that grow with what is served or who asks; the rest are
// "other".
const (
	MaxModels = 256
	maxUsers  = 256 // pairs of key and tenant
	Other     = "other"
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
	outcomeCut     outcome = "cut"   // after its first byte, or told inside the stream
	outcomeWrong   outcome = "wrong" // status 200, but no answer of the API
	outcomeLeft    outcome = "left"  // the client went away
)

// tryOutcomes are those of replicas, answerOutcomes those of models.
var (
	tryOutcomes    = []outcome{outcomeOK, outcomeInvalid, outcomeShed, outcomeError, outcomeConnect, outcomeReset, outcomeTimeout, outcomeCut, outcomeWrong, outcomeLeft}
	answerOutcomes = []outcome{outcomeOK, outcomeInvalid, outcomeShed, outcomeError, outcomeCut, outcomeWrong, outcomeLeft}
)

// failure reports whether an outcome counts against who gave it.
func (o outcome) failure() bool {
	switch o {
	case outcomeError, outcomeConnect, outcomeReset, outcomeTimeout, outcomeCut, outcomeWrong:
		return true
	}
	return false
}

// kinds are those of tokens.
var kinds = [3]string{"prompt", "cached", "output"}

// Series are the series of one replica, model, or pair of key and tenant.
type Series struct {
	outcomes map[outcome]prometheus.Counter
	ttft     prometheus.Observer // nil: not measured
	tokens   [3]prometheus.Counter
	lately   lately
}

func (c *Series) count(o outcome, ttft time.Duration, now time.Time) {
	if counter := c.outcomes[o]; counter != nil {
		counter.Inc()
	}
	if ttft > 0 && c.ttft != nil {
		c.ttft.Observe(ttft.Seconds())
	}
	c.lately.add(now, o.failure(), ttft)
}

// AddTokens counts what an answer reported.
func (c *Series) AddTokens(prompt, cached, output int) {
	for i, n := range [3]int{prompt, cached, output} {
		if n > 0 {
			c.tokens[i].Add(float64(n))
		}
	}
}

// Usage names who caused what: metrics by replica, by model, and by key and
// tenant, each bounded.
type Usage struct {
	replicaRequests, modelRequests, usageRequests *prometheus.CounterVec
	replicaTokens, modelTokens, usageTokens       *prometheus.CounterVec
	replicaTTFT, modelTTFT                        *prometheus.HistogramVec

	mu       sync.RWMutex // guards below
	replicas map[string]*Series
	models   map[string]*Series
	users    map[[2]string]*Series
}

func newUsage(reg prometheus.Registerer) *Usage {
	f := promauto.With(reg)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help, label string) *prometheus.HistogramVec {
		return f.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(.01, 2.5, 10)}, []string{label})
	}
	return &Usage{
		replicaRequests: counter("banyan_replica_requests_total", "Tries at a replica, by outcome: ok, invalid (4xx), shed (429), error (5xx), connect, reset (before the first byte), timeout, cut (after the first byte), wrong (status 200, but no answer of the API), left (the client disconnected).", "replica", "outcome"),
		replicaTokens:   counter("banyan_replica_tokens_total", "Tokens reported by a replica, by kind: prompt, cached (part of prompt), output.", "replica", "kind"),
		replicaTTFT:     histogram("banyan_replica_ttft_seconds", "Time from the dispatch to a replica to its first token.", "replica"),
		modelRequests:   counter("banyan_model_requests_total", "Requests by model and outcome for the client: ok, invalid (4xx), shed (429), error (5xx), cut (after the first byte), wrong (status 200, but no answer of the API), left (the client disconnected). Unknown models, and those beyond the first 256, count as other.", "model", "outcome"),
		modelTokens:     counter("banyan_model_tokens_total", "Tokens by model, as engines reported, by kind: prompt, cached (part of prompt), output.", "model", "kind"),
		modelTTFT:       histogram("banyan_model_ttft_seconds", "Time from the request to its first token, queue and retries included.", "model"),
		usageRequests:   counter("banyan_usage_requests_total", "Requests by client key and tenant. Pairs beyond the first 256 are other.", "key", "tenant"),
		usageTokens:     counter("banyan_usage_tokens_total", "Tokens by client key and tenant, as engines reported, by kind: prompt, cached (part of prompt), output. Pairs beyond the first 256 are other.", "key", "tenant", "kind"),
		replicas:        map[string]*Series{}, models: map[string]*Series{}, users: map[[2]string]*Series{},
	}
}

// known is of[key], made on first use while there are less than most.
func known[K comparable](u *Usage, of map[K]*Series, key, other K, most int, start func(K) *Series) *Series {
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

// Replica is the series of a replica, made on first use.
func (u *Usage) Replica(name string) *Series {
	return known(u, u.replicas, name, name, math.MaxInt, func(name string) *Series {
		return counting(name, tryOutcomes, u.replicaRequests, u.replicaTokens, u.replicaTTFT)
	})
}

func (u *Usage) model(name string) *Series {
	return known(u, u.models, Label(name), Other, MaxModels, func(name string) *Series {
		return counting(name, answerOutcomes, u.modelRequests, u.modelTokens, u.modelTTFT)
	})
}

// counting makes the series of one replica or model.
func counting(name string, outcomes []outcome, requests, tokens *prometheus.CounterVec, ttft *prometheus.HistogramVec) *Series {
	c := &Series{outcomes: map[outcome]prometheus.Counter{}, ttft: ttft.WithLabelValues(name)}
	for _, o := range outcomes {
		c.outcomes[o] = requests.WithLabelValues(name, string(o))
	}
	for i, kind := range kinds {
		c.tokens[i] = tokens.WithLabelValues(name, kind)
	}
	return c
}

func (u *Usage) user(key, tenant string) *Series {
	return known(u, u.users, [2]string{Label(key), Label(tenant)}, [2]string{Other, Other}, maxUsers, func(who [2]string) *Series {
		c := &Series{outcomes: map[outcome]prometheus.Counter{outcomeOK: u.usageRequests.WithLabelValues(who[0], who[1])}}
		for i, kind := range kinds {
			c.tokens[i] = u.usageTokens.WithLabelValues(who[0], who[1], kind)
		}
		return c
	})
}

// Label makes a word of the outside a label.
func Label(s string) string {
	if !utf8.ValidString(s) {
		return Other
	}
	return s
}

// Keep forgets replicas that are not listed any more: names of pods never come
// back.
func (u *Usage) Keep(listed func(name string) bool) {
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

// Lately is what the console tells of a replica's last minute.
func (u *Usage) Lately(name string, now time.Time) (n, failed int, meanTTFT time.Duration) {
	u.mu.RLock()
	c := u.replicas[name]
	u.mu.RUnlock()
	if c == nil {
		return 0, 0, 0
	}
	return c.lately.sum(now)
}

// ObserveTry counts a try against its replica.
func (u *Usage) ObserveTry(replica string, res *proxy.Result, now time.Time) {
	u.Replica(replica).count(tryOutcome(res), res.TTFT, now)
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
	case res.Wrong != openai.WrongNothing:
		return outcomeWrong
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

// ObserveRequest counts an ended request for its model and for who asked. The
// model must be one that somebody serves, or "other".
func (u *Usage) ObserveRequest(r *requests.Record, model string, now time.Time) {
	o := statusOutcome(r.Status)
	switch r.Error {
	case requests.ErrLeft:
		o = outcomeLeft
	case requests.ErrCut, requests.ErrInStream:
		o = outcomeCut
	case requests.ErrWrong:
		o = outcomeWrong
	}
	m := u.model(model)
	m.count(o, r.TTFT, now)
	m.AddTokens(r.Prompt, r.Cached, r.Output)
	who := u.user(r.Client, r.Tenant)
	who.outcomes[outcomeOK].Inc()
	who.AddTokens(r.Prompt, r.Cached, r.Output)
}
