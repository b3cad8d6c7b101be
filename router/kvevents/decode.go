package kvevents

import (
	"errors"
	"fmt"
	"math"
)

// Limits on what a payload may hold. Payloads themselves are bounded by the
// transport (16 MiB a message).
const (
	maxEventsPerBatch  = 1 << 16
	maxBlocksPerEvent  = 1 << 17
	maxHashBytes       = 64
	maxBlockSizeTokens = 1 << 16
	maxRank            = 1 << 20
	maxInterned        = 256 // distinct short strings remembered
	maxInternedBytes   = 256 // longest of them
)

// Decoder turns payloads into batches, reusing its memory. It needs no
// configuration: array and map forms are told apart event by event, since no
// engine says which release it is. The zero value is ready. Not safe for
// concurrent use.
type Decoder struct {
	batch  Batch
	words  []uint64 // arena of Hashes
	tokens []uint32 // arena of Tokens
	extra  []byte   // arena of Extra
	extras [][]byte
	seen   handleSet
	names  map[string]string
	hex    bool // hashes may be hex strings (JSON)

	raw    rawEvent
	cursor cursor
}

// rawEvent is what an event's fields said before they are checked together.
type rawEvent struct {
	has      uint32 // bit per field
	tag      string
	numbered bool // the adapter has a number
	loraID   int64
	loraName string
	extra    []byte // msgpack, view into the payload
}

// Decode reads one msgpack batch. An error means that the message as a whole
// is unusable; events that make no sense alone are left out and counted in
// the batch.
func (d *Decoder) Decode(payload []byte) (*Batch, error) {
	d.reset()
	c := &d.cursor
	c.reset(payload)
	if err := d.readBatch(c); err != nil {
		return nil, fmt.Errorf("decode batch: %w", err)
	}
	if c.left() != 0 {
		return nil, fmt.Errorf("decode batch: %w: %d bytes behind its end", errStructure, c.left())
	}
	return &d.batch, nil
}

// reset empties the arenas, keeping their memory.
func (d *Decoder) reset() {
	d.batch = Batch{Rank: -1, Events: d.batch.Events[:0]}
	d.words, d.tokens, d.extra, d.extras = d.words[:0], d.tokens[:0], d.extra[:0], d.extras[:0]
	if d.names == nil {
		d.names = make(map[string]string)
	}
}

// readBatch reads [ts, [events], rank?, ...] or the same as a map.
func (d *Decoder) readBatch(c *cursor) error {
	t, err := c.peek()
	if err != nil {
		return err
	}
	if isMap(t) {
		return d.readMapBatch(c)
	}
	n, err := c.array()
	if err != nil {
		return err
	}
	if n < 2 {
		return fmt.Errorf("%w: %d slots", errMissing, n)
	}
	if err := d.readTime(c); err != nil {
		return err
	}
	if err := d.readEvents(c); err != nil {
		return err
	}
	if n > 2 {
		if err := d.readRank(c); err != nil {
			return err
		}
	}
	for i := 3; i < n; i++ {
		d.batch.Unknown++
		if err := c.skip(); err != nil {
			return err
		}
	}
	return nil
}

// readMapBatch reads the batch as a map, a form no release uses yet.
func (d *Decoder) readMapBatch(c *cursor) error {
	n, err := c.mapping()
	if err != nil {
		return err
	}
	events := false
	for range n {
		key, err := c.text()
		if err != nil {
			return err
		}
		switch string(key) {
		case "ts":
			err = d.readTime(c)
		case "events":
			events = true
			err = d.readEvents(c)
		case "data_parallel_rank", "attn_dp_rank", "dp_rank":
			err = d.readRank(c)
		default:
			d.batch.Unknown++
			err = c.skip()
		}
		if err != nil {
			return err
		}
	}
	if !events {
		return errMissing
	}
	d.batch.Layout = LayoutMapBatch
	return nil
}

// readTime reads seconds since 1970.
func (d *Decoder) readTime(c *cursor) error {
	s, err := c.number()
	if err != nil {
		return err
	}
	if d.batch.TS, err = microseconds(s); err != nil {
		return err
	}
	return nil
}

// microseconds converts an engine's seconds, refusing what no clock shows.
func microseconds(s float64) (int64, error) {
	if !(s >= 0 && s < 1e11) { // also NaN; the year 5138
		return 0, errors.New("timestamp out of range")
	}
	return int64(math.Round(s * 1e6)), nil
}

// readRank reads the data-parallel rank or nil.
func (d *Decoder) readRank(c *cursor) error {
	if null, err := c.null(); null || err != nil {
		return err
	}
	v, negative, err := c.integer()
	if err != nil {
		return err
	}
	if negative || v > maxRank {
		return errors.New("data-parallel rank out of range")
	}
	d.batch.Rank = int(v)
	return nil
}

// readEvents reads the list of events; a bad one costs only itself (I3).
func (d *Decoder) readEvents(c *cursor) error {
	n, err := c.array()
	if err != nil {
		return err
	}
	if n > maxEventsPerBatch {
		return fmt.Errorf("%d events in one batch", n)
	}
	for i := range n {
		start := c.at()
		err := d.readEvent(c)
		if errors.Is(err, errStructure) {
			return err
		}
		if err == nil {
			continue
		}
		if d.batch.Dropped == 0 {
			d.batch.FirstFault, d.batch.FirstIndex = err, i
		}
		d.batch.Dropped++
		c.seek(start)
		if err := c.skip(); err != nil {
			return err
		}
	}
	return nil
}

// readEvent reads one event of either form and appends it to the batch.
func (d *Decoder) readEvent(c *cursor) error {
	t, err := c.peek()
	if err != nil {
		return err
	}
	d.raw = rawEvent{}
	e := Event{}
	switch {
	case isArray(t):
		err = d.readArrayEvent(c, &e)
		d.sawLayout(LayoutArray)
	case isMap(t):
		err = d.readMapEvent(c, &e)
		d.sawLayout(LayoutMap)
	default:
		return errType
	}
	if err != nil {
		return err
	}
	if err := d.finish(&e); err != nil {
		return err
	}
	d.batch.Events = append(d.batch.Events, e)
	return nil
}

// sawLayout remembers the first event's form.
func (d *Decoder) sawLayout(l Layout) {
	if d.batch.Layout == "" {
		d.batch.Layout = l
	}
}

// readArrayEvent reads [tag, fields in order].
func (d *Decoder) readArrayEvent(c *cursor, e *Event) error {
	n, err := c.array()
	if err != nil {
		return err
	}
	if n == 0 {
		return errTag
	}
	tag, err := c.text()
	if err != nil {
		return err
	}
	d.raw.tag = d.intern(tag)
	order := arrayFields(d.raw.tag)
	for i := range n - 1 {
		f := fieldUnknown
		if i < len(order) {
			f = order[i]
		}
		if err := d.readField(c, e, f); err != nil {
			return err
		}
	}
	return nil
}

// readMapEvent reads {"type": tag, name: value, ...} in any order.
func (d *Decoder) readMapEvent(c *cursor, e *Event) error {
	n, err := c.mapping()
	if err != nil {
		return err
	}
	for range n {
		key, err := c.text()
		if err != nil {
			return err
		}
		if string(key) == "type" {
			tag, err := c.text()
			if err != nil {
				return err
			}
			d.raw.tag = d.intern(tag)
			continue
		}
		if err := d.readField(c, e, fieldNamed(string(key))); err != nil {
			return err
		}
	}
	return nil
}

// intern returns a string equal to b, without allocating for those seen
// before.
func (d *Decoder) intern(b []byte) string {
	if s, ok := d.names[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(b) <= maxInternedBytes {
		if len(d.names) >= maxInterned {
			clear(d.names)
		}
		d.names[s] = s
	}
	return s
}
