package standin

import (
	"encoding/binary"
	"fmt"
)

// Layout is the wire form of single events.
type Layout string

// The layouts.
const (
	LayoutMap   Layout = "map"   // tagged maps: vLLM since mid-2026, SGLang
	LayoutArray Layout = "array" // positional arrays: before
)

// Engine names whose wire forms and endpoints the stand-in speaks.
const (
	VLLM   = "vllm"
	SGLang = "sglang"
	TRTLLM = "trtllm"
)

// eventKind is the name of an event on the wire.
type eventKind string

const (
	blockStored  eventKind = "BlockStored"
	blockRemoved eventKind = "BlockRemoved"
	allCleared   eventKind = "AllBlocksCleared"
)

// event is one KV event with everything the wire form needs.
type event struct {
	kind   eventKind
	hashes []uint64
	parent uint64
	root   bool // no parent
	tokens []uint32
	lora   string
	salt   string
}

// wire writes batches in one engine's form.
type wire struct {
	engine string
	layout Layout
	bytes  bool // block hashes as 32 bytes instead of 64-bit integers
	page   int
	rank   int
}

func (w wire) validate() error {
	if w.layout != LayoutMap && w.layout != LayoutArray {
		return fmt.Errorf("layout: %q, want map or array", w.layout)
	}
	return nil
}

// appendBatch appends [ts, events, rank].
func (w wire) appendBatch(b []byte, ts float64, events []event) []byte {
	b = appendFloat(appendArray(b, 3), ts)
	b = appendArray(b, len(events))
	for i := range events {
		b = w.appendEvent(b, &events[i])
	}
	return appendUint(b, uint64(w.rank))
}

func (w wire) appendEvent(b []byte, e *event) []byte {
	switch e.kind {
	case blockStored:
		if w.engine == SGLang {
			return w.appendStoredSGLang(b, e)
		}
		return w.appendStored(b, e)
	case blockRemoved:
		return w.appendRemoved(b, e)
	}
	return w.begin(b, e, 1)
}

// begin opens an event of n fields, its kind being the first.
func (w wire) begin(b []byte, e *event, n int) []byte {
	if w.layout == LayoutArray {
		return appendString(appendArray(b, n), string(e.kind))
	}
	return appendString(appendString(appendMap(b, n), "type"), string(e.kind))
}

// appendStored writes vLLM's store: 12 fields by position, or by name with
// group and spec kind but without the sliding window, as 0.26 does.
func (w wire) appendStored(b []byte, e *event) []byte {
	n := 11
	if w.layout == LayoutArray {
		n = 12
	}
	b = w.begin(b, e, n)
	b = w.appendHashes(w.name(b, "block_hashes"), e.hashes)
	b = w.appendParent(w.name(b, "parent_block_hash"), e)
	b = appendTokens(w.name(b, "token_ids"), e.tokens)
	b = appendUint(w.name(b, "block_size"), uint64(w.page))
	b = w.name(b, "lora_id")
	if e.lora == "" {
		b = appendNil(b)
	} else {
		b = appendUint(b, 1)
	}
	b = appendString(w.name(b, "medium"), "GPU")
	b = appendOptional(w.name(b, "lora_name"), e.lora)
	b = appendExtra(w.name(b, "extra_keys"), e)
	b = appendUint(w.name(b, "group_idx"), 0)
	b = appendString(w.name(b, "kv_cache_spec_kind"), "full_attention")
	if w.layout == LayoutArray {
		b = appendNil(b) // sliding window
	}
	return b
}

// appendExtra writes vLLM's extra keys: for each block the LoRA name and, in
// the first block of a chain only, the cache salt; nil where there are none.
func appendExtra(b []byte, e *event) []byte {
	b = appendArray(b, len(e.hashes))
	for i := range e.hashes {
		salted := e.salt != "" && e.root && i == 0
		switch {
		case e.lora != "" && salted:
			b = appendString(appendString(appendArray(b, 2), e.lora), e.salt)
		case e.lora != "":
			b = appendString(appendArray(b, 1), e.lora)
		case salted:
			b = appendString(appendArray(b, 1), e.salt)
		default:
			b = appendNil(b)
		}
	}
	return b
}

// appendStoredSGLang writes SGLang's store; salt by name, or in the metadata
// map at index 7 of the array form.
func (w wire) appendStoredSGLang(b []byte, e *event) []byte {
	n := 7
	if e.salt != "" {
		n++
	}
	b = w.begin(b, e, n)
	b = w.appendHashes(w.name(b, "block_hashes"), e.hashes)
	b = w.appendParent(w.name(b, "parent_block_hash"), e)
	b = appendTokens(w.name(b, "token_ids"), e.tokens)
	b = appendUint(w.name(b, "block_size"), uint64(w.page))
	b = appendNil(w.name(b, "lora_id"))
	b = appendString(w.name(b, "medium"), "GPU")
	if e.salt == "" {
		return b
	}
	if w.layout == LayoutArray {
		b = appendMap(b, 1)
	}
	return appendString(appendString(b, "cache_salt"), e.salt)
}

func (w wire) appendRemoved(b []byte, e *event) []byte {
	group := w.engine != SGLang
	n := 3
	if group {
		n++
	}
	b = w.begin(b, e, n)
	b = w.appendHashes(w.name(b, "block_hashes"), e.hashes)
	b = appendString(w.name(b, "medium"), "GPU")
	if group {
		b = appendUint(w.name(b, "group_idx"), 0)
	}
	return b
}

// name writes a field's name where fields have names.
func (w wire) name(b []byte, field string) []byte {
	if w.layout == LayoutArray {
		return b
	}
	return appendString(b, field)
}

func (w wire) appendHashes(b []byte, hashes []uint64) []byte {
	b = appendArray(b, len(hashes))
	for _, h := range hashes {
		b = w.appendHash(b, h)
	}
	return b
}

func (w wire) appendParent(b []byte, e *event) []byte {
	if e.root {
		return appendNil(b)
	}
	return w.appendHash(b, e.parent)
}

// appendHash writes a block hash: vLLM's unsigned integer, SGLang's signed
// one, or 32 bytes that end in the integer.
func (w wire) appendHash(b []byte, h uint64) []byte {
	if w.bytes {
		digest := digest(h)
		return appendBin(b, digest[:])
	}
	if w.engine == SGLang {
		return appendInt(b, int64(h))
	}
	return appendUint(b, h)
}

// digest stretches a hash to 32 bytes; its last 8, big-endian, are the hash.
func digest(h uint64) (d [32]byte) {
	for i := range 3 {
		binary.BigEndian.PutUint64(d[8*i:], mix(h, uint64(i)+1))
	}
	binary.BigEndian.PutUint64(d[24:], h)
	return d
}

func appendTokens(b []byte, tokens []uint32) []byte {
	b = appendArray(b, len(tokens))
	for _, t := range tokens {
		b = appendUint(b, uint64(t))
	}
	return b
}

func appendOptional(b []byte, s string) []byte {
	if s == "" {
		return appendNil(b)
	}
	return appendString(b, s)
}
