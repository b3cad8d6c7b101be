package load

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/banyan-llm/banyan/simulation/client"
	"github.com/banyan-llm/banyan/simulation/workload"
)

// Config is one run.
type Config struct {
	Client   *client.Client
	Writer   *client.Writer
	Workload *workload.Workload

	Rate        float64       // requests a second; 0: as the workload says
	Concurrency int           // closed loop: this many in flight, no think times; 0: open loop
	Duration    time.Duration // nothing is sent after it; 0: until the workload ends
	InFlight    int           // most open requests of an open loop; 0: DefaultInFlight
	Session     string        // prefix of X-Banyan-Session; "" sends none
	Policy      string        // X-Banyan-Policy; "" sends none
	Seed        uint64        // of arrivals that Rate has to invent
	// Steady meets sessions at a turn of their own instead of all at the first
	// one, as if they had gone on for long; open loop only.
	Steady bool

	// Progress is called after every answer, from one goroutine; nil: never.
	Progress func(Progress)
}

// Progress is where a run stands.
type Progress struct {
	Sent, Over, Failed, InFlight, All int
	TTFT                              time.Duration // of the last answer
}

// Limits.
const (
	DefaultInFlight = 2048
	maxInFlight     = 1 << 16
)

// Validate reports every fault of the figures and the workload.
func (c *Config) Validate() error {
	err := c.CheckFigures()
	if c.Workload == nil || len(c.Workload.Requests) == 0 {
		err = errors.Join(errors.New("workload: no requests"), err)
	}
	return err
}

// CheckFigures reports every fault of the figures alone.
func (c *Config) CheckFigures() error {
	var errs []error
	bad := func(key string, v any) { errs = append(errs, fmt.Errorf("%s: %v is out of range", key, v)) }
	if !(c.Rate >= 0) || math.IsInf(c.Rate, 0) {
		bad("rate", c.Rate)
	}
	if c.Concurrency < 0 || c.Concurrency > maxInFlight {
		bad("concurrency", c.Concurrency)
	}
	if c.InFlight < 0 || c.InFlight > maxInFlight {
		bad("max-in-flight", c.InFlight)
	}
	if c.Duration < 0 {
		bad("duration", c.Duration)
	}
	if c.Rate > 0 && c.Concurrency > 0 {
		errs = append(errs, errors.New("rate and concurrency exclude each other"))
	}
	return errors.Join(errs...)
}

// driver is one run in progress; one goroutine owns it.
type driver struct {
	cfg     Config
	due     dueHeap
	after   map[int][]int
	ended   chan outcome
	flying  int
	limit   int
	start   time.Time
	tally   tally
	stopped bool
}

// outcome is a request that has ended.
type outcome struct {
	index int
	late  time.Duration // sent this long after it was due
	a     client.Answer
}

// Run sends the workload and waits for every answer. Ending ctx cancels what
// is open; the report then covers what was done.
func Run(ctx context.Context, cfg Config) (Report, error) {
	if err := cfg.Validate(); err != nil {
		return Report{}, fmt.Errorf("load: %w", err)
	}
	d := newDriver(cfg)
	d.drive(ctx)
	return d.tally.report(&d.cfg, time.Since(d.start)), nil
}

// newDriver puts every first request at its time.
func newDriver(cfg Config) *driver {
	if cfg.Steady && cfg.Concurrency == 0 {
		cfg.Workload = cfg.Workload.Steady(cfg.stretch(), tokenSeconds)
	}
	d := &driver{
		cfg: cfg, after: make(map[int][]int), ended: make(chan outcome),
		limit: cmp.Or(cfg.Concurrency, cfg.InFlight, DefaultInFlight), start: time.Now(),
	}
	d.schedule()
	return d
}

// tokenSeconds is what a generated token is taken to need where nothing is
// known of the endpoint.
const tokenSeconds = .01

// stretch is the factor on the workload's arrivals that gives the asked rate;
// not finite if it has no rate of its own.
func (c *Config) stretch() float64 {
	if c.Rate == 0 {
		return 1
	}
	return c.Workload.Rate() / c.Rate
}

// schedule puts every first turn at its time, the first of all at once.
func (d *driver) schedule() {
	w := d.cfg.Workload
	rnd := rand.New(rand.NewPCG(d.cfg.Seed, 0x6c6f6164))
	factor, invented := d.cfg.stretch(), 0.0
	invent := math.IsInf(factor, 0) || math.IsNaN(factor)
	begin := math.Inf(1)
	for i := range w.Requests {
		if w.Requests[i].After < 0 {
			begin = min(begin, w.Requests[i].At)
		}
	}
	for i := range w.Requests {
		r := &w.Requests[i]
		if r.After >= 0 {
			d.after[r.After] = append(d.after[r.After], i)
			continue
		}
		at := (r.At - begin) * factor
		switch {
		case d.cfg.Concurrency > 0:
			at = 0
		case invent:
			at = invented
			invented += rnd.ExpFloat64() / d.cfg.Rate
		}
		heap.Push(&d.due, dueAt{at, i})
	}
}

// drive is the loop: send what is due, take what has ended. B1, B4
func (d *driver) drive(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if ctx.Err() != nil {
			d.stopped = true
		}
		next := d.send(ctx)
		if d.flying == 0 && next < 0 {
			d.tally.Unsent += d.abandoned()
			return
		}
		var alarm <-chan time.Time
		if next >= 0 {
			timer.Reset(next)
			alarm = timer.C
		}
		done := ctx.Done()
		if d.stopped {
			done = nil
		}
		select {
		case <-alarm:
		case <-done:
		case o := <-d.ended:
			d.take(o)
		}
	}
}

// send sends everything due now. It returns the time to the next one, negative
// if there is none or it has to wait for an answer.
func (d *driver) send(ctx context.Context) time.Duration {
	for len(d.due) > 0 && !d.stopped {
		now := time.Since(d.start)
		if d.cfg.Duration > 0 && now >= d.cfg.Duration {
			break
		}
		first := d.due[0]
		if wait := seconds(first.at) - now; wait > 0 {
			if d.cfg.Duration > 0 {
				wait = min(wait, d.cfg.Duration-now)
			}
			return wait
		}
		if d.flying >= d.limit && d.cfg.Concurrency > 0 {
			return -1
		}
		heap.Pop(&d.due)
		if d.flying >= d.limit {
			d.tally.Overrun++
			d.release(first.index)
			continue
		}
		d.launch(ctx, first.index, now-seconds(first.at))
	}
	return -1
}

// launch sends one request from a goroutine of its own.
func (d *driver) launch(ctx context.Context, i int, late time.Duration) {
	if d.cfg.Concurrency > 0 {
		late = 0
	}
	d.flying++
	d.tally.Sent++
	d.tally.MaxInFlight = max(d.tally.MaxInFlight, d.flying)
	r := &d.cfg.Workload.Requests[i]
	header := http.Header{}
	if d.cfg.Session != "" && r.Session >= 0 {
		header.Set("X-Banyan-Session", fmt.Sprintf("%s-%d", d.cfg.Session, r.Family()))
	}
	if d.cfg.Policy != "" {
		header.Set("X-Banyan-Policy", d.cfg.Policy)
	}
	go func() { // drive waits for it: flying counts it until ended has brought it back
		o := outcome{index: i, late: late}
		path, body, err := d.cfg.Writer.Body(r)
		if err != nil {
			o.a = client.Answer{Cause: client.CauseBad, Err: err}
		} else {
			o.a = d.cfg.Client.Once(ctx, path, body, header)
		}
		d.ended <- o
	}()
}

// take counts an answer and lets the turn after it come.
func (d *driver) take(o outcome) {
	d.flying--
	d.tally.add(&o)
	r := &d.cfg.Workload.Requests[o.index]
	if o.a.Err == nil && len(d.after[o.index]) > 0 {
		d.cfg.Writer.Remember(r, o.a.Text)
	}
	d.release(o.index)
	if d.cfg.Progress != nil {
		d.cfg.Progress(Progress{
			Sent: d.tally.Sent, Over: d.tally.Completed + d.tally.Failed, Failed: d.tally.Failed,
			InFlight: d.flying, All: len(d.cfg.Workload.Requests), TTFT: o.a.TTFT,
		})
	}
}

// release lets the requests that waited for this one come. B3
func (d *driver) release(i int) {
	now := time.Since(d.start).Seconds()
	for _, next := range d.after[i] {
		at := now
		if d.cfg.Concurrency == 0 {
			at += d.cfg.Workload.Requests[next].Think
		}
		heap.Push(&d.due, dueAt{at, next})
	}
}

// abandoned counts the requests that were never sent.
func (d *driver) abandoned() int {
	return len(d.cfg.Workload.Requests) - d.tally.Sent - d.tally.Overrun
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// dueAt is a request and when to send it, in seconds from the start.
type dueAt struct {
	at    float64
	index int
}

type dueHeap []dueAt

func (h dueHeap) Len() int      { return len(h) }
func (h dueHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h dueHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].index < h[j].index
}
func (h *dueHeap) Push(x any) { *h = append(*h, x.(dueAt)) }
func (h *dueHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
