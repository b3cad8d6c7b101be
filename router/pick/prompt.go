package pick

import (
	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/index"
	"github.com/banyan-llm/banyan/router/load"
	"github.com/banyan-llm/banyan/router/policy"
)

// headTokens is how far into a prompt the key lies by which prompts without a
// session are told apart: most share at least a greeting.
const headTokens = 256

// Prompt is a prompt as block keys.
type Prompt struct {
	Chain  index.Chain
	Tokens int // its length
	Grid   int // tokens a block

	// Uncached says that the engine reads no cache for this request: all of the
	// prompt is computed.
	Uncached bool
}

// Request is the prompt as policies see it, of a session (0: none).
func (p *Prompt) Request(session uint64, req *policy.Request) {
	*req = policy.Request{Tokens: p.Tokens, Session: session}
	if n := len(p.Chain.Keys); n > 0 {
		req.Key, req.Prefix = uint64(p.Chain.Keys[n-1]), uint64(p.Chain.Keys[min(n, max(1, p.Blocks(headTokens)))-1])
	}
}

// Cost is what the decision costs its replica while the request is in flight.
func (p *Prompt) Cost(id crdt.StreamID, d *policy.Decision) load.Cost {
	return load.Cost{
		Replica: id, Prefill: d.Prefill, Tokens: int64(max(1, p.Tokens-d.Matched-d.Fetched)), Blocks: int64(len(p.Chain.Keys)),
	}
}

// clip keeps what is believed to be held within what an engine with pages of so
// many tokens can take from its cache: whole pages, and never the last token,
// for which it must compute the next one's probabilities (vLLM and SGLang look
// up at most tokens - 1). An engine that drops the last page takes one less. Keys
// of text are no measure of that.
func (p *Prompt) clip(c *policy.Candidate, page int, drops bool) {
	most := max(p.Tokens-1, 0) / page * page
	switch {
	case p.Uncached:
		most = 0
	case !p.Chain.Exact:
		return
	}
	c.GPU, c.CPU, c.Disk = min(c.GPU, most), min(c.CPU, most), min(c.Disk, most)
	c.Predicted = min(c.Predicted/page*page, most)
	if drops {
		c.GPU, c.CPU, c.Disk, c.Predicted = max(c.GPU-page, 0), max(c.CPU-page, 0), max(c.Disk-page, 0), max(c.Predicted-page, 0)
	}
	c.Suspect, c.Pool = min(c.Suspect, c.GPU), min(c.Pool, most)
}

// Blocks is how many whole blocks so many tokens are.
func (p *Prompt) Blocks(tokens int) int { return tokens / max(1, p.Grid) }
