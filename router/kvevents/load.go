package kvevents

import (
	"errors"
	"fmt"
)

// Load is SGLang's LoadStat, which it publishes on a socket of its own
// (--load-publish-endpoint; frames "load", a number, msgpack) at each change and
// every second.
type Load struct {
	Running, Waiting uint64
	Used, Capacity   uint64 // KV tokens; capacity 0: not known yet
}

// maxLoadFields bounds the fields of a LoadStat; those we do not know are
// passed over.
const maxLoadFields = 64

var errLoad = errors.New("not a LoadStat")

// ParseLoad reads ["LoadStat", running, waiting, tokens, max, ...]. What follows
// is passed over (see DECISIONS.md).
func ParseLoad(payload []byte) (l Load, err error) {
	c := newCursor(payload)
	n, err := c.array()
	if err != nil {
		return l, fmt.Errorf("parse load: %w", err)
	}
	if n < 5 || n > maxLoadFields {
		return l, fmt.Errorf("parse load: %w: %d fields", errLoad, n)
	}
	tag, err := c.text()
	if err != nil || string(tag) != "LoadStat" {
		return l, fmt.Errorf("parse load: %w", errLoad)
	}
	fields := []*uint64{&l.Running, &l.Waiting, &l.Used, &l.Capacity}
	for i := range n - 1 {
		if i >= len(fields) {
			if err := c.skip(); err != nil {
				return Load{}, fmt.Errorf("parse load: %w", err)
			}
			continue
		}
		if null, err := c.null(); null || err != nil {
			if err != nil {
				return Load{}, fmt.Errorf("parse load: %w", err)
			}
			continue
		}
		v, negative, err := c.integer()
		if err != nil || negative || v > 1<<53 {
			return Load{}, fmt.Errorf("parse load: %w: field %d", errLoad, i+1)
		}
		*fields[i] = v
	}
	if c.left() != 0 {
		return Load{}, fmt.Errorf("parse load: %w: %d bytes behind its end", errLoad, c.left())
	}
	return l, nil
}
