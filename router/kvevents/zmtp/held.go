package zmtp

import "golang.org/x/sync/semaphore"

// Held is what a message takes of Options.Room. The zero value takes nothing.
type Held struct {
	room  *semaphore.Weighted
	bytes int64
}

// Release gives it back. It must be called once.
func (h Held) Release() {
	if h.room != nil {
		h.room.Release(h.bytes)
	}
}
