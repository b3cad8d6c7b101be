package requests

import (
	"sync"
	"time"
)

// Sizes of a peer's Book: seconds to minutes of traffic, and the last requests
// that somebody may ask about. A request with 16 candidates takes 2 KB, one
// with 64 takes 5 KB.
const (
	KeptOrdinary = 1024
	KeptNotable  = 1024
)

// Book remembers requests under way and the last that ended. Safe for
// concurrent use.
type Book struct {
	mu      sync.Mutex        // guards below
	running map[string]*Trail // by id
	rings   [2]ring           // ordinary, notable
	spare   []*Trail
}

// ring holds the last trails that ended, at most size.
type ring struct {
	list []*Trail
	size int
	next int // where the next one goes once the list is full
}

// NewBook makes a Book that remembers so many ended requests of each kind.
func NewBook(ordinary, notable int) *Book {
	return &Book{running: map[string]*Trail{}, rings: [2]ring{{size: ordinary}, {size: notable}}}
}

// Begin remembers a request under way. It ends with End.
func (b *Book) Begin(id string, at time.Time) *Trail {
	b.mu.Lock()
	defer b.mu.Unlock()
	var t *Trail
	if n := len(b.spare); n > 0 {
		t, b.spare = b.spare[n-1], b.spare[:n-1]
	} else {
		t = &Trail{}
	}
	t.reset(id, at)
	b.running[id] = t
	return t
}

// End keeps what a request came to; notable ones are kept longer. The trail
// must not be used afterwards.
func (b *Book) End(t *Trail, notable bool) {
	if t == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	t.mu.Lock()
	t.ended = true
	delete(b.running, t.record.ID)
	t.mu.Unlock()
	r := &b.rings[0]
	if notable {
		r = &b.rings[1]
	}
	if len(r.list) < r.size {
		r.list = append(r.list, t)
		return
	}
	b.spare = append(b.spare, r.list[r.next]) // at most as many as ever ran at one time
	r.list[r.next] = t
	r.next = (r.next + 1) % r.size
}

// Find returns the newest request with this id, by ours, the client's or the
// trace's; nil if none is remembered. O(requests remembered).
func (b *Book) Find(id, peer string, now time.Time) *Told {
	if id == "" {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.running[id]; t != nil {
		return t.told(peer, now)
	}
	var found *Trail
	look := func(t *Trail) {
		if t.is(id) && (found == nil || t.begun.After(found.begun)) {
			found = t
		}
	}
	for _, t := range b.running {
		look(t)
	}
	for i := range b.rings {
		for _, t := range b.rings[i].list {
			look(t)
		}
	}
	if found == nil {
		return nil
	}
	return found.told(peer, now)
}

// Notable lists the last failed, slow and retried requests, newest first.
func (b *Book) Notable(n int, peer string, now time.Time) []*Told {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := &b.rings[1]
	out := []*Told{}
	for i := range r.list {
		if len(out) == n {
			break
		}
		at := (r.next - 1 - i + 2*len(r.list)) % len(r.list)
		out = append(out, r.list[at].told(peer, now))
	}
	return out
}

// is reports whether id names the request.
func (t *Trail) is(id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &t.record
	if r.ID == id || r.ClientID == id {
		return true
	}
	return len(id) == 32 && r.Trace != [16]byte{} && string(appendTrace(make([]byte, 0, 32), &r.Trace)) == id
}
