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

// batch is the message [ts, events, rank].
func (w wire) batch(ts float64, events []event) []byte {
	p := newPacker()
	p.array(3)
	p.float(ts)
	p.array(len(events))
	for i := range events {
		w.event(p, &events[i])
	}
	p.uint(uint64(w.rank))
	return p.bytes()
}

func (w wire) event(p *packer, e *event) {
	switch {
	case e.kind == blockStored && w.engine == SGLang:
		w.storedSGLang(p, e)
	case e.kind == blockStored:
		w.stored(p, e)
	case e.kind == blockRemoved:
		w.removed(p, e)
	default:
		w.begin(p, e, 1)
	}
}

// begin opens an event of n fields, its kind being the first.
func (w wire) begin(p *packer, e *event, n int) {
	if w.layout == LayoutArray {
		p.array(n)
	} else {
		p.mapping(n)
		p.str("type")
	}
	p.str(string(e.kind))
}

// stored writes vLLM's store: 12 fields by position, or by name with group and
// spec kind but without the sliding window, as 0.26 does.
func (w wire) stored(p *packer, e *event) {
	n := 11
	if w.layout == LayoutArray {
		n = 12
	}
	w.begin(p, e, n)
	w.chain(p, e)
	w.name(p, "lora_id")
	if e.lora == "" {
		p.null()
	} else {
		p.uint(1)
	}
	w.name(p, "medium")
	p.str("GPU")
	w.name(p, "lora_name")
	p.optional(e.lora)
	w.name(p, "extra_keys")
	extra(p, e)
	w.name(p, "group_idx")
	p.uint(0)
	w.name(p, "kv_cache_spec_kind")
	p.str("full_attention")
	if w.layout == LayoutArray {
		p.null() // sliding window
	}
}

// chain writes the fields that both engines begin a store with.
func (w wire) chain(p *packer, e *event) {
	w.hashes(p, e.hashes)
	w.name(p, "parent_block_hash")
	if e.root {
		p.null()
	} else {
		w.hash(p, e.parent)
	}
	w.name(p, "token_ids")
	p.array(len(e.tokens))
	for _, t := range e.tokens {
		p.uint(uint64(t))
	}
	w.name(p, "block_size")
	p.uint(uint64(w.page))
}

// extra writes vLLM's extra keys: for each block the LoRA name and, in the
// first block of a chain only, the cache salt; nil where there are none.
func extra(p *packer, e *event) {
	p.array(len(e.hashes))
	for i := range e.hashes {
		var keys []string
		if e.lora != "" {
			keys = append(keys, e.lora)
		}
		if e.salt != "" && e.root && i == 0 {
			keys = append(keys, e.salt)
		}
		if len(keys) == 0 {
			p.null()
			continue
		}
		p.array(len(keys))
		for _, k := range keys {
			p.str(k)
		}
	}
}

// storedSGLang writes SGLang's store; salt by name, or in the metadata map at
// index 7 of the array form.
func (w wire) storedSGLang(p *packer, e *event) {
	n := 7
	if e.salt != "" {
		n++
	}
	w.begin(p, e, n)
	w.chain(p, e)
	w.name(p, "lora_id")
	p.null()
	w.name(p, "medium")
	p.str("GPU")
	if e.salt == "" {
		return
	}
	if w.layout == LayoutArray {
		p.mapping(1)
	}
	p.str("cache_salt")
	p.str(e.salt)
}

func (w wire) removed(p *packer, e *event) {
	group := w.engine != SGLang
	n := 3
	if group {
		n++
	}
	w.begin(p, e, n)
	w.hashes(p, e.hashes)
	w.name(p, "medium")
	p.str("GPU")
	if group {
		w.name(p, "group_idx")
		p.uint(0)
	}
}

// name writes a field's name where fields have names.
func (w wire) name(p *packer, field string) {
	if w.layout != LayoutArray {
		p.str(field)
	}
}

func (w wire) hashes(p *packer, hashes []uint64) {
	w.name(p, "block_hashes")
	p.array(len(hashes))
	for _, h := range hashes {
		w.hash(p, h)
	}
}

// hash writes a block hash: vLLM's unsigned integer, SGLang's signed one, or
// 32 bytes that end in the integer.
func (w wire) hash(p *packer, h uint64) {
	switch {
	case w.bytes:
		d := digest(h)
		p.bin(d[:])
	case w.engine == SGLang:
		p.int(int64(h))
	default:
		p.uint(h)
	}
}

// digest stretches a hash to 32 bytes; its last 8, big-endian, are the hash.
func digest(h uint64) (d [32]byte) {
	for i := range 3 {
		binary.BigEndian.PutUint64(d[8*i:], mix(h, uint64(i)+1))
	}
	binary.BigEndian.PutUint64(d[24:], h)
	return d
}
