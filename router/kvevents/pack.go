package kvevents

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
)

// Root is the root key of an event-fed chain. The model's name is not part of
// it: holders tell models apart.
func Root(h *radix.Hasher, lora, salt string) radix.Key { return h.Root("tokens", lora, salt) }

// Space tells apart entries of engines that leave adapter and salt out of
// their hashes; 0 if there is neither.
func Space(h *radix.Hasher, lora, salt string) uint64 {
	if lora == "" && salt == "" {
		return 0
	}
	return uint64(h.Root("space", lora, salt))
}

// PackConfig is what a Packer needs to know.
type PackConfig struct {
	Engine Engine
	Grid   int // tokens per block of the mesh
	Hasher *radix.Hasher
}

// Packer turns decoded batches into slots. A slot is a pure function of the
// batch and the configuration (I1): nothing a peer knows goes into it. Not
// safe for concurrent use.
type Packer struct {
	cfg     PackConfig
	builder crdt.Builder
	hashes  []radix.TokenHash
	words   []uint64
}

// Packed counts what went into a slot and what could not.
type Packed struct {
	Fits    int // stores whose tokens the grid divides
	Stored  int // pages stored
	Removed int // pages removed
	Foreign int // events on media that are not this replica's own
	Misfits int // stores whose block size the grid does not divide
	Misfit  int // the first such block size

	UnknownKinds int    // stores of cache groups whose kind we do not know: left out
	UnknownKind  string // the first such kind
}

// NewPacker checks the configuration.
func NewPacker(cfg PackConfig) (*Packer, error) {
	if cfg.Grid < 1 || cfg.Hasher == nil {
		return nil, errors.New("pack: a grid of at least 1 and a hasher are needed")
	}
	return &Packer{cfg: cfg}, nil
}

// Pack builds the slot numbered seq (1-based). An error means that the batch
// does not fit a slot: it is lost as a whole.
func (p *Packer) Pack(seq uint64, b *Batch) (crdt.Slot, Packed, error) {
	p.builder.Reset()
	var count Packed
	for i := range b.Events {
		e := &b.Events[i]
		switch e.Type {
		case Stored:
			p.store(e, &count)
		case Removed:
			p.remove(e, &count)
		case Cleared:
			p.builder.Clear() // nothing before it is in the slot
			count.Stored, count.Removed = 0, 0
		}
	}
	s, err := p.builder.Slot(seq, b.TS)
	if err != nil {
		return crdt.Slot{}, count, fmt.Errorf("pack slot %d: %w", seq, err)
	}
	return s, count, nil
}

// store appends one store run.
func (p *Packer) store(e *Event, count *Packed) {
	tier, own := tierOf(e.Medium, e.Locality)
	if !own {
		count.Foreign++
		return
	}
	if !knownKind(e.Kind) {
		if count.UnknownKinds == 0 {
			count.UnknownKind = e.Kind
		}
		count.UnknownKinds++
	}
	op := crdt.Op{
		Mode: p.cfg.Engine.Mode(), Tier: tier, Space: p.space(e),
		Group: e.Group, Main: describesPrefix(e.Kind),
	}
	if op.Main && len(e.Tokens) > 0 {
		switch {
		case !p.cfg.Fits(e.BlockSize):
			if count.Misfits == 0 {
				count.Misfit = e.BlockSize
			}
			count.Misfits++
			return
		case e.BlockSize < p.cfg.Grid:
			op.Small, op.PerPage = e.BlockSize, crdt.SmallWords(e.BlockSize)
		default:
			op.PerPage = e.BlockSize / p.cfg.Grid
		}
		count.Fits++
		op.HasParent, op.Parent = e.HasParent, e.Parent
		if !e.HasParent {
			op.Root = uint64(Root(p.cfg.Hasher, e.Lora, e.Salt))
		}
	}
	if !op.Main {
		if op.Root = p.checkpoint(e); op.Root != 0 {
			op.Main = true
		}
	}
	op.Reuse = p.cfg.Engine == VLLM && e.mayReport()
	words := p.words[:0]
	switch {
	case op.Small > 0:
		words = p.hide(words, e)
	case op.PerPage > 0:
		words = p.hash(words, e, op.PerPage)
	}
	p.words = words
	p.builder.Store(op, e.Hashes, words)
	count.Stored += len(e.Hashes)
	if op.Small == 0 && op.PerPage > 0 && e.Ahead != nil {
		p.ahead(e, &op)
	}
}

// ahead appends what stands behind the pages that were stored last.
func (p *Packer) ahead(e *Event, stored *crdt.Op) {
	words := p.words[:0]
	for _, t := range e.Ahead {
		words = append(words, uint64(p.cfg.Hasher.After(t)))
	}
	p.words = words
	p.builder.Store(crdt.Op{Mode: stored.Mode, Tier: stored.Tier, Space: stored.Space, Group: stored.Group, PerPage: 1}, e.Hashes, words)
}

// checkpoint says what the blocks of a group that does not describe the whole
// prefix are needed for (crdt.Checkpoint); 0: of that kind nothing is made.
// Recurrent layers need the state at the end of what is reused; a window needs
// the blocks that the next token looks back to.
func (p *Packer) checkpoint(e *Event) uint64 {
	if p.cfg.Engine != VLLM || e.BlockSize < p.cfg.Grid || e.BlockSize%p.cfg.Grid != 0 {
		return 0
	}
	blocks := 0
	switch e.Kind {
	case "mamba":
		blocks = 1
	case "sliding_window", "sliding_window_mla":
		blocks = int(min(max(e.Window-1, 0)+int64(e.BlockSize)-1, 1<<30)) / e.BlockSize
	}
	if blocks < 1 {
		return 0
	}
	return crdt.Checkpoint(blocks, e.BlockSize/p.cfg.Grid)
}

// hide appends the tokens of a run of pages that are shorter than a grid block,
// two a word and masked: such words travel between peers, as token hashes do,
// and tell nobody the text who has not the mesh's secret. What tells a page
// apart beyond its tokens stands in place of its first token, as an id that no
// engine has: such blocks never match text.
func (p *Packer) hide(words []uint64, e *Event) []uint64 {
	n := e.BlockSize
	for i, h := range e.Hashes {
		from := len(words)
		for j, t := range e.Tokens[i*n : (i+1)*n] {
			if j == 0 && i < len(e.Extra) && len(e.Extra[i]) > 0 {
				t = uint32(p.cfg.Hasher.Extra(radix.TokenHash(t), e.Extra[i])) | 1<<31
			}
			if j%2 == 0 {
				words = append(words, 0)
			}
			words[len(words)-1] |= uint64(t) << (32 * (j % 2))
		}
		for j := range words[from:] {
			words[from+j] ^= p.cfg.Hasher.Mask(h, j)
		}
	}
	return words
}

// hash appends the token hashes of a run. What tells a page apart beyond its
// tokens is folded into the page's first hash: all keys behind it follow.
func (p *Packer) hash(words []uint64, e *Event, perPage int) []uint64 {
	p.hashes = p.cfg.Hasher.AppendHashes(p.hashes[:0], p.cfg.Grid, e.Tokens)
	for _, t := range p.hashes {
		words = append(words, uint64(t))
	}
	for i, extra := range e.Extra {
		if len(extra) > 0 {
			at := i * perPage
			words[at] = uint64(p.cfg.Hasher.Extra(radix.TokenHash(words[at]), extra))
		}
	}
	return words
}

// remove appends one removal, on every tier where the event names none.
func (p *Packer) remove(e *Event, count *Packed) {
	op := crdt.Op{Mode: p.cfg.Engine.Mode(), Space: p.space(e), Group: e.Group, Main: true}
	// SGLang's removals do not say whose entry they mean.
	op.AnySpace = p.cfg.Engine == SGLang && op.Space == 0
	count.Removed += len(e.Hashes)
	if e.Medium == anyMedium {
		for _, op.Tier = range []crdt.Tier{crdt.TierGPU, crdt.TierCPU} {
			p.builder.Remove(op, e.Hashes)
		}
		return
	}
	var own bool
	if op.Tier, own = tierOf(e.Medium, e.Locality); !own {
		count.Removed -= len(e.Hashes)
		count.Foreign++
		return
	}
	p.builder.Remove(op, e.Hashes)
}

// space is the entry space of an event. The blocks of vLLM's cache groups have
// equal hashes where they end at the same token, and are stored and removed each
// by itself; removals tell the group and not its kind.
func (p *Packer) space(e *Event) uint64 {
	switch {
	case p.cfg.Engine == SGLang:
		return Space(p.cfg.Hasher, e.Lora, e.Salt)
	case p.cfg.Engine == VLLM && e.Group != 0:
		return uint64(p.cfg.Hasher.Root("group", strconv.Itoa(int(e.Group))))
	}
	return 0
}

// maxSmallGrid is the largest grid whose blocks may be made of smaller pages.
const maxSmallGrid = 128

// Fits reports whether pages of so many tokens make up grid blocks, or are made
// up of them.
func (c *PackConfig) Fits(blockSize int) bool {
	switch {
	case blockSize < 1 || c.Grid < 1:
		return false
	case blockSize < c.Grid:
		return c.Grid%blockSize == 0 && blockSize <= crdt.MaxSmall && c.Grid <= maxSmallGrid
	}
	return blockSize%c.Grid == 0 && blockSize/c.Grid <= crdt.MaxPerPage
}

// Cure says in plain words what is wrong with a block size and what to do.
func (c *PackConfig) Cure(blockSize int) string {
	if blockSize%c.Grid == 0 {
		return fmt.Sprintf("its block size %d is more than %d times the mesh's grid of %d; start the engine with shorter blocks, or all peers with a larger grid",
			blockSize, crdt.MaxPerPage, c.Grid)
	}
	return fmt.Sprintf("its block size %d does not fit the mesh's grid of %d; start the engine with %s %d, or a multiple of it up to %d",
		blockSize, c.Grid, c.Engine.pageFlag(), c.Grid, crdt.MaxPerPage*c.Grid)
}
