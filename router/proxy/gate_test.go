package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/banyan-llm/banyan/router/admission"
)

// askFor is a turn of a request that waits so long.
func askFor(tenant string, most time.Duration) *turn {
	return &turn{pool: poolName{model: "m"}, ask: admission.Request{Tenant: tenant, Cost: 1, Deadline: time.Now().Add(most)}}
}

// howOf is the outcome of a refused wait.
func howOf(err error) Outcome {
	var s *shed
	if errors.As(err, &s) {
		return s.how
	}
	return ""
}

func enter(t *testing.T, g *gate) {
	t.Helper()
	if !g.pass() {
		if err := g.enter(context.Background(), askFor("", time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
}

func gateHas(t *testing.T, g *gate, inFlight, waiting int64) {
	t.Helper()
	if a, b := g.inFlight.Load(), g.waiting.Load(); a != inFlight || b != waiting {
		t.Fatalf("%d in flight and %d waiting, want %d and %d", a, b, inFlight, waiting)
	}
}

func TestI6GateBoundsFlightAndQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(2, admission.Config{Limit: 1}, nil)
		enter(t, g)
		enter(t, g)
		if g.pass() {
			t.Fatal("a third place")
		}
		third := make(chan error)
		go func() { third <- g.enter(context.Background(), askFor("", time.Minute)) }()
		synctest.Wait()
		if err := g.enter(context.Background(), askFor("", time.Minute)); howOf(err) != WaitFull {
			t.Fatal(err)
		}
		gateHas(t, g, 2, 1)
		g.leave()
		if err := <-third; err != nil {
			t.Fatal(err)
		}
		gateHas(t, g, 2, 0)
		g.leave()
		g.leave()
		gateHas(t, g, 0, 0)
	})
}

func TestGateServesInOrderAndForgetsWhoLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(1, admission.Config{Limit: 10}, nil)
		enter(t, g)
		begin := time.Now()
		leaving, leave := context.WithCancel(context.Background())
		results := make(chan error, 2)
		go func() { results <- g.enter(leaving, askFor("", time.Minute)) }()
		synctest.Wait()
		go func() { results <- g.enter(context.Background(), askFor("", time.Second)) }()
		synctest.Wait()
		order := make(chan int, 3)
		for i := range 3 {
			go func() {
				if err := g.enter(context.Background(), askFor("", time.Hour)); err != nil {
					t.Error(err)
					return
				}
				order <- i
				g.leave()
			}()
			synctest.Wait()
		}
		leave()
		if err := <-results; howOf(err) != WaitLeft {
			t.Fatal(err)
		}
		if err := <-results; howOf(err) != WaitTimeout || time.Since(begin) != time.Second {
			t.Fatal(err, time.Since(begin))
		}
		g.leave()
		for want := range 3 {
			if got := <-order; got != want {
				t.Fatalf("%d came before %d", got, want)
			}
		}
		synctest.Wait()
		gateHas(t, g, 0, 0)
	})
}

// TestGateLosesNoPlace: a place handed over in the instant in which the waiter
// gives up must not be lost.
func TestGateLosesNoPlace(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			g := newGate(1, admission.Config{Limit: 1}, nil)
			enter(t, g)
			go func() {
				if g.enter(context.Background(), askFor("", time.Second)) == nil {
					g.leave()
				}
			}()
			synctest.Wait()
			time.Sleep(time.Second)
			g.leave()
			synctest.Wait()
			gateHas(t, g, 0, 0)
		})
	}
}

// TestGateWaitsForRoomInItsPool: places alone do not help, room from elsewhere
// is seen, and a pool without room holds up no other.
func TestGateWaitsForRoomInItsPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var room atomic.Int64
		g := newGate(10, admission.Config{Limit: 10}, func(pool poolName) int {
			if pool.model == "other" {
				return 100
			}
			return int(room.Load())
		})
		var wg sync.WaitGroup
		turns := make(chan *turn, 4)
		for range 4 {
			wg.Go(func() {
				own := askFor("", time.Hour)
				if !g.pass() { // the first comes in and finds the pool full
					if err := g.enter(context.Background(), own); err != nil {
						t.Error(err)
						return
					}
				} else if err := g.again(context.Background(), own); err != nil {
					t.Error(err)
					return
				}
				turns <- own
			})
			synctest.Wait()
		}
		gateHas(t, g, 0, 4)
		other := askFor("", time.Hour)
		other.pool = poolName{model: "other"}
		if err := g.enter(context.Background(), other); err != nil || other.how != "" {
			t.Fatal("held up by another pool", err)
		}
		g.leave()
		room.Store(2)
		time.Sleep(2 * tickEvery)
		synctest.Wait()
		gateHas(t, g, 2, 2)
		room.Store(1) // one of the two is counted in, the other finds no room
		first, second := <-turns, <-turns
		g.settle(first)
		g.settle(second)
		done := make(chan error)
		go func() { done <- g.again(context.Background(), second) }()
		synctest.Wait() // it has gone back to the front, and takes the one there is
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		room.Store(3)
		time.Sleep(2 * tickEvery)
		wg.Wait()
		gateHas(t, g, 4, 0)
	})
}

// TestGateCostsNothingWhileNobodyWaits: no lock, no allocation.
func TestGateCostsNothingWhileNobodyWaits(t *testing.T) {
	g := newGate(4, admission.Config{Limit: 1}, nil)
	g.mu.Lock() // whoever needs it would stand still
	g.turns.Lock()
	if n := testing.AllocsPerRun(100, func() {
		if g.pass() {
			g.leave()
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkGate(b *testing.B) {
	g := newGate(1<<20, admission.Config{Limit: 1}, nil)
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if g.pass() {
				g.leave()
			}
		}
	})
}

func TestQueueFullIs429(t *testing.T) {
	g := newRig(t, func(c *Config) { c.Limits.Concurrency, c.Limits.Queue = 1, -1 }, ok)
	enter(t, g.handler.gate)
	if a := g.chat(plainChat); a.status != 429 || a.header.Get("Retry-After") == "" || errorCode(t, a) != "overloaded" {
		t.Fatalf("%+v", a)
	}
	g.handler.gate.leave()
	if a := g.chat(plainChat); a.status != 200 {
		t.Fatalf("%+v", a)
	}
}

// crowd is a rig whose only replica takes so many requests at a time and
// answers one when told.
type crowd struct {
	*rig
	room  atomic.Int64
	order chan string // users, as they reach the replica
	next  chan struct{}
	waits chan Outcome
}

func newCrowd(t *testing.T, change func(*Config)) *crowd {
	c := &crowd{order: make(chan string, 100), next: make(chan struct{}), waits: make(chan Outcome, 100)}
	c.rig = newRig(t, func(cfg *Config) {
		pick := cfg.Pick
		cfg.Pick = func(ctx context.Context, call *Call) (*Target, error) {
			if c.room.Add(-1) < 0 {
				c.room.Add(1)
				return nil, ErrSaturated
			}
			return pick(ctx, call)
		}
		done := cfg.Done
		cfg.Done = func(target *Target, r Result) { c.room.Add(1); done(target, r) }
		cfg.Room = func(string) int { return int(c.room.Load()) }
		cfg.Waited = func(how Outcome, _ time.Duration) { c.waits <- how }
		cfg.Admission.Classes = 2
		if change != nil {
			change(cfg)
		}
	}, func(w http.ResponseWriter, r *http.Request) {
		body := readAll(r)
		_, user, _ := strings.Cut(body, `"user":"`)
		user, _, _ = strings.Cut(user, `"`)
		c.order <- user
		select {
		case <-c.next:
		case <-r.Context().Done():
		}
		ok(w, r)
	})
	c.room.Store(1)
	return c
}

// send asks in the background and returns when the request stands in line, or
// has reached the replica if it should.
func (c *crowd) send(wg *sync.WaitGroup, user string, header http.Header, waiting int64) {
	c.t.Helper()
	wg.Go(func() {
		messages := `{"role":"user","content":"a"}`
		if strings.HasPrefix(user, "turn") {
			messages += `,{"role":"assistant","content":"b"}`
		}
		body := fmt.Sprintf(`{"model":"m","messages":[%s],"user":%q,"max_tokens":10}`, messages, user)
		if a := c.do(http.MethodPost, "/v1/chat/completions", body, header); a.status != 200 {
			c.t.Errorf("%s: %d %s", user, a.status, a.body)
		}
	})
	for end := time.Now().Add(20 * time.Second); c.handler.gate.waiting.Load() != waiting; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("%d wait, not %d", c.handler.gate.waiting.Load(), waiting)
		}
	}
}

func (c *crowd) reached() string {
	c.t.Helper()
	select {
	case user := <-c.order:
		return user
	case <-time.After(20 * time.Second):
		c.t.Fatal("nobody reached the replica")
		return ""
	}
}

// TestWaitersGoByClassAndTenant: the whole way from headers to the replica.
// A turn of a conversation goes before the tenant's new ones, and before nobody
// else's.
func TestTurnsGoBeforeNewConversations(t *testing.T) {
	c := newCrowd(t, func(cfg *Config) { cfg.TenantHeader = "X-Tenant" })
	from := func(tenant string) http.Header { return http.Header{"X-Tenant": {tenant}} }
	var wg sync.WaitGroup
	c.send(&wg, "first", from("a"), 0)
	c.reached()
	for i, user := range []string{"new", "turn 1", "turn 2"} {
		c.send(&wg, user, from("a"), int64(i+1))
	}
	c.send(&wg, "b", from("b"), 4)
	for _, want := range []string{"turn 1", "b", "turn 2", "new"} {
		c.next <- struct{}{}
		if got := c.reached(); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	}
	c.next <- struct{}{}
	wg.Wait()
}

func TestWaitersGoByClassAndTenant(t *testing.T) {
	c := newCrowd(t, func(cfg *Config) {
		cfg.TenantHeader, cfg.Admission.Header, cfg.Admission.Default = "X-Tenant", "X-Priority", 1
	})
	from := func(tenant, class string) http.Header {
		h := http.Header{"X-Tenant": {tenant}}
		if class != "" {
			h["X-Priority"] = []string{class}
		}
		return h
	}
	var wg sync.WaitGroup
	c.send(&wg, "first", from("a", ""), 0)
	c.reached()
	for i := range 3 {
		c.send(&wg, fmt.Sprint("a", i), from("a", "9"), int64(i+1))
	}
	c.send(&wg, "b0", from("b", "no number"), 4)
	c.send(&wg, "urgent", from("a", "-3"), 5)
	if s := c.handler.Stats(); s.Queued != 5 || s.Classes[0] != 1 || s.Classes[1] != 4 || s.Tenants != 2 || s.Oldest <= 0 {
		t.Errorf("%+v", s)
	}
	// a0 came before b0, but after it the tenants take turns.
	for _, want := range []string{"urgent", "a0", "b0", "a1", "a2"} {
		c.next <- struct{}{}
		if got := c.reached(); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	}
	c.next <- struct{}{}
	wg.Wait()
	for range 6 { // the first one found the pool full before anybody waited
		select {
		case how := <-c.waits:
			if how != WaitAdmitted {
				t.Errorf("%s", how)
			}
		default:
		}
	}
}

// TestAClientsKeyBoundsItsClass: nobody jumps the line by a header alone.
func TestAClientsKeyBoundsItsClass(t *testing.T) {
	for _, c := range []struct {
		client, header string
		want           int
	}{
		{"", "", 1},
		{"", "0", 0},
		{"", "7", 2},
		{"", "x", 1},
		{"bulk", "", 2},
		{"bulk", "0", 2},
		{"gold", "", 0},
		{"gold", "1", 1},
		{"other", "0", 0},
	} {
		x := &exchange{Handler: &Handler{cfg: Config{Admission: Admission{
			Classes: 3, Default: 1, Header: "X-Priority", Keys: map[string]int{"bulk": 2, "gold": 0},
		}}}, call: &Call{Client: c.client}, r: &http.Request{Header: http.Header{}}}
		if c.header != "" {
			x.r.Header.Set("X-Priority", c.header)
		}
		if got := x.class(); got != c.want {
			t.Errorf("%+v: class %d", c, got)
		}
	}
}

// TestWhoCannotWaitIsToldSo: deadlines, time-outs and clients that leave.
func TestWhoCannotWaitIsToldSo(t *testing.T) {
	c := newCrowd(t, func(cfg *Config) { cfg.Limits.QueueTimeout = 300 * time.Millisecond })
	var wg sync.WaitGroup
	c.send(&wg, "first", nil, 0)
	c.reached()
	for _, s := range []struct {
		header http.Header
		how    Outcome
	}{{nil, WaitTimeout}, {http.Header{"X-Banyan-Timeout": {"0.05"}}, WaitDeadline}} {
		a := c.do(http.MethodPost, "/v1/chat/completions", plainChat, s.header)
		if how := <-c.waits; a.status != 429 || errorCode(t, a) != "overloaded" || a.header.Get("Retry-After") == "" || how != s.how {
			t.Errorf("%s: %+v", how, a)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, c.front.URL+"/v1/chat/completions", strings.NewReader(plainChat))
	go func() {
		for c.handler.gate.waiting.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	if res, err := http.DefaultClient.Do(req); err == nil {
		res.Body.Close()
	}
	if how := <-c.waits; how != WaitLeft && how != WaitTimeout {
		t.Errorf("%s", how)
	}
	c.next <- struct{}{}
	wg.Wait()
	for end := time.Now().Add(20 * time.Second); c.handler.Stats().InFlight+c.handler.Stats().Queued != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%+v", c.handler.Stats())
		}
	}
}

func TestGateTakesNewNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(1, admission.Config{Limit: 2}, nil)
		enter(t, g)
		let := make(chan error, 2)
		for range 2 {
			go func() { let <- g.enter(t.Context(), askFor("", time.Minute)) }()
		}
		synctest.Wait()
		g.resize(3, 0)
		if a, b := <-let, <-let; a != nil || b != nil {
			t.Fatal(a, b)
		}
		g.resize(1, 0)
		g.leave()
		g.leave()
		if err := g.enter(t.Context(), askFor("", time.Minute)); howOf(err) != WaitFull {
			t.Errorf("%v: one is in, one may be", err)
		}
		g.leave()
		gateHas(t, g, 0, 0)
	})
}

// Names that nobody serves must not wait: each would have a queue of its own,
// with room for limits.queue more requests.
func TestInventedModelsDoNotQueue(t *testing.T) {
	release := make(chan struct{})
	g := newRig(t, func(c *Config) {
		c.Limits.Concurrency, c.Limits.Queue = 1, 1
		c.Serves = func(model string) error {
			if model != "m" {
				return ErrUnknownModel
			}
			return nil
		}
	}, func(w http.ResponseWriter, _ *http.Request) {
		<-release
		_, _ = w.Write([]byte("{}"))
	})
	var held sync.WaitGroup
	held.Go(func() { g.chat(`{"model":"m","messages":[]}`) })
	for g.handler.Stats().InFlight == 0 {
		time.Sleep(time.Millisecond)
	}
	held.Go(func() { g.chat(`{"model":"m","messages":[]}`) })
	for g.handler.Stats().Queued == 0 {
		time.Sleep(time.Millisecond)
	}
	for i := range 20 {
		if a := g.chat(fmt.Sprintf(`{"model":"invented-%d","messages":[]}`, i)); a.status != http.StatusNotFound {
			t.Errorf("an invented model is answered %d, want 404", a.status)
		}
		if s := g.handler.Stats(); s.Queued != 1 {
			t.Errorf("%d requests wait, want the one of the served model", s.Queued)
		}
	}
	close(release)
	held.Wait()
}

// TestEnginesAreToldWhoGoesFirst: an engine whose queue reads priorities is told
// the class, and in a class turns before new conversations; what a client writes
// there itself does not count. Others get what the client wrote.
func TestEnginesAreToldWhoGoesFirst(t *testing.T) {
	type told struct{ body, header string }
	seen := make(chan told, 1)
	engine := func(w http.ResponseWriter, r *http.Request) {
		var b struct{ Priority json.RawMessage }
		_ = json.Unmarshal([]byte(readAll(r)), &b)
		seen <- told{string(b.Priority), r.Header.Get("X-Vllm-Priority")}
		ok(w, r)
	}
	const first, turn = `[{"role":"user","content":"hi"}]`, `[{"role":"user","content":"hi"},{"role":"assistant","content":"yes"},{"role":"user","content":"go on"}]`
	for _, c := range []struct {
		order           int
		path, messages  string
		class, priority string
		want            told
	}{
		{-1, "/v1/chat/completions", first, "1", "", told{"3", ""}},
		{-1, "/v1/chat/completions", turn, "1", "", told{"2", ""}},
		{-1, "/v1/chat/completions", turn, "0", "-99", told{"0", ""}},
		{1, "/v1/chat/completions", first, "2", "99", told{"-5", ""}},
		{0, "/v1/chat/completions", first, "2", "-99", told{"-99", "-99"}},
		{-1, "/v1/embeddings", first, "1", "", told{"", ""}},
	} {
		g := newRig(t, func(cfg *Config) { cfg.Admission = Admission{Classes: 3, Default: 1, Header: "X-Class"} }, engine)
		g.targets[0].Priority = c.order
		body, header := `{"model":"m","input":"x","messages":`+c.messages, http.Header{"X-Class": {c.class}}
		if c.priority != "" {
			body += `,"priority":` + c.priority
			header.Set("X-Vllm-Priority", c.priority)
		}
		if a := g.do(http.MethodPost, c.path, body+"}", header); a.status != 200 {
			t.Fatalf("%+v: %d %s", c, a.status, a.body)
		}
		if got := <-seen; got != c.want {
			t.Errorf("%+v: the engine was told %+v", c, got)
		}
	}
}
