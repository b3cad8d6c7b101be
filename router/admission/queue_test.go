package admission

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// model is a queue as a list, and what became of everybody.
type model struct {
	t       *rapid.T
	q       *Queue
	cfg     Config
	now     time.Time
	waiting []*Waiter // in the order they came

	gone map[*Waiter]string // A5
	pops int
}

func (m *model) drop(w *Waiter, how string) {
	if was := m.gone[w]; was != "" {
		m.t.Fatalf("A5: %s after %s", how, was)
	}
	m.gone[w] = how
	for i, x := range m.waiting {
		if x == w {
			m.waiting = append(m.waiting[:i], m.waiting[i+1:]...)
			return
		}
	}
	m.t.Fatalf("A5: %s, and did not wait", how)
}

func (m *model) count(keep func(*Waiter) bool) (n int) {
	for _, w := range m.waiting {
		if keep(w) {
			n++
		}
	}
	return n
}

func (m *model) push(t *rapid.T) {
	r := Request{
		Tenant: rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "tenant"),
		Class:  rapid.IntRange(-1, m.cfg.Classes).Draw(t, "class"), Cost: float64(rapid.IntRange(0, 50).Draw(t, "cost")),
		Turn: rapid.Bool().Draw(t, "turn"),
	}
	if rapid.IntRange(0, 3).Draw(t, "hurry") == 0 {
		r.Deadline = m.now.Add(time.Duration(rapid.IntRange(1, 2000).Draw(t, "within")) * time.Millisecond)
		r.Early = rapid.Bool().Draw(t, "early")
	}
	own := m.count(func(w *Waiter) bool { return w.Tenant == r.Tenant })
	w, displaced, why := m.q.Push(m.now, r)
	switch why {
	case Accepted:
	case Full:
		if len(m.waiting) < m.cfg.Limit && own < m.q.cfg.TenantLimit {
			t.Fatalf("A1: refused with %d waiting", len(m.waiting))
		}
		return
	case Deadline:
		if !r.Early {
			t.Fatal("refused for a deadline it has not")
		}
		return
	}
	if displaced != nil {
		if displaced.Class < w.Class {
			t.Fatal("a better class was displaced")
		}
		m.drop(displaced, "displaced")
	}
	m.waiting = append(m.waiting, w)
}

func (m *model) pop(*rapid.T) {
	w := m.q.Pop(m.now)
	for _, x := range append([]*Waiter(nil), m.waiting...) {
		if x != w && !x.Waiting() {
			if x.Deadline.IsZero() || m.now.Before(x.Deadline) {
				m.t.Fatal("A5: vanished before its deadline")
			}
			m.drop(x, "expired")
		}
	}
	if w == nil {
		if len(m.waiting) > 0 {
			m.t.Fatal("nobody let in")
		}
		return
	}
	m.pops++
	if !w.Deadline.IsZero() && !m.now.Before(w.Deadline) {
		m.t.Fatal("A5: let in after its deadline")
	}
	relief := m.pops%reliefEvery == 0
	if relief && w.Class < m.cfg.Classes-1 && m.count(func(x *Waiter) bool { return x.Class > w.Class && x.Waiting() }) > 0 &&
		m.count(func(x *Waiter) bool { return x.Class < w.Class && x.Waiting() }) == 0 {
		m.t.Fatal("A3: another class should have had its turn")
	}
	oldest := w // of its tenant and class
	for _, x := range m.waiting {
		if x.Class == w.Class && x.Tenant == w.Tenant && x.order < oldest.order {
			oldest = x
		}
	}
	for _, x := range m.waiting {
		switch {
		case x.Class < w.Class && !relief:
			m.t.Fatal("A3: a better class waits")
		case x.Class != w.Class || x.Tenant != w.Tenant:
		case x.order < w.order && (x.Turn == w.Turn || oldest.late(m.now)):
			m.t.Fatal("A4: overtaken by its own tenant")
		case x.Turn && !w.Turn && (!w.late(m.now) || x.order < w.order):
			m.t.Fatal("A4: a new conversation before a turn of one")
		}
	}
	m.drop(w, "let in")
	if m.pops%5 == 0 { // the room was gone
		m.q.Return(w)
		delete(m.gone, w)
		at := 0
		for at < len(m.waiting) && m.waiting[at].order < w.order {
			at++
		}
		m.waiting = append(m.waiting[:at], append([]*Waiter{w}, m.waiting[at:]...)...)
	}
}

func (m *model) check(t *rapid.T) {
	if m.q.Len() != len(m.waiting) {
		t.Fatalf("%d wait, not %d", m.q.Len(), len(m.waiting))
	}
	for i := range m.cfg.Classes {
		if got, want := m.q.Class(i), m.count(func(w *Waiter) bool { return w.Class == i }); got != want {
			t.Fatalf("class %d: %d, not %d", i, got, want)
		}
	}
	oldest := time.Time{}
	if len(m.waiting) > 0 {
		oldest = m.waiting[0].Since
	}
	if !m.q.Oldest().Equal(oldest) {
		t.Fatalf("oldest %v, not %v", m.q.Oldest(), oldest)
	}
}

// TestQueueAgainstAModel holds A1 and A3 to A5 over random histories.
func TestQueueAgainstAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			Classes: rapid.IntRange(1, 3).Draw(t, "classes"), Limit: rapid.IntRange(1, 12).Draw(t, "limit"),
			TenantLimit: rapid.IntRange(0, 6).Draw(t, "of one"),
		}
		m := &model{t: t, q: New(cfg), cfg: cfg, now: begin, gone: map[*Waiter]string{}}
		t.Repeat(map[string]func(*rapid.T){
			"push": m.push, "push again": m.push, "pop": m.pop,
			"leave": func(t *rapid.T) {
				if len(m.waiting) == 0 {
					t.Skip("nobody waits")
				}
				w := rapid.SampledFrom(m.waiting).Draw(t, "who")
				m.q.Remove(w)
				m.q.Remove(w)
				m.drop(w, "left")
			},
			"time": func(t *rapid.T) {
				m.now = m.now.Add(time.Duration(rapid.IntRange(0, 500).Draw(t, "ms")) * time.Millisecond)
			},
			"": m.check,
		})
	})
}

// TestA2SharesAreFair: whatever the costs and however many requests each has,
// tenants that wait all the time are let in for equal amounts.
func TestA2SharesAreFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 6).Draw(t, "tenants")
		q := New(Config{Limit: 10000})
		largest, served, behind := make([]float64, n), make([]float64, n), make([]int, n)
		push := func(i int) {
			cost := float64(rapid.IntRange(1, 1000).Draw(t, "cost"))
			largest[i] = max(largest[i], cost)
			q.Push(begin, Request{Tenant: fmt.Sprint(i), Cost: cost})
			behind[i]++
		}
		for i := range n {
			for range 1 + rapid.IntRange(0, 20).Draw(t, "at first") {
				push(i)
			}
		}
		for range 200 {
			w := q.Pop(begin)
			i := 0
			_, _ = fmt.Sscan(w.Tenant, &i)
			served[i] += w.Cost
			if behind[i]--; behind[i] == 0 || rapid.Bool().Draw(t, "more") {
				push(i) // nobody's queue runs dry
			}
			for a := range n {
				for b := range n {
					if served[a]-served[b] > largest[a]+largest[b] {
						t.Fatalf("A2: %v for costs up to %v", served, largest)
					}
				}
			}
		}
	})
}

// TestATenantPaysNothingForWhoLeft: tags belong to tenants, not to requests.
func TestATenantPaysNothingForWhoLeft(t *testing.T) {
	q := New(Config{Limit: 100})
	var left []*Waiter
	for range 20 {
		w, _, _ := q.Push(begin, Request{Tenant: "a", Cost: 100})
		left = append(left, w)
	}
	for _, w := range left[:19] {
		q.Remove(w)
	}
	q.Push(begin, Request{Tenant: "b", Cost: 1})
	if w := q.Pop(begin); w.Tenant != "a" {
		t.Error("a's remaining request went after b's, which came later")
	}
}

// TestA3NoClassStarves: the worst class moves while the best one never ends.
func TestA3NoClassStarves(t *testing.T) {
	q := New(Config{Classes: 3, Limit: 1000})
	for range 4 {
		q.Push(begin, Request{Tenant: "slow", Class: 2, Cost: 1})
	}
	worst := 0
	for range 4 * reliefEvery {
		for q.Class(0) < 10 {
			q.Push(begin, Request{Tenant: "fast", Class: 0, Cost: 1})
		}
		if q.Pop(begin).Class == 2 {
			worst++
		}
	}
	if worst != 4 {
		t.Errorf("A3: %d of 64 went to the worst class", worst)
	}
}

// TestATenantThatComesBack has no credit: it takes turns from now on.
func TestATenantThatComesBack(t *testing.T) {
	q := New(Config{Limit: 100})
	q.Push(begin, Request{Tenant: "b", Cost: 10})
	for range 40 {
		q.Push(begin, Request{Tenant: "a", Cost: 10})
	}
	for range 21 { // b's tag stays behind
		q.Pop(begin)
	}
	for range 4 {
		q.Push(begin, Request{Tenant: "b", Cost: 10})
	}
	got := ""
	for range 6 {
		got += q.Pop(begin).Tenant
	}
	if got != "ababab" && got != "bababa" {
		t.Error(got)
	}
}

func TestAFullQueueShieldsTheFew(t *testing.T) {
	q := New(Config{Classes: 2, Limit: 4})
	for range 4 {
		q.Push(begin, Request{Tenant: "many", Class: 1, Cost: 1})
	}
	if _, _, why := q.Push(begin, Request{Tenant: "many", Class: 1}); why != Full {
		t.Errorf("the biggest tenant displaced itself: %q", why)
	}
	if _, gone, why := q.Push(begin, Request{Tenant: "few", Class: 1}); why != Accepted || gone == nil || gone.Tenant != "many" || gone.order != 3 {
		t.Errorf("%+v %q", gone, why)
	}
	if _, gone, why := q.Push(begin, Request{Tenant: "many", Class: 0}); why != Accepted || gone == nil || gone.Class != 1 {
		t.Errorf("a better class did not displace: %+v %q", gone, why)
	}
	if q.Len() != 4 {
		t.Errorf("A1: %d wait", q.Len())
	}
}

func TestWaitFollowsThePace(t *testing.T) {
	q, now := New(Config{Classes: 2, Limit: 1000}), begin
	for range 200 {
		q.Push(now, Request{Tenant: "many", Class: 1, Cost: 1})
	}
	if q.Wait("many", 1) != 0 {
		t.Error("a wait before anything is known")
	}
	for range 100 {
		now = now.Add(50 * time.Millisecond)
		q.Pop(now)
	}
	if got := q.Wait("many", 1); got < 4*time.Second || got > 6*time.Second {
		t.Errorf("100 ahead at 50 ms: %v", got)
	}
	if got := q.Wait("few", 1); got > 200*time.Millisecond {
		t.Errorf("a tenant that takes its turn next: %v", got)
	}
	if got := q.Wait("many", 0); got != 0 {
		t.Errorf("nobody waits in the better class: %v", got)
	}
	if _, _, why := q.Push(now, Request{Tenant: "many", Class: 1, Deadline: now.Add(time.Second), Early: true}); why != Deadline {
		t.Errorf("hopeless, and accepted: %q", why)
	}
}

func TestA6IdleTenantsAreForgotten(t *testing.T) {
	q := New(Config{Limit: 10})
	for i := range 20 * maxIdle {
		q.Push(begin, Request{Tenant: fmt.Sprint(i), Cost: 1e6})
		q.Pop(begin)
	}
	if n := len(q.classes[0].flows); n > maxIdle+10 || len(q.tenants) != 0 {
		t.Errorf("A6: %d tags, %d tenants", n, len(q.tenants))
	}
}

func BenchmarkPushPop(b *testing.B) {
	q := New(Config{Classes: 3, Limit: 1 << 20})
	names := make([]string, 64)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	for i := range 4096 {
		q.Push(begin, Request{Tenant: names[i%64], Class: i % 3, Cost: float64(i%100 + 1)})
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		q.Push(begin, Request{Tenant: names[i%64], Class: i % 3, Cost: float64(i%100 + 1)})
		q.Pop(begin)
		i++
	}
}

// Who makes way in a full queue is a new conversation, if one waits.
func TestAFullQueueKeepsTurns(t *testing.T) {
	q := New(Config{Limit: 3})
	q.Push(begin, Request{Tenant: "a"})
	turn, _, _ := q.Push(begin, Request{Tenant: "a", Turn: true})
	q.Push(begin, Request{Tenant: "a"})
	if _, displaced, why := q.Push(begin, Request{Tenant: "b"}); why != Accepted || displaced == nil || displaced.Turn {
		t.Errorf("%+v, %s", displaced, why)
	}
	if w := q.Pop(begin); w != turn {
		t.Errorf("%+v goes first", w)
	}
}

// In a full queue the tenant that has most waiting gives way; of two that have
// as many, the one whose last request came last.
func TestTheBiggestTenantGivesWay(t *testing.T) {
	for _, tc := range []struct {
		came []string // in this order
		gone int      // which of them
	}{
		{[]string{"a", "b", "c", "b", "b"}, 4},
		{[]string{"b", "b", "b", "a", "c"}, 2},
		{[]string{"a", "b", "b", "c", "c"}, 4},
		{[]string{"a", "c", "c", "b", "b"}, 4},
		{[]string{"b", "c", "b", "c", "a"}, 3},
		{[]string{"c", "b", "b", "c", "a"}, 3},
	} {
		q := New(Config{Limit: len(tc.came)})
		var waiting []*Waiter
		for _, name := range tc.came {
			w, _, _ := q.Push(begin, Request{Tenant: name, Cost: 1})
			waiting = append(waiting, w)
		}
		if _, gone, why := q.Push(begin, Request{Tenant: "d", Cost: 1}); why != Accepted || gone != waiting[tc.gone] {
			t.Errorf("%v: %+v gave way (%s), want the one at %d", tc.came, gone, why, tc.gone)
		}
	}
}
