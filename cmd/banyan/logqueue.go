package main

import (
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// logQueued bounds the log's lines that wait for their reader, and
// logCloseWithin the wait for it at the end.
const (
	logQueued      = 1024
	logCloseWithin = time.Second
)

// logQueue writes the log's lines soon, in their order. Write never waits:
// without it a pipe that nobody empties would hold every request that has
// something to log, and in the end all of them. What does not fit is dropped
// and counted.
type logQueue struct {
	to      io.Writer
	lines   chan []byte
	dropped atomic.Uint64
	told    uint64       // of dropped; the writer's own
	say     func(uint64) // writes to the reader that so many were dropped

	closing, ended chan struct{}
	once           sync.Once
}

// newLogQueue makes a queue; its owner sets say, starts run and calls close.
func newLogQueue(to io.Writer) *logQueue {
	return &logQueue{to: to, lines: make(chan []byte, logQueued), closing: make(chan struct{}), ended: make(chan struct{})}
}

// Write implements io.Writer; line must not be used again by the caller.
func (q *logQueue) Write(line []byte) (int, error) {
	select {
	case q.lines <- line:
	default:
		q.dropped.Add(1)
	}
	return len(line), nil
}

func (q *logQueue) run() {
	defer close(q.ended)
	for {
		select {
		case line := <-q.lines:
			q.put(line)
			continue
		default:
		}
		if n := q.dropped.Load(); n > q.told {
			q.say(n - q.told)
			q.told = n
		}
		select {
		case line := <-q.lines:
			q.put(line)
		case <-q.closing:
			for len(q.lines) > 0 {
				q.put(<-q.lines)
			}
			return
		}
	}
}

// put writes a line. A log that cannot be written has nobody to tell.
func (q *logQueue) put(line []byte) { _, _ = q.to.Write(line) }

// close writes what waits. It gives up after a second: a reader that stands
// still must not hold the end of the process.
func (q *logQueue) close() {
	q.once.Do(func() { close(q.closing) })
	select {
	case <-q.ended:
	case <-time.After(logCloseWithin):
	}
}
