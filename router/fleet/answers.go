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

// The window of answers: the last ones of each client, of a minute. By their
// number it is short where much is asked, so that what begins to fail is found out
// within seconds; by client, so that none pushes out what others were answered.
const (
	windowMs   = 60_000
	windowSize = 32
	clients    = 8 // clients are told apart by so many classes
	recent     = 8 // bodies remembered, so that one counts once
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

// answers are the last answers of a replica. The zero value is empty. Times are in
// ms of one clock.
type answers struct {
	by     [clients]lastAnswers
	bodies [recent]struct {
		body uint64
		at   int64
	}
	next int // of bodies
}

// lastAnswers are those of one class of clients.
type lastAnswers struct {
	list [windowSize]struct {
		second uint32 // of the clock; 0: none
		kind   Kind
	}
	last int
}

// add counts an answer. A body that failed within the last minute does not count
// as bad again: what one body does is not the replica's doing.
func (a *answers) add(ms int64, by By, k Kind) {
	if k == AnswerBad && a.repeated(ms, by.Body) {
		return
	}
	c := &a.by[by.Client%clients]
	c.last = (c.last + 1) % windowSize
	c.list[c.last].second, c.list[c.last].kind = uint32(max(ms/1000, 1)), k
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

// sum counts the answers in the window, to compare those of a kind: without the
// client that has most of them, if others were answered as well.
// O(clients*windowSize).
func (a *answers) sum(ms int64, k Kind) tally {
	var by [clients]tally
	for c := range a.by {
		for _, e := range a.by[c].list {
			if e.second > 0 && ms/1000-int64(e.second) < windowMs/1000 {
				by[c][e.kind]++
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
