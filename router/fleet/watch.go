package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/banyan-llm/banyan/crdt"
)

// Bounds of what is read from a replica.
const (
	maxModelsBytes  = 1 << 20
	maxMetricsBytes = 8 << 20
	maxLoadsBytes   = 1 << 20
	maxModels       = 4096
	maxModelName    = 512 // bytes
)

// Waits between attempts that fail.
const (
	retryMin = 250 * time.Millisecond
	retryMax = 15 * time.Second
)

// errModels says that a /v1/models was no such thing.
const errModels = plainError("/v1/models is no list of models")

// errTooLarge says that a page is over its bound.
const errTooLarge = plainError("the page is too large")

// chore is something done to a replica now and then, less often while it fails.
type chore struct {
	next time.Time
	wait time.Duration
}

func (c *chore) due(now time.Time) bool { return !now.Before(c.next) }

// done notes when it ended and whether it went well.
func (c *chore) done(now time.Time, every time.Duration, ok bool) {
	if ok {
		c.next, c.wait = now.Add(every), 0
		return
	}
	c.wait = min(max(2*c.wait, retryMin), retryMax)
	c.next = now.Add(c.wait)
}

// watcher is what the goroutine of one server remembers.
type watcher struct {
	fleet *Fleet
	ranks []*rankWatch
	by    map[*Replica]*rankWatch

	models, load chore
}

// rankWatch is what it remembers of one rank.
type rankWatch struct {
	fleet   *Fleet
	replica *Replica

	inquiry, again chore
	known          bool   // the engine answered every question
	asked          int64  // the rise it was asked after
	noLoads        bool   // SGLang without /v1/loads
	unfit          string // what was told of it
}

// watch follows one server until ctx ends.
func (f *Fleet) watch(ctx context.Context, g *group) {
	w := &watcher{fleet: f}
	for {
		w.list(g.list())
		w.step(ctx, time.Now())
		wait := 50*time.Millisecond + time.Duration(rand.Int64N(int64(100*time.Millisecond)))
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// list takes the ranks that are listed now. New ones are looked at at once, with
// the others, so that one page stays enough for all.
func (w *watcher) list(ranks []*Replica) {
	old := w.by
	w.ranks, w.by = w.ranks[:0], make(map[*Replica]*rankWatch, len(ranks))
	for _, r := range ranks {
		k := old[r]
		if k == nil {
			k = &rankWatch{fleet: w.fleet, replica: r}
			w.models, w.load = chore{}, chore{}
		}
		w.ranks, w.by[r] = append(w.ranks, k), k
	}
}

// step does what is due.
func (w *watcher) step(ctx context.Context, now time.Time) {
	if len(w.ranks) == 0 {
		return
	}
	f := w.fleet
	w.probe(ctx, now)
	read := f.pagesOf(w.ranks[0].replica)
	if w.renewed() {
		w.models = chore{}
	}
	models, load := w.models.due(now), w.load.due(now)
	listed, loaded := true, true
	for _, k := range w.ranks {
		if !k.replica.Up() {
			continue
		}
		if models {
			listed = k.readModels(ctx, read) && listed
			k.tellUnfit()
		}
		if k.replica.atPeer() {
			continue // it is no engine
		}
		k.inquire(ctx, read, now)
		r := k.replica
		if r.Engine() != "" && r.Spec.Kind != KindRender && load && (f.cfg.Owned == nil || f.cfg.Owned(r.Stream)) {
			loaded = k.readLoad(ctx, read) && loaded
		}
	}
	if models {
		w.models.done(now, f.cfg.Models, listed)
	}
	if load {
		w.load.done(now, f.cfg.Scrape, loaded)
	}
}

// renewed reports whether a rank's engine is another process than before, and has
// it asked anew.
func (w *watcher) renewed() (any bool) {
	for _, k := range w.ranks {
		if k.replica.Up() && k.replica.renewed.Swap(false) {
			k.known, k.inquiry, any = false, chore{}, true
		}
	}
	return any
}

// inquire asks what is not known of the engine.
func (k *rankWatch) inquire(ctx context.Context, read *urlPages, now time.Time) {
	f, r := k.fleet, k.replica
	if rose := r.rose.Load(); rose != k.asked { // it may be another engine now
		k.known, k.asked, k.noLoads = false, rose, false
	}
	if !k.known && k.inquiry.due(now) {
		k.known = f.inquire(ctx, r, read)
		k.inquiry.done(now, 0, k.known)
		k.again.done(now, f.cfg.Again, true)
	} else if k.known && k.again.due(now) {
		k.again.done(now, f.cfg.Again, f.askAgain(ctx, r, read))
	}
}

// readModels refreshes the models.
func (w *rankWatch) readModels(ctx context.Context, read *urlPages) bool {
	list, err := readModels(ctx, read)
	if ctx.Err() == nil {
		if w.replica.noteList(err) {
			w.fleet.gen.Add(1)
		}
	}
	if err != nil {
		if ctx.Err() == nil {
			w.fleet.cfg.Logger.Debug("models not read", "replica", w.replica.Name(), "err", err)
		}
		return false
	}
	old := w.replica.models.Swap(&list)
	if old == nil || !slices.Equal(*old, list) {
		w.fleet.gen.Add(1)
	}
	if old == nil {
		w.fleet.changed()
	}
	return true
}

// tellUnfit logs once that a replica which answers cannot do its work, and once
// that it can.
func (w *rankWatch) tellUnfit() {
	why, cure := w.replica.Unfit()
	switch {
	case why == w.unfit:
		return
	case why != "":
		w.fleet.cfg.Logger.Warn("replica unusable: it gets no requests", "replica", w.replica.Name(), "url", w.replica.Spec.URL, "reason", why, "cure", cure)
	default:
		w.fleet.cfg.Logger.Info("replica usable again", "replica", w.replica.Name())
	}
	w.unfit = why
}

// readLoad scrapes an owned replica.
func (w *rankWatch) readLoad(ctx context.Context, read *urlPages) bool {
	s, err := readLoad(ctx, read, w.replica, w.noLoads)
	var status *statusError
	if errors.As(err, &status) && status.code == http.StatusNotFound && w.replica.Engine() == sglang && !w.noLoads {
		w.noLoads = true
		s, err = readLoad(ctx, read, w.replica, true)
	}
	if ctx.Err() != nil {
		return false
	}
	w.replica.noteLoad(err)
	if err == nil && w.fleet.cfg.Scraped != nil {
		w.fleet.cfg.Scraped(w.replica.Stream, s)
	}
	return err == nil
}

// noteLoad remembers how the last scrape went.
func (r *Replica) noteLoad(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loadErr = ""
	if err != nil {
		r.loadErr = Cause(err)
	}
}

// probe asks /health once for all ranks that are due.
func (w *watcher) probe(ctx context.Context, now time.Time) {
	f := w.fleet
	var due []*Replica
	for _, k := range w.ranks {
		if k.replica.probeDue(now, f.cfg.Probe) {
			due = append(due, k.replica)
		}
	}
	if len(due) == 0 {
		return
	}
	err := f.askHealth(ctx, due[0])
	if ctx.Err() != nil {
		return
	}
	if err == nil { // it may serve other models now: they are read before it gets requests
		read := f.pagesOf(due[0])
		for _, r := range due {
			if !r.Up() {
				w.by[r].readModels(ctx, read)
			}
		}
	}
	now = time.Now()
	for _, r := range due {
		f.probed(r, err, now)
	}
}

// askHealth asks /health once.
func (f *Fleet) askHealth(ctx context.Context, r *Replica) error {
	res, err := f.get(ctx, r, "/health")
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10))
	res.Body.Close()
	if res.StatusCode >= 500 {
		return plainError(fmt.Sprintf("/health answered %d", res.StatusCode))
	}
	return nil
}

// probed takes what a probe found.
func (f *Fleet) probed(r *Replica, err error, now time.Time) {
	r.mu.Lock()
	r.probed = now
	r.mu.Unlock()
	if err == nil {
		if r.judge(now, func(b *breaker) bool { return b.probeOK(now) }) {
			f.cfg.Logger.Info("replica up", "replica", r.Name())
			f.changed()
		}
		return
	}
	if r.judge(now, func(b *breaker) bool { return b.probeFail(now, Refused(err), timedOut(err), Cause(err)) }) {
		f.cfg.Logger.Warn("replica down", "replica", r.Name(), "reason", Cause(err))
		f.changed()
	}
}

func (f *Fleet) get(ctx context.Context, r *Replica, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.Spec.URL+path, nil)
	if err != nil {
		return nil, err
	}
	if r.Spec.Credentials != "" {
		req.Header.Set("Authorization", "Bearer "+r.Spec.Credentials)
	}
	return f.cfg.Client.Do(req)
}

// read fetches at most limit bytes of a page; a longer page is an error.
func (f *Fleet) read(ctx context.Context, r *Replica, path string, limit int64) ([]byte, error) {
	res, err := f.get(ctx, r, path)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, &statusError{path, res.StatusCode}
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(body)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes: %w", path, limit, errTooLarge)
	}
	return body, nil
}

func readModels(ctx context.Context, read *urlPages) ([]Model, error) {
	body, err := read.read(ctx, "/v1/models", maxModelsBytes)
	if err != nil {
		return nil, err
	}
	return parseModels(body)
}

func parseModels(body []byte) ([]Model, error) {
	var page struct {
		Data []struct {
			ID     string  `json:"id"`
			Owner  string  `json:"owned_by"`
			Root   string  `json:"root"`
			Parent *string `json:"parent"`
			MaxLen int     `json:"max_model_len"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &page); err != nil {
		return nil, errModels // encoding/json quotes what it does not expect
	}
	if len(page.Data) == 0 || len(page.Data) > maxModels {
		return nil, fmt.Errorf("%w: %d models", errModels, len(page.Data))
	}
	models := make([]Model, 0, len(page.Data))
	for _, d := range page.Data {
		if d.ID == "" || len(d.ID) > maxModelName {
			continue
		}
		m := Model{ID: d.ID, Owner: d.Owner, Root: d.Root, MaxLen: d.MaxLen}
		if d.Parent != nil {
			m.Parent = *d.Parent
		}
		models = append(models, m)
	}
	return models, nil
}

// readLoad reads a replica's load from its engine's own source: SGLang's
// /v1/loads, which needs no option, or the metrics page.
func readLoad(ctx context.Context, read *urlPages, r *Replica, noLoads bool) (crdt.Scrape, error) {
	engine := r.Engine()
	if engine == sglang && !noLoads {
		body, err := read.read(ctx, loadsPath, maxLoadsBytes)
		if err != nil {
			return crdt.Scrape{}, err
		}
		s, err := parseLoads(body, r.Spec.Rank)
		s.Version = uint64(time.Now().UnixMilli())
		return s, err
	}
	body, err := read.read(ctx, metricsOf(engine), maxMetricsBytes)
	if err != nil {
		return crdt.Scrape{}, err
	}
	p := parseMetrics(body, r.Spec.Rank)
	if !p.found {
		return crdt.Scrape{}, errNoSeries
	}
	p.scrape.Version = uint64(time.Now().UnixMilli())
	return p.scrape, nil
}
