package kvevents

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

// TRTEvent is one element of TensorRT-LLM's polled list. Its ids count per
// engine and rank, so each is a slot of its own: a gap in ids is a gap in
// slots.
type TRTEvent struct {
	ID     uint64
	Rank   int // attention data-parallel rank; 0 if not told
	Window int64
	Batch  Batch // no timestamp: the engine gives none
}

// The JSON of POST /kv_cache_events.
type (
	trtElement struct {
		ID     *uint64         `json:"event_id"`
		Data   json.RawMessage `json:"data"`
		Window int64           `json:"window_size"`
		Rank   int             `json:"attention_dp_rank"`
	}
	trtData struct {
		Type   string            `json:"type"`
		Parent json.RawMessage   `json:"parent_hash"`
		Blocks []trtBlock        `json:"blocks"`
		Hashes []json.RawMessage `json:"block_hashes"`
		Hash   json.RawMessage   `json:"block_hash"`
		Level  json.RawMessage   `json:"cache_level"`
	}
	trtBlock struct {
		Hash   json.RawMessage   `json:"block_hash"`
		Tokens []trtToken        `json:"tokens"`
		Level  int               `json:"cache_level"`
		MMKeys []json.RawMessage `json:"mm_keys"`
		Salt   *string           `json:"cache_salt"`
	}
	trtToken struct {
		ID    uint32 `json:"token_id"`
		Extra uint64 `json:"token_extra_id"`
	}
	trtDiff struct {
		New *int `json:"new_value"`
		Old *int `json:"old_value"`
	}
)

// Bounds of the polled list: elements of one answer, and the ranks that an
// engine may name over its life, each of which is a stream.
const (
	maxTRTEvents = 1 << 16
	maxTRTRanks  = 1024
)

// DecodeTRT reads an answer of POST /kv_cache_events. An element that makes no
// sense keeps its id and has an empty batch with Dropped 1; one without an id
// or a possible rank is only counted. An error means that the answer is no JSON array of objects.
func DecodeTRT(body []byte) (events []TRTEvent, nameless int, err error) {
	var elements []trtElement
	if err := json.Unmarshal(body, &elements); err != nil {
		return nil, 0, errors.New("decode TensorRT-LLM events: no list of them") // encoding/json quotes what it does not expect
	}
	if len(elements) > maxTRTEvents {
		return nil, 0, fmt.Errorf("decode TensorRT-LLM events: %d in one answer", len(elements))
	}
	for i := range elements {
		el := &elements[i]
		if el.ID == nil || *el.ID > maxSeq || el.Rank < 0 || el.Rank >= maxTRTRanks {
			nameless++
			continue
		}
		ev := TRTEvent{ID: *el.ID, Rank: el.Rank, Window: el.Window}
		ev.Batch = Batch{Rank: el.Rank, Layout: LayoutJSON}
		if ev.Batch.Events, err = trtEvents(el.Data); err != nil {
			ev.Batch.Events, ev.Batch.Dropped, ev.Batch.FirstFault = nil, 1, err
		}
		events = append(events, ev)
	}
	return events, nameless, nil
}

// trtEvents translates one element's data.
func trtEvents(raw json.RawMessage) ([]Event, error) {
	var data trtData
	if err := json.Unmarshal(raw, &data); err != nil {
		return nil, err
	}
	switch data.Type {
	case "created":
		// The engine's first word: nothing is cached yet.
		return []Event{{Type: Cleared}}, nil
	case "stored":
		return data.stored()
	case "removed":
		e := Event{Type: Removed, Medium: anyMedium}
		for _, raw := range data.Hashes {
			var h uint64
			if err := trtHash(raw, &h); err != nil {
				return nil, err
			}
			e.Hashes = append(e.Hashes, h)
		}
		return []Event{e}, nil
	case "updated":
		return data.updated()
	}
	return nil, errTag
}

// anyMedium marks a removal from every tier: TensorRT-LLM's removed event
// names no level, a block lies on one only.
const anyMedium = "*"

// stored makes one event per run of blocks on one level with one salt.
func (data *trtData) stored() ([]Event, error) {
	parent, hasParent := uint64(0), false
	if len(data.Parent) > 0 && !bytes.Equal(data.Parent, []byte("null")) {
		hasParent = true
		if err := trtHash(data.Parent, &parent); err != nil {
			return nil, err
		}
	}
	var out []Event
	var seen handleSet
	seen.reset(len(data.Blocks))
	for i := range data.Blocks {
		b := &data.Blocks[i]
		var h uint64
		if err := trtHash(b.Hash, &h); err != nil {
			return nil, err
		}
		if hasParent && h == parent {
			return nil, errOwnParent
		}
		if !seen.add(h) {
			return nil, errDuplicate
		}
		medium, err := trtMedium(b.Level)
		if err != nil {
			return nil, err
		}
		salt := ""
		if b.Salt != nil {
			salt = *b.Salt
		}
		n := len(out)
		if n == 0 || out[n-1].Medium != medium || out[n-1].Salt != salt || out[n-1].BlockSize != len(b.Tokens) {
			out = append(out, Event{
				Type: Stored, HasParent: hasParent, Parent: parent, Medium: medium,
				Salt: salt, BlockSize: len(b.Tokens),
			})
			n++
		}
		out[n-1].add(h, b)
		parent, hasParent = h, true
	}
	return out, nil
}

// add appends one block to a run.
func (e *Event) add(h uint64, b *trtBlock) {
	e.Hashes = append(e.Hashes, h)
	var extra []byte
	for _, t := range b.Tokens {
		e.Tokens = append(e.Tokens, t.ID)
		if t.Extra != 0 {
			extra = fmt.Appendf(extra, "%d,", t.Extra)
		}
	}
	for _, k := range b.MMKeys {
		extra = appendSized(extra, 's', k)
	}
	if len(extra) > 0 && e.Extra == nil {
		e.Extra = make([][]byte, len(e.Hashes)-1, len(e.Hashes))
	}
	if e.Extra != nil {
		e.Extra = append(e.Extra, extra)
	}
}

// updated translates a change of level into a store on the new and a removal
// from the old one. A change of priority alone says nothing.
func (data *trtData) updated() ([]Event, error) {
	if len(data.Level) == 0 || bytes.Equal(data.Level, []byte("null")) {
		return nil, nil
	}
	var diff trtDiff
	if err := json.Unmarshal(data.Level, &diff); err != nil {
		return nil, err
	}
	var h uint64
	if err := trtHash(data.Hash, &h); err != nil {
		return nil, err
	}
	if diff.New == nil || diff.Old == nil {
		return nil, errMissing
	}
	to, err := trtMedium(*diff.New)
	if err != nil {
		return nil, err
	}
	from, err := trtMedium(*diff.Old)
	if err != nil || from == to {
		return nil, err
	}
	return []Event{
		{Type: Stored, Hashes: []uint64{h}, Medium: to},
		{Type: Removed, Hashes: []uint64{h}, Medium: from},
	}, nil
}

// trtMedium names a cache level as the other engines do.
func trtMedium(level int) (string, error) {
	switch level {
	case 0:
		return "GPU", nil
	case 1:
		return "CPU", nil
	}
	return "", errors.New("cache level is neither 0 nor 1")
}

// trtHash reads a hash: an integer, signed or not, or a hex string.
func trtHash(raw json.RawMessage, dst *uint64) error {
	var signed int64
	var text string
	switch {
	case len(raw) == 0:
		return errMissing
	case json.Unmarshal(raw, dst) == nil && raw[0] != 'n':
		return nil
	case json.Unmarshal(raw, &signed) == nil && raw[0] != 'n':
		*dst = uint64(signed)
		return nil
	case json.Unmarshal(raw, &text) == nil && raw[0] == '"':
		b, err := hex.DecodeString(text)
		if err != nil {
			return errHash
		}
		return bytesHandle(b, dst)
	}
	return errHash
}
