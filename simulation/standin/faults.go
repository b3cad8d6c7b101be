package standin

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Fault is a change to a stand-in's misbehaviour, as POST /standin/fault takes
// it. Absent fields stay as they are; counts say how many come next.
type Fault struct {
	FailNext   *int     `json:"fail_next,omitempty"`   // generation requests answered with Status
	Status     *int     `json:"status,omitempty"`      // default 503
	CutNext    *int     `json:"cut_next,omitempty"`    // answers cut after their first token
	ResetNext  *int     `json:"reset_next,omitempty"`  // connections closed before a byte
	LatencyMS  *int     `json:"latency_ms,omitempty"`  // before every generation
	StallMS    *int     `json:"stall_ms,omitempty"`    // the model stands still, once
	DropEvents *float64 `json:"drop_events,omitempty"` // share of batches that subscribers miss
	DropNext   *int     `json:"drop_next,omitempty"`   // batches that subscribers miss; replay has them
	BurnNext   *int     `json:"burn_next,omitempty"`   // batch numbers that nobody ever gets
	Comments   *bool    `json:"comments,omitempty"`    // keep-alive comment lines in streams
	Unhealthy  *bool    `json:"unhealthy,omitempty"`   // /health answers 503
	NoMetrics  *bool    `json:"no_metrics,omitempty"`  // /metrics has no engine series
	NoRender   *bool    `json:"no_render,omitempty"`   // tokenize and render answer 404
}

// faults is the present misbehaviour.
type faults struct {
	mu        sync.Mutex // guards below
	rnd       *rand.Rand
	failNext  int
	status    int
	cutNext   int
	resetNext int
	latency   time.Duration
	dropRate  float64
	dropNext  int
	burnNext  int
	comments  bool
	unhealthy bool
	noMetrics bool
	noRender  bool
}

func newFaults(seed uint64) *faults {
	return &faults{rnd: rand.New(rand.NewPCG(seed, 0xfa017)), status: 503}
}

// set applies a change.
func (f *faults) set(c Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	assign(&f.failNext, c.FailNext)
	assign(&f.status, c.Status)
	assign(&f.cutNext, c.CutNext)
	assign(&f.resetNext, c.ResetNext)
	assign(&f.dropRate, c.DropEvents)
	assign(&f.dropNext, c.DropNext)
	assign(&f.burnNext, c.BurnNext)
	assign(&f.comments, c.Comments)
	assign(&f.unhealthy, c.Unhealthy)
	assign(&f.noMetrics, c.NoMetrics)
	assign(&f.noRender, c.NoRender)
	if c.LatencyMS != nil {
		f.latency = time.Duration(*c.LatencyMS) * time.Millisecond
	}
}

func assign[T any](v, to *T) {
	if to != nil {
		*v = *to
	}
}

// verdict is what happens to one generation request.
type verdict struct {
	status  int // 0: served
	reset   bool
	cut     bool
	comment bool // a comment line before every chunk
	latency time.Duration
}

// next judges a request and uses up counts.
func (f *faults) next() verdict {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := verdict{latency: f.latency, comment: f.comments}
	switch {
	case use(&f.resetNext):
		v.reset = true
	case use(&f.failNext):
		v.status = f.status
	case use(&f.cutNext):
		v.cut = true
	}
	return v
}

// fate judges a batch of events.
func (f *faults) fate() fate {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case use(&f.burnNext):
		return burn
	case use(&f.dropNext):
		return drop
	case f.dropRate > 0 && f.rnd.Float64() < f.dropRate:
		return drop
	}
	return deliver
}

// flags reads the standing faults.
func (f *faults) flags() (unhealthy, noMetrics, noRender bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unhealthy, f.noMetrics, f.noRender
}

func use(n *int) bool {
	if *n <= 0 {
		return false
	}
	*n--
	return true
}
