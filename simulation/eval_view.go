package simulation

import "math"

// loads is what the peers' load registers say of every replica. All peers see
// each other with one delay, so two sums suffice: what everybody knows by now,
// and what each peer did since. I/E4: a change is in exactly one of them for
// its author, and in the first alone for everybody else.
type loads struct {
	replicas int
	known    []loadSum // per replica
	own      []loadSum // per peer and replica: not yet known to the others
	young    []loadSum // per peer and replica: own dispatches among them, still waiting

	delay    [2]float64 // of dispatches, of the rest
	pending  [2]fifo[change]
	ownFirst []float64 // per peer and replica: last first token, or dispatch that found it empty
}

// loadSum is a sum of registers. It is also a difference of two such sums.
type loadSum struct {
	waiting int
	prefill float64 // seconds
	tokens  int64   // uncached
	streams int
	blocks  int64
}

func (l *loadSum) add(o loadSum, sign int) {
	l.waiting += sign * o.waiting
	l.prefill += float64(sign) * o.prefill
	l.tokens += int64(sign) * o.tokens
	l.streams += sign * o.streams
	l.blocks += int64(sign) * o.blocks
}

// change is one change of one register on its way to the other peers.
type change struct {
	at            float64
	peer, replica int
	load          loadSum
	first         float64 // last first token; -Inf: unchanged
	job           *job    // dispatches: to know whether it is still young
}

func newLoads(peers, replicas int, dispatch, rest float64) *loads {
	l := &loads{
		replicas: replicas,
		known:    make([]loadSum, replicas),
		own:      make([]loadSum, peers*replicas),
		young:    make([]loadSum, peers*replicas),
		ownFirst: make([]float64, (peers+1)*replicas), // the last row is everybody's
		delay:    [2]float64{dispatch, rest},
	}
	for i := range l.ownFirst {
		l.ownFirst[i] = math.Inf(-1)
	}
	return l
}

func (l *loads) at(peer, replica int) int { return peer*l.replicas + replica }

// dispatch enters a job into its peer's register.
func (l *loads) dispatch(now float64, j *job) {
	c := change{
		at: now, peer: j.peer, replica: j.replica, job: j, first: math.Inf(-1),
		load: loadSum{waiting: 1, prefill: j.prefill, tokens: j.tokens},
	}
	if l.sum(j.peer, j.replica).waiting == 0 {
		c.first = now
	}
	l.young[l.at(j.peer, j.replica)].add(c.load, 1)
	j.young = true
	l.enter(0, c)
}

// firstToken moves a job from waiting to streaming.
func (l *loads) firstToken(now float64, j *job) {
	gone := loadSum{waiting: 1, prefill: j.prefill, tokens: j.tokens}
	l.mature(j, gone)
	c := change{at: now, peer: j.peer, replica: j.replica, first: now}
	c.load.add(gone, -1)
	c.load.streams, c.load.blocks = 1, j.blocks
	l.enter(1, c)
}

// finish takes a job out.
func (l *loads) finish(now float64, j *job) {
	l.enter(1, change{
		at: now, peer: j.peer, replica: j.replica, first: math.Inf(-1),
		load: loadSum{streams: -1, blocks: -j.blocks},
	})
}

// mature ends a dispatch's youth.
func (l *loads) mature(j *job, dispatched loadSum) {
	if j.young {
		j.young = false
		l.young[l.at(j.peer, j.replica)].add(dispatched, -1)
	}
}

func (l *loads) enter(kind int, c change) {
	at := l.at(c.peer, c.replica)
	l.own[at].add(c.load, 1)
	l.ownFirst[at] = math.Max(l.ownFirst[at], c.first)
	l.pending[kind].push(c)
}

// advance makes known what is older than its delay.
func (l *loads) advance(now float64) {
	for kind := range l.pending {
		q := &l.pending[kind]
		for q.len() > 0 && q.front().at+l.delay[kind] <= now {
			c := q.pop()
			l.known[c.replica].add(c.load, 1)
			l.own[l.at(c.peer, c.replica)].add(c.load, -1)
			everybody := l.at(len(l.ownFirst)/l.replicas-1, c.replica)
			l.ownFirst[everybody] = math.Max(l.ownFirst[everybody], c.first)
			if kind == 0 {
				l.mature(c.job, c.load)
			}
		}
	}
}

// sum is a replica's load as a peer sees it.
func (l *loads) sum(peer, replica int) loadSum {
	s := l.known[replica]
	s.add(l.own[l.at(peer, replica)], 1)
	return s
}

// first is the replica's last first token (or the dispatch that found it
// empty) as a peer knows it; -Inf if there was none.
func (l *loads) first(peer, replica int) float64 {
	everybody := len(l.ownFirst)/l.replicas - 1
	return math.Max(l.ownFirst[l.at(peer, replica)], l.ownFirst[l.at(everybody, replica)])
}

// fifo is a queue in order of time.
type fifo[T any] struct {
	items []T
	head  int
}

func (q *fifo[T]) len() int  { return len(q.items) - q.head }
func (q *fifo[T]) front() *T { return &q.items[q.head] }
func (q *fifo[T]) push(v T)  { q.items = append(q.items, v) }

func (q *fifo[T]) pop() T {
	v := q.items[q.head]
	var zero T
	q.items[q.head] = zero
	if q.head++; 2*q.head > len(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	return v
}
