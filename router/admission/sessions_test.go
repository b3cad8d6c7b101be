package admission

import (
	"math/rand/v2"
	"testing"
	"time"
)

// played is what became of sessions that ask one turn after the other.
type played struct {
	alive float64 // sessions begun and not ended, mean over time
	whole float64 // seconds from asking for the first turn to the last answer, mean
	first float64 // seconds the first turn waited, mean
	rest  float64 // seconds a later turn waited, mean
}

// play drives a queue with one place, .9 full, by sessions that come at random
// and ask 2 to 20 turns of a second each, with pauses of 0 to 4 s.
func play(seed uint64, turnsFirst bool) (p played) {
	type session struct {
		left   int
		asked  float64
		goesOn bool
		next   float64
	}
	rnd := rand.New(rand.NewPCG(seed, 1))
	q, at := New(Config{Limit: 1 << 20}), func(s float64) time.Time { return begin.Add(time.Duration(s * float64(time.Second))) }
	var pausing []*session
	const sessions = 2000
	come := 0.0
	for range sessions {
		come += rnd.ExpFloat64() * 11 / .9
		pausing = append(pausing, &session{left: 2 + rnd.IntN(19), asked: come, next: come})
	}
	now, later := 0.0, 0
	for done := 0; done < sessions; {
		waiting := pausing[:0]
		soonest := -1.0
		for _, s := range pausing {
			switch {
			case s.next <= now:
				w, _, _ := q.Push(at(s.next), Request{Cost: 1, Turn: turnsFirst && s.goesOn})
				w.Value = s
			default:
				if waiting = append(waiting, s); soonest < 0 || s.next < soonest {
					soonest = s.next
				}
			}
		}
		pausing = waiting
		w := q.Pop(at(now))
		if w == nil {
			now = soonest
			continue
		}
		s := w.Value.(*session)
		if s.goesOn {
			p.rest += now - s.next
			later++
		} else {
			p.first += now - s.next
			p.alive -= now // it holds a cache from here
		}
		now++
		if s.goesOn, s.left = true, s.left-1; s.left == 0 {
			p.alive += now
			p.whole += now - s.asked
			done++
			continue
		}
		s.next = now + 4*rnd.Float64()
		pausing = append(pausing, s)
	}
	p.alive /= now
	p.whole /= sessions
	p.first /= sessions
	p.rest /= float64(later)
	return p
}

// TestTurnsFirst: fewer sessions are alive at once, so that less has to stay
// cached, and they end sooner; those that begin wait longer.
func TestTurnsFirst(t *testing.T) {
	for seed := range uint64(3) {
		came, turns := play(seed, false), play(seed, true)
		t.Logf("seed %d: first come %.1f, turns first %.1f", seed, came, turns)
		if turns.alive > .8*came.alive || turns.whole > came.whole || turns.rest > came.rest {
			t.Errorf("seed %d: first come %+v, turns first %+v", seed, came, turns)
		}
	}
}
