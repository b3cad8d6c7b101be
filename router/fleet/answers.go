package fleet

import "math"

// Kind is what one answer says of its replica.
type Kind uint8

// The kinds of answers.
const (
	AnswerGood    Kind = iota
	AnswerRefused      // 4xx, and nobody says that another replica would have answered
	AnswerBad          // it failed where another one answered, or broke off
	kinds
)

// The window of answers: slots of ten seconds, a minute in all.
const (
	slotMs   = 10_000
	slots    = 6
	windowMs = slots * slotMs
	clients  = 8 // clients are told apart by so many classes
	recent   = 8 // bodies remembered, so that one counts once
)

// By is who sent a request, hashed, and what it was.
type By struct{ Client, Body uint64 }

// tally counts answers by kind.
type tally [kinds]uint32

func (t *tally) total() uint32 { return t[AnswerGood] + t[AnswerRefused] + t[AnswerBad] }

func (t *tally) plus(o *tally) {
	for k := range t {
		t[k] += o[k]
	}
}

func (t *tally) minus(o *tally) {
	for k := range t {
		t[k] -= o[k]
	}
}

// Share is the part of answers that are of a kind; 0 of none.
func (t *tally) share(k Kind) float64 {
	if t.total() == 0 {
		return 0
	}
	return float64(t[k]) / float64(t.total())
}

// answers is what came of a replica in the last minute, by client. The zero value
// is empty. Times are in ms of one clock.
type answers struct {
	list   [slots]slot
	bodies [recent]struct {
		body uint64
		at   int64
	}
	next int // of bodies
}

type slot struct {
	number int64 // since the clock's origin
	by     [clients]tally
}

// add counts an answer. A body that failed a minute ago or later does not count
// as bad again: what one body does is not the replica's doing.
func (a *answers) add(ms int64, by By, k Kind) {
	if k == AnswerBad && a.repeated(ms, by.Body) {
		return
	}
	number := ms / slotMs
	s := &a.list[number%slots]
	if s.number != number {
		*s = slot{number: number}
	}
	s.by[by.Client%clients][k]++
}

func (a *answers) repeated(ms int64, body uint64) bool {
	for _, b := range a.bodies {
		if b.body == body && b.at > 0 && ms-b.at < windowMs {
			return true
		}
	}
	b := &a.bodies[a.next]
	b.body, b.at = body, max(ms, 1)
	a.next = (a.next + 1) % recent
	return false
}

// sum is the last minute's answers of a kind: without those of the client that
// has most of them, if others were answered as well.
func (a *answers) sum(ms int64, k Kind) tally {
	var by [clients]tally
	for i := range a.list {
		if s := &a.list[i]; ms/slotMs-s.number < slots {
			for c := range by {
				by[c].plus(&s.by[c])
			}
		}
	}
	var all tally
	worst := 0
	for c := range by {
		all.plus(&by[c])
		if by[c][k] > by[worst][k] {
			worst = c
		}
	}
	rest := all
	rest.minus(&by[worst])
	if rest.total() >= oddCount && rest.share(k) < all.share(k) {
		return rest
	}
	return all
}

// A replica answers oddly if so many of its answers are of a kind, and their share
// is that much above the others'. Below oddShare it only gets less.
const (
	oddCount = 3
	oddShare = 0.3
)

// odd reports whether a replica has more answers of a kind than the others of its
// models, and by how much.
func odd(own, others tally, k Kind) (excess float64, much bool) {
	if own[k] < oddCount {
		return 0, false
	}
	excess = math.Max(0, own.share(k)-others.share(k))
	return excess, excess >= oddShare
}
