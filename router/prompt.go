package router

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"

	"github.com/hashicorp/go-hclog"

	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/metrics"
	"github.com/banyan-llm/banyan/router/openai"
	"github.com/banyan-llm/banyan/router/proxy"
	"github.com/banyan-llm/banyan/router/report"
	"github.com/banyan-llm/banyan/router/token"
)

// asks is how engines are asked for the prompts of an endpoint.
var asks = map[openai.Endpoint]token.Kind{
	openai.Completions: token.Completion, openai.Chat: token.Chat, openai.Messages: token.Messages, openai.Responses: token.Responses,
	openai.Embeddings: token.Embedding, openai.Classify: token.Embedding, openai.Pooling: token.Embedding,
}

// prompts turns prompts into block keys, and knows how well that goes.
type prompts struct {
	tokens  *token.Tokenizer
	fleet   *fleet.Fleet
	ingest  *follower
	metrics *metrics.Metrics
	log     hclog.Logger
	roots   report.RootNames
	stored  storedPrompts
}

// readPrompt turns the body into block keys, once per call.
func (p *prompts) readPrompt(ctx context.Context, call *proxy.Call, lora string, s *scratch) (*prompt, error) {
	if pr, ok := call.Memo.(*prompt); ok {
		return pr, nil
	}
	body := call.Body
	q := token.Query{Model: body.Model, LoRA: lora, Salt: body.CacheSalt}
	kind, asked := asks[body.Endpoint]
	switch {
	case body.Prompt.Kind == openai.TokenPrompt && body.Prompt.Tokens != nil:
		q.Tokens = body.Prompt.Tokens
		if !slices.ContainsFunc(s.replicas, func(r *fleet.Replica) bool { return r.Engine() == "sglang" }) { // which does not know the field
			q.Tokens = body.KeptTokens()
		}
	case body.Previous != "": // the prompt goes on from one that only its holder knows
	case asked && (kind != token.Embedding || p.cachesInput(s.replicas)):
		q.Kind, q.Text, q.Body = kind, body.AppendCanonical, body.PromptBody
		q.Ask = askOf[body.Endpoint]
		q.Engines, q.PageTokens = p.oracles(s, kind), pageOf(s.replicas)
	case body.Endpoint.Salted():
		q.Text = body.AppendCanonical
	}
	pr := &prompt{uncached: body.Uncached(), anyRank: !body.TakesRank(), keys: p.tokens.Keys(ctx, &q), single: body.OnePrompt(), api: call.Endpoint}
	if body.Endpoint == openai.Responses && body.Previous != "" {
		p.goOn(pr, body)
	}
	if lost, ok := call.Lost.(*prompt); ok {
		pr.before = lost.guilt()
	}
	p.roots.Note(pr.keys.Root, body.Model, call.Tenant)
	p.metrics.Keyed(pr.keys.Scheme, pr.keys.Reason)
	call.Memo = pr
	return pr, ctx.Err()
}

// goOn keys a prompt that goes on from a stored response by how that began. If
// this peer does not know, what the client sends anew is priced.
func (p *prompts) goOn(pr *prompt, body *openai.Request) {
	if pr.stored = p.stored.get(body.Previous); pr.stored != nil {
		pr.keys, pr.single = pr.stored.keys, false // whose count is not this prompt's
		pr.keys.Tokens = pr.stored.tokens
	}
	pr.keys.Tokens += token.Estimate(len(body.AppendCanonical(nil)))
}

// cachesInput reports whether it pays to ask for the tokens of embeddings and
// classes. Most models for these read their whole input at once and cache
// nothing, so whoever starts one has no events.
func (p *prompts) cachesInput(replicas []*fleet.Replica) bool {
	return slices.ContainsFunc(replicas, func(r *fleet.Replica) bool {
		return token.Asks(r.Engine(), token.Embedding) && p.ingest.fed(r).how != fedNot
	})
}

// askOf rewrites bodies for the rungs of engines, by endpoint.
var askOf = func() map[openai.Endpoint]func(token.Rung, string, []byte) (token.Question, string) {
	out := map[openai.Endpoint]func(token.Rung, string, []byte) (token.Question, string){}
	for e := range asks {
		out[e] = func(rung token.Rung, engine string, body []byte) (token.Question, string) {
			if rung == token.Render {
				return token.Question{Forms: [][]byte{openai.RenderBody(e, body)}}, ""
			}
			p, why := openai.TokenizeBody(e, engine, body)
			return token.Question{Forms: p.Forms, Converted: p.Converted, Shape: uint16(p.Shape), Twin: p.Twin, Trial: (*token.Trial)(p.Trial), Cut: (*token.Cut)(p.Cut)}, why
		}
	}
	return out
}()

// oracles draws whom to ask for a prompt's tokens: a render server, then a
// replica, so that in a pool of several engines equal prompts have equal keys;
// then another replica, for prompts that the first cannot tell the tokens of:
// servers with and without --enable-scale-out, of several releases. Without it
// the prompts that find that out, one a minute, have text keys.
func (p *prompts) oracles(s *scratch, kind token.Kind) []token.Oracle {
	rests := func(o *token.Oracle) bool { return p.tokens.Resting(o, kind) }
	out := make([]token.Oracle, 0, 3)
	for _, from := range [][]*fleet.Replica{s.renders, s.replicas} {
		if o, ok := oracle(from, kind, rests); ok {
			out = append(out, o)
		}
	}
	if len(out) == 0 {
		return out
	}
	first := out[len(out)-1].URL
	busy := func(o *token.Oracle) bool { return o.URL == first || rests(o) }
	if o, ok := oracle(s.replicas, kind, busy); ok && !busy(&o) {
		out = append(out, o)
	}
	return out
}

// oracle draws one of them that can tell the tokens of such prompts. One that
// rests is drawn only if all do: else its share of the prompts would get text
// keys while others could tell. One whose engine has no endpoint for it is
// drawn last: then its name stands in the reason.
func oracle(from []*fleet.Replica, kind token.Kind, rests func(*token.Oracle) bool) (best token.Oracle, ok bool) {
	if len(from) == 0 {
		return best, false
	}
	rank := -1
	at := rand.IntN(len(from))
	for i := range from {
		r := from[(at+i)%len(from)]
		o := oracleOf(r)
		is := 0
		switch {
		case !r.Up():
			continue
		case o.Engine == "":
			continue // it has not told yet what it is
		case !rests(&o):
			return o, true
		case token.Asks(o.Engine, kind):
			is = 1
		}
		if is > rank {
			best, rank = o, is
		}
	}
	return best, rank >= 0
}

func oracleOf(r *fleet.Replica) token.Oracle {
	o := token.Oracle{URL: r.Spec.URL, Engine: r.Engine(), Life: r.Rise()}
	if r.Spec.Kind == fleet.KindRender && o.Engine == "" {
		o.Engine = "vllm" // nobody else has render servers
	}
	if r.Spec.Credentials != "" {
		o.Header = http.Header{"Authorization": {"Bearer " + r.Spec.Credentials}}
	}
	return o
}

// pageOf is the page by which images in rendered prompts are named, tokens: of
// a pool with several page sizes the first one, for whatever replica is asked,
// so that equal prompts have equal keys. 0 if unknown.
func pageOf(replicas []*fleet.Replica) int {
	for _, r := range replicas {
		if f := r.Facts(); f.Engine == "vllm" && f.BlockSize > 0 {
			return f.BlockSize
		}
	}
	return 0
}
