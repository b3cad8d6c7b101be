package kvevents

import (
	"encoding/binary"
	"encoding/hex"

	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// field is one field of an event, whatever the layout calls it.
type field uint8

const (
	fieldUnknown field = iota
	fieldHashes
	fieldParent
	fieldTokens
	fieldBlockSize
	fieldLoraID
	fieldMedium
	fieldLoraName
	fieldExtra
	fieldGroup
	fieldKind
	fieldWindow
	fieldLocality
	fieldOwnership
	fieldSession
	fieldSalt
	fieldOrigin
	fieldAhead
)

// storedFields and removedFields are the order of array events: that of the
// fields of BlockStored and BlockRemoved in vLLM's kv_events.
// SGLang's array has the same order; where vLLM has lora_name it once had a
// map of metadata.
var (
	storedFields = []field{
		fieldHashes, fieldParent, fieldTokens, fieldBlockSize, fieldLoraID, fieldMedium,
		fieldLoraName, fieldExtra, fieldGroup, fieldKind, fieldWindow,
	}
	removedFields = []field{fieldHashes, fieldMedium, fieldGroup}
)

// arrayFields is the field order of an array event.
func arrayFields(tag string) []field {
	switch tag {
	case tagStored:
		return storedFields
	case tagRemoved:
		return removedFields
	}
	return nil
}

// fieldNamed maps a map event's key.
func fieldNamed(key string) field {
	switch key {
	case "block_hashes":
		return fieldHashes
	case "parent_block_hash":
		return fieldParent
	case "token_ids":
		return fieldTokens
	case "block_size":
		return fieldBlockSize
	case "lora_id":
		return fieldLoraID
	case "medium":
		return fieldMedium
	case "lora_name":
		return fieldLoraName
	case "extra_keys":
		return fieldExtra
	case "group_idx":
		return fieldGroup
	case "kv_cache_spec_kind":
		return fieldKind
	case "kv_cache_spec_sliding_window":
		return fieldWindow
	case "locality":
		return fieldLocality
	case "ownership":
		return fieldOwnership
	case "session_id":
		return fieldSession
	case "cache_salt":
		return fieldSalt
	case "origin":
		return fieldOrigin
	case "lookahead_token_ids":
		return fieldAhead
	}
	return fieldUnknown
}

// readField reads one value into the event. nil leaves a field at its
// default, but counts as told.
func (d *Decoder) readField(c *cursor, e *Event, f field) error {
	d.raw.has |= 1 << f
	if f == fieldUnknown {
		d.batch.Unknown++
		return c.skip()
	}
	if null, err := c.null(); err != nil || null {
		if null && (f == fieldHashes || f == fieldTokens || f == fieldBlockSize) {
			return errMissing
		}
		return err
	}
	switch f {
	case fieldHashes:
		return d.readHashes(c, e)
	case fieldParent:
		e.HasParent = true
		return d.readHash(c, &e.Parent)
	case fieldTokens:
		return d.readTokens(c, e)
	case fieldAhead:
		return d.readAhead(c, e)
	case fieldBlockSize:
		return readInt(c, &e.BlockSize, 0, maxBlockSizeTokens, errBlockSize)
	case fieldExtra:
		start := c.at()
		err := c.skip()
		d.raw.extra = c.b[start:c.at()]
		return err
	case fieldLoraName:
		return d.readLoraName(c, e)
	default:
		return d.readLabel(c, e, f)
	}
}

// readLabel reads the fields that are plain strings or small numbers.
func (d *Decoder) readLabel(c *cursor, e *Event, f field) error {
	switch f {
	case fieldLoraID:
		v, _, err := c.integer()
		d.raw.loraID, d.raw.numbered = int64(v), true
		return err
	case fieldGroup:
		var group int
		err := readInt(c, &group, 0, 1<<20, errType)
		e.Group = int32(group)
		return err
	case fieldWindow:
		v, _, err := c.integer()
		e.Window = int64(v)
		return err
	}
	b, err := c.text()
	if err != nil {
		return err
	}
	s := d.intern(b)
	switch f {
	case fieldMedium:
		e.Medium = s
	case fieldKind:
		e.Kind = s
	case fieldLocality:
		e.Locality = s
	case fieldOwnership:
		e.Ownership = s
	case fieldSession:
		e.Session = string(b)
	case fieldSalt:
		e.Salt = s
	case fieldOrigin:
		e.Origin = s
	}
	return nil
}

// readLoraName reads the adapter's name, or the metadata map that SGLang's
// arrays had in its place.
func (d *Decoder) readLoraName(c *cursor, e *Event) error {
	t, err := c.peek()
	if err != nil {
		return err
	}
	if !isMap(t) {
		b, err := c.text()
		d.raw.loraName = d.intern(b)
		return err
	}
	n, err := c.mapping()
	if err != nil {
		return err
	}
	for range n {
		key, err := c.text()
		if err != nil {
			return err
		}
		f := fieldNamed(string(key))
		if f != fieldSalt && f != fieldSession {
			f = fieldUnknown
		}
		if err := d.readField(c, e, f); err != nil {
			return err
		}
	}
	return nil
}

// readInt reads an integer within [least, most].
func readInt(c *cursor, dst *int, least, most int, fault error) error {
	v, negative, err := c.integer()
	if err != nil {
		return err
	}
	if negative || v < uint64(least) || v > uint64(most) {
		return fault
	}
	*dst = int(v)
	return nil
}

// readHashes reads the list of block hashes.
func (d *Decoder) readHashes(c *cursor, e *Event) error {
	n, err := c.array()
	if err != nil {
		return err
	}
	if n > maxBlocksPerEvent {
		return errTooBig
	}
	start := len(d.words)
	for range n {
		var h uint64
		if err := d.readHash(c, &h); err != nil {
			return err
		}
		d.words = append(d.words, h)
	}
	e.Hashes = d.words[start:len(d.words):len(d.words)]
	return nil
}

// readHash reads one engine hash as a handle: integers as they are, byte
// strings by their last 8 bytes big-endian. vLLM's integer is the low half of
// the digest, so both of its forms give the same handle.
func (d *Decoder) readHash(c *cursor, dst *uint64) error {
	t, err := c.peek()
	if err != nil {
		return err
	}
	var b []byte
	switch {
	case isBin(t):
		b, err = c.binary()
	case isStr(t) && d.hex:
		if b, err = c.text(); err == nil {
			b, err = hex.DecodeString(string(b))
		}
		if err != nil {
			return errHash
		}
	default:
		*dst, _, err = c.integer()
		return err
	}
	if err != nil {
		return err
	}
	return bytesHandle(b, dst)
}

// bytesHandle is the handle of a hash given as bytes.
func bytesHandle(b []byte, dst *uint64) error {
	if len(b) == 0 || len(b) > maxHashBytes {
		return errHash
	}
	var pad [8]byte
	if len(b) >= 8 {
		copy(pad[:], b[len(b)-8:])
	} else {
		copy(pad[8-len(b):], b)
	}
	*dst = binary.BigEndian.Uint64(pad[:])
	return nil
}

// readTokens reads token ids. SGLang's EAGLE pages hold pairs [t, t+1]: the
// first of each pair is the token.
func (d *Decoder) readTokens(c *cursor, e *Event) error {
	n, err := c.array()
	if err != nil {
		return err
	}
	start := len(d.tokens)
	for n -= d.readPlain(c, n); n > 0; n -= d.readPlain(c, n) {
		if t, _ := c.peek(); isArray(t) {
			err = d.readPair(c)
		} else {
			err = d.readToken(c)
		}
		if err != nil {
			return err
		}
		n--
	}
	e.Tokens = d.tokens[start:len(d.tokens):len(d.tokens)]
	return nil
}

// readAhead reads the tokens behind each block that its hash covers, one list a
// block, and keeps the first of each.
func (d *Decoder) readAhead(c *cursor, e *Event) error {
	n, err := c.array()
	if err != nil {
		return err
	}
	start := len(d.tokens)
	for range n {
		tokens, err := c.array()
		if err != nil {
			return err
		}
		if tokens == 0 {
			return errAhead
		}
		if err := d.readToken(c); err != nil {
			return err
		}
		for range tokens - 1 {
			if err := c.skip(); err != nil {
				return err
			}
		}
	}
	e.Ahead = d.tokens[start:len(d.tokens):len(d.tokens)]
	return nil
}

// readPlain appends at most n token ids, as long as they are of the forms that
// nearly all ids have, and returns how many. Token ids are nine tenths of an
// event's values, so their bytes are read here and not by the library:
// decoding takes a fifth of the time (DECISIONS.md).
func (d *Decoder) readPlain(c *cursor, n int) int {
	at := c.at()
	b := c.b[at:]
	var i, k int
	for ; k < n; k++ {
		switch b := b[i:]; {
		case len(b) > 0 && b[0] < 0x80:
			d.tokens = append(d.tokens, uint32(b[0]))
			i++
			continue
		case len(b) > 2 && b[0] == msgpcode.Uint16:
			d.tokens = append(d.tokens, uint32(binary.BigEndian.Uint16(b[1:])))
			i += 3
			continue
		case len(b) > 4 && b[0] == msgpcode.Uint32:
			d.tokens = append(d.tokens, binary.BigEndian.Uint32(b[1:]))
			i += 5
			continue
		}
		break
	}
	c.seek(at + i)
	return k
}

// readToken appends one token id of any form.
func (d *Decoder) readToken(c *cursor) error {
	v, negative, err := c.integer()
	if err != nil {
		return err
	}
	if negative || v > 1<<32-1 {
		return errToken
	}
	d.tokens = append(d.tokens, uint32(v))
	return nil
}

// readPair appends the first of two token ids.
func (d *Decoder) readPair(c *cursor) error {
	n, err := c.array()
	if err != nil {
		return err
	}
	if n != 2 {
		return errToken
	}
	if err := d.readToken(c); err != nil {
		return err
	}
	return c.skip()
}
