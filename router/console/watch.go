package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Times and bounds of the live feed.
const (
	maxWatchers  = 32
	beat         = 100 * time.Millisecond // one decision at most
	statusEvery  = 10                     // beats
	commentEvery = 150                    // beats
	writeLimit   = 10 * time.Second
	retryMs      = 2000
	freshFor     = 900 * time.Millisecond // how long one status serves all watchers
	shownRows    = 40                     // decisions and events sent to begin with
)

// Console serves the page and its feed. All methods are safe for concurrent
// use; it starts no goroutine of its own.
type Console struct {
	status    func() *Status
	sources   Sources
	decisions decisions
	events    events
	watchers  atomic.Int64
	closed    chan struct{}
	closeOnce sync.Once

	mu    sync.Mutex // guards below; held while status is asked, so that one asks for all
	fresh *Status
	at    time.Time
}

// New makes a console of what status tells. It is called at most once in 900
// ms, from requests; what it returns must not be changed later.
func New(status func() *Status) *Console {
	return &Console{status: status, closed: make(chan struct{})}
}

// Close ends all feeds; later ones end at once.
func (c *Console) Close() { c.closeOnce.Do(func() { close(c.closed) }) }

// Decided records a decision. It copies what it is given: O(candidates).
func (c *Console) Decided(choice *Choice) { c.decisions.add(choice) }

// Observe compares s with what it saw last and records the changes as events.
// Only peers, replicas and mesh are read.
func (c *Console) Observe(s *Status) { c.events.observe(s) }

// look returns a status at most freshFor old.
func (c *Console) look() *Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); c.fresh == nil || now.Sub(c.at) >= freshFor {
		c.fresh, c.at = c.status(), now
	}
	return c.fresh
}

// serveWatch is GET /v1/watch: server-sent events status (each second),
// decision (the newest, at most ten a second) and event. With ?draw they hold
// what the page shows instead.
func (c *Console) serveWatch(w http.ResponseWriter, r *http.Request) {
	if c.watchers.Add(1) > maxWatchers {
		c.watchers.Add(-1)
		w.Header().Set("Retry-After", "10")
		http.Error(w, fmt.Sprintf("%d feeds are open, the most there may be", maxWatchers), http.StatusServiceUnavailable)
		return
	}
	defer c.watchers.Add(-1)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	f := &feed{console: c, w: w, control: http.NewResponseController(w), draw: r.URL.Query().Has("draw")}
	f.run(r.Context())
}

// feed is one watcher's stream.
type feed struct {
	console *Console
	w       http.ResponseWriter
	control *http.ResponseController
	draw    bool

	buf      bytes.Buffer
	decision uint64 // numbers of what was sent last
	event    uint64
}

// run sends until the client, the peer or a write ends it.
func (f *feed) run(ctx context.Context) {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	fmt.Fprintf(&f.buf, "retry: %d\n\n", retryMs)
	f.begin()
	for n := 1; f.flush() == nil; n++ {
		select {
		case <-ctx.Done():
			return
		case <-f.console.closed:
			return
		case <-tick.C:
		}
		f.sendNewest()
		if n%statusEvery == 0 {
			f.sendStatus()
			f.sendEvents(MaxEvents)
		}
		if n%commentEvery == 0 {
			f.buf.WriteString(": still here\n\n")
		}
	}
}

// begin sends what the page needs to be full, oldest first.
func (f *feed) begin() {
	f.sendStatus()
	f.sendEvents(shownRows)
	list := f.console.decisions.last(shownRows, 0)
	for i := len(list) - 1; i >= 0; i-- {
		f.sendDecision(&list[i])
	}
}

func (f *feed) sendStatus() {
	s := f.console.look()
	if f.draw {
		f.send("status", drawStatus(s))
		return
	}
	f.send("status", s)
}

func (f *feed) sendEvents(n int) {
	list := f.console.events.last(n, f.event)
	for i := len(list) - 1; i >= 0; i-- {
		f.event = list[i].Seq
		if f.draw {
			f.send("event", drawEvent(&list[i]))
			continue
		}
		f.send("event", &list[i])
	}
}

// sendNewest sends the newest decision if it is new: a sample when more than
// ten a second are made.
func (f *feed) sendNewest() {
	for _, d := range f.console.decisions.last(1, f.decision) {
		f.sendDecision(&d)
	}
}

func (f *feed) sendDecision(d *Decision) {
	f.decision = d.Seq
	if f.draw {
		f.send("decision", drawDecision(d))
		return
	}
	f.send("decision", d)
}

// send appends one event. encoding/json writes no newline inside a document.
func (f *feed) send(name string, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		data, _ = json.Marshal(map[string]string{"error": err.Error()})
	}
	fmt.Fprintf(&f.buf, "event: %s\ndata: %s\n\n", name, data)
}

// flush writes what has gathered, within writeLimit.
func (f *feed) flush() error {
	if f.buf.Len() == 0 {
		return nil
	}
	err := f.control.SetWriteDeadline(time.Now().Add(writeLimit))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := f.w.Write(f.buf.Bytes()); err != nil {
		return err
	}
	f.buf.Reset()
	return f.control.Flush()
}
