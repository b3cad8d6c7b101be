package zmtp

import (
	"context"
	"sync"
)

// queue is a FIFO bounded in elements and bytes (I3). Elements are put by any
// goroutine and taken by one.
type queue[T any] struct {
	maxLen, maxBytes int
	filled           chan struct{} // holds a token when there may be something to take
	drained          chan struct{} // holds a token when there may be room

	mu    sync.Mutex
	elems []sized[T]
	head  int
	bytes int
}

// sized is an element with its weight.
type sized[T any] struct {
	value T
	bytes int
}

// newQueue makes a queue with the given bounds.
func newQueue[T any](maxLen, maxBytes int) *queue[T] {
	return &queue[T]{
		maxLen: maxLen, maxBytes: maxBytes,
		filled: make(chan struct{}, 1), drained: make(chan struct{}, 1),
	}
}

// tryPut appends unless the queue is full. An empty queue takes any element.
func (q *queue[T]) tryPut(v T, bytes int) bool {
	q.mu.Lock()
	n := len(q.elems) - q.head
	if n > 0 && (n >= q.maxLen || q.bytes+bytes > q.maxBytes) {
		q.mu.Unlock()
		return false
	}
	if q.head > 0 && len(q.elems) == cap(q.elems) {
		clear(q.elems[:q.head])
		q.elems = q.elems[:copy(q.elems, q.elems[q.head:])]
		q.head = 0
	}
	q.elems = append(q.elems, sized[T]{v, bytes})
	q.bytes += bytes
	q.mu.Unlock()
	signal(q.filled)
	return true
}

// put appends, waiting for room until ctx ends.
func (q *queue[T]) put(ctx context.Context, v T, bytes int) error {
	for !q.tryPut(v, bytes) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-q.drained:
		}
	}
	signal(q.drained) // there may be room for another waiting putter
	return nil
}

// tryTake moves at most n elements to the end of dst.
func (q *queue[T]) tryTake(dst []T, n int) []T {
	q.mu.Lock()
	for ; n > 0 && q.head < len(q.elems); n-- {
		e := &q.elems[q.head]
		dst = append(dst, e.value)
		q.bytes -= e.bytes
		*e = sized[T]{}
		q.head++
	}
	if q.head == len(q.elems) {
		q.elems, q.head = q.elems[:0], 0
		if cap(q.elems) > 1024 {
			q.elems = nil // a burst's memory is not kept
		}
	}
	q.mu.Unlock()
	signal(q.drained)
	return dst
}

// take waits for at least one element, or until ctx ends.
func (q *queue[T]) take(ctx context.Context, dst []T, n int) ([]T, error) {
	for {
		if got := q.tryTake(dst, n); len(got) > len(dst) {
			return got, nil
		}
		select {
		case <-ctx.Done():
			return dst, ctx.Err()
		case <-q.filled:
		}
	}
}

// signal leaves a token unless one is there.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
