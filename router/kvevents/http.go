package kvevents

import (
	"errors"
	"fmt"
	"strings"

	"github.com/banyan-llm/banyan/router/kvevents/follow"
)

// HTTPBatch is the body of POST /v1/kv-events: one batch of a replica whose
// sender names its own incarnation.
type HTTPBatch struct {
	Replica string // name of a registered replica
	Epoch   uint64 // ms; the sender's incarnation
	Seq     uint64 // as on the wire: 0 is the first batch, slot 1
	Batch   *Batch
}

// DecodeHTTP reads a pushed batch, JSON or msgpack by its content type
// ("application/json" or anything else). Unlike a live stream's, it is taken
// whole or not at all: the error names the first event that makes no sense.
func (d *Decoder) DecodeHTTP(body []byte, contentType string) (HTTPBatch, error) {
	isJSON := strings.Contains(strings.ToLower(contentType), "json")
	if isJSON {
		packed, err := packJSON(body)
		if err != nil {
			return HTTPBatch{}, fmt.Errorf("decode events: %w", err)
		}
		body = packed
	}
	d.reset()
	d.hex = isJSON
	defer func() { d.hex = false }()
	out, err := d.readHTTP(newCursor(body))
	if err != nil {
		return HTTPBatch{}, fmt.Errorf("decode events: %w", err)
	}
	if isJSON {
		d.batch.Layout = LayoutJSON
	}
	return out, nil
}

// readHTTP reads the outer map.
func (d *Decoder) readHTTP(c *cursor) (HTTPBatch, error) {
	out := HTTPBatch{Batch: &d.batch}
	n, err := c.mapping()
	if err != nil {
		return out, fmt.Errorf("body is no map: %w", err)
	}
	told := make(map[string]bool, 5)
	for range n {
		key, err := c.text()
		if err != nil {
			return out, err
		}
		name := string(key)
		told[name] = true
		switch name {
		case "replica":
			var b []byte
			b, err = c.text()
			out.Replica = string(b)
		case "epoch_ms":
			out.Epoch, err = readCount(c, follow.MaxStart) // one wild number would fence the stream off
		case "seq":
			out.Seq, err = readCount(c, maxSeq)
		case "ts":
			err = d.readTime(c)
		case "events":
			err = d.readEvents(c)
		default:
			d.batch.Unknown++
			err = c.skip()
		}
		if err != nil {
			return out, fmt.Errorf("%.40q: %w", name, err)
		}
	}
	return out, d.checkHTTP(c, &out, told)
}

// checkHTTP checks that all is there and every event was good.
func (d *Decoder) checkHTTP(c *cursor, out *HTTPBatch, told map[string]bool) error {
	for _, name := range []string{"replica", "epoch_ms", "seq", "ts", "events"} {
		if !told[name] {
			return fmt.Errorf("%q is missing", name)
		}
	}
	switch {
	case c.left() != 0:
		return errStructure
	case out.Replica == "":
		return errors.New(`"replica" is empty`)
	case out.Epoch == 0:
		return errors.New(`"epoch_ms" is 0`)
	case d.batch.Dropped > 0:
		return fmt.Errorf("event %d: %w", d.batch.FirstIndex, d.batch.FirstFault)
	}
	return nil
}

// readCount reads an integer of at most most.
func readCount(c *cursor, most uint64) (uint64, error) {
	v, negative, err := c.integer()
	if err == nil && (negative || v > most) {
		err = errors.New("out of range")
	}
	return v, err
}
