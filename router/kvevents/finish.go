package kvevents

import (
	"bytes"
	"encoding/binary"
	"strconv"
)

// The tags of events.
const (
	tagStored  = "BlockStored"
	tagRemoved = "BlockRemoved"
	tagCleared = "AllBlocksCleared"
)

// finish checks an event's fields against each other.
func (d *Decoder) finish(e *Event) error {
	switch d.raw.tag {
	case tagStored:
		e.Type = Stored
		return d.finishStored(e)
	case tagRemoved:
		e.Type = Removed
		if !d.told(fieldHashes) {
			return errMissing
		}
		return nil
	case tagCleared:
		e.Type = Cleared
		return nil
	}
	return errTag
}

// told reports whether the event had a field, be it nil.
func (d *Decoder) told(f field) bool { return d.raw.has&(1<<f) != 0 }

// finishStored checks a store and works out its namespace.
func (d *Decoder) finishStored(e *Event) error {
	if !d.told(fieldHashes) || !d.told(fieldParent) || !d.told(fieldTokens) || !d.told(fieldBlockSize) {
		return errMissing
	}
	if e.Lora = d.raw.loraName; e.Lora == "" && d.raw.numbered {
		e.Lora = "lora_id=" + strconv.FormatInt(d.raw.loraID, 10)
	}
	if !describesPrefix(e.Kind) {
		e.Tokens, e.Ahead = nil, nil // null blocks are skipped there: tokens and hashes do not match up
		return nil
	}
	// Offload events of some releases name blocks without their tokens.
	if len(e.Tokens) > 0 && (e.BlockSize == 0 || len(e.Tokens) != len(e.Hashes)*e.BlockSize) {
		return errUnaligned
	}
	if len(e.Tokens) == 0 && e.BlockSize > 0 && len(e.Hashes) > 0 {
		return errUnaligned
	}
	if e.Ahead != nil && len(e.Ahead) != len(e.Hashes) {
		return errAhead
	}
	d.seen.reset(len(e.Hashes))
	for _, h := range e.Hashes {
		if !d.seen.add(h) {
			return errDuplicate
		}
		if e.HasParent && h == e.Parent {
			return errOwnParent
		}
	}
	return d.finishExtra(e)
}

// finishExtra splits vLLM's extra keys. Per block they are a tuple of adapter
// name, multimodal (hash, offset) pairs, cache salt (first block of a prompt
// only) and prompt embeddings' digest. The adapter and the salt belong to the
// namespace; the rest tells single blocks apart.
//
// Releases that wrote a bare multimodal hash instead of a pair cannot be told
// from a salt in a first block. It is then taken for a salt, which can only
// make blocks look different that are.
func (d *Decoder) finishExtra(e *Event) error {
	if len(d.raw.extra) == 0 || len(e.Hashes) == 0 {
		return nil
	}
	c := newCursor(d.raw.extra)
	n, err := c.array()
	if err != nil {
		return err
	}
	if n != len(e.Hashes) {
		return errExtraCount
	}
	start, any := len(d.extras), false
	for i := range n {
		from := len(d.extra)
		if err := d.blockExtra(c, e, i == 0 && !e.HasParent); err != nil {
			return err
		}
		block := d.extra[from:len(d.extra):len(d.extra)]
		any = any || len(block) > 0
		d.extras = append(d.extras, block)
	}
	if any {
		e.Extra = d.extras[start:len(d.extras):len(d.extras)]
	}
	return nil
}

// behind reports whether an extra key is the pair of an image and its offset, and
// the image begins behind the block: a hash that looks ahead covers it too. Keys
// of blocks do not look ahead, nor do those of prompts (router/token).
func behind(canonical []byte, blockSize int) bool {
	const number = 9 // a sign and 64 bits
	n := len(canonical) - number
	return n > 0 && bytes.HasPrefix(canonical, []byte{'a', 0, 0, 0, 2, 's'}) && canonical[n] == '+' &&
		binary.BigEndian.Uint64(canonical[n+1:]) >= uint64(blockSize)
}

// blockExtra reads one block's extra keys, appending what is not namespace to
// the arena.
func (d *Decoder) blockExtra(c *cursor, e *Event, first bool) error {
	if null, err := c.null(); null || err != nil {
		return err
	}
	n, err := c.array()
	if err != nil {
		return err
	}
	adapter := false
	var salt []byte // last bare string of a first block, held back
	salted := false
	for range n {
		t, err := c.peek()
		if err != nil {
			return err
		}
		if isStr(t) {
			b, err := c.text()
			switch {
			case err != nil:
				return err
			case !adapter && e.Lora != "" && string(b) == e.Lora:
				adapter = true
			case first:
				if salted {
					d.extra = appendSized(d.extra, 's', salt)
				}
				salt, salted = b, true
			default:
				d.extra = appendSized(d.extra, 's', b)
			}
			continue
		}
		at := len(d.extra)
		if d.extra, err = c.appendCanonical(d.extra, maxDepth); err != nil {
			return err
		}
		if e.Ahead != nil && behind(d.extra[at:], e.BlockSize) {
			d.extra = d.extra[:at]
		}
	}
	if salted {
		e.Salt = d.intern(salt)
	}
	return nil
}
