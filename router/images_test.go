package router

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/index"
	"github.com/banyan-llm/banyan/router/kvevents"
	"github.com/banyan-llm/banyan/router/openai"
	"github.com/banyan-llm/banyan/router/proxy"
)

// An image in a prompt has one name in the engine's events and in the keys of
// a rendered prompt, whatever the engine's page; another image has another.
func TestImagesHaveOneNameOnBothSides(t *testing.T) {
	const tokens, at, length = 128, 50, 40 // the image stands for 40 tokens from the 50th on
	for _, page := range []int{16, 32, 64} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/v1/models":
				fmt.Fprint(w, `{"data":[{"id":"m","owned_by":"vllm"}]}`)
			case "/metrics":
				fmt.Fprintf(w, "vllm:cache_config_info{block_size=\"%d\",num_gpu_blocks=\"10\"} 1\n", page)
			case "/v1/chat/completions/render":
				ids := strings.TrimSuffix(strings.Repeat("7,", tokens), ",")
				fmt.Fprintf(w, `{"token_ids":[%s],"features":{"mm_hashes":{"image":["cat"]},"mm_placeholders":{"image":[{"offset":%d,"length":%d}]}}}`, ids, at, length)
			}
		}))
		p := quietPeer(t, func(c *Config) {
			c.Replicas = []fleet.Spec{{URL: srv.URL}}
			c.Limits.Tokenize = 20 * time.Second // a busy machine is no reason to read the text
		})
		ctx := t.Context()
		done := make(chan struct{})
		go func() { defer close(done); p.fleet.Run(ctx) }()
		t.Cleanup(func() { <-done })
		r := p.fleet.List()[0]
		eventually(t, "the page is known", func() bool { return r.Facts().BlockSize == page })
		body, err := openai.Parse(openai.Chat, []byte(`{"model":"m","messages":[{"role":"user","content":"what is this?"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		pr, err := p.path.prompts.readPrompt(ctx, &proxy.Call{Body: body}, "", &scratch{candidateSet: candidateSet{replicas: p.fleet.List()}})
		if err != nil || !pr.keys.Scheme.Exact() || len(pr.keys.Keys) != tokens/p.rules.config().Grid {
			t.Fatalf("page %d: %+v, %v", page, pr, err)
		}
		for image, want := range map[string]int{"dog": at / page * page / p.rules.config().Grid, "cat": tokens / p.rules.config().Grid} {
			tellImage(t, p, r.Stream, page, tokens, at, length, image)
			var view index.View
			p.index.Match(pr.keys.Keys, &view)
			if got := view.Depth(p.index.Ref(r.Stream)).GPU; got != want {
				t.Errorf("page %d: with the image of a %s in the cache %d blocks match, want %d", page, image, got, want)
			}
			p.index.Forget(r.Stream)
		}
		srv.Close()
	}
}

// tellImage applies one store of a prompt with an image, as vLLM tells it:
// every page that the image touches has the pair (hash, offset in the page).
func tellImage(t *testing.T, p *Peer, id crdt.StreamID, page, tokens, at, length int, image string) {
	t.Helper()
	var hashes, ids, extra []any
	for i := range tokens {
		ids = append(ids, 7)
		if i%page != 0 {
			continue
		}
		hashes = append(hashes, uint64(1000+i))
		var keys any
		if at < i+page && at+length > i {
			keys = []any{[]any{image, at - i}}
		}
		extra = append(extra, keys)
	}
	var b bytes.Buffer
	enc := msgpack.NewEncoder(&b)
	enc.UseCompactInts(true)
	if err := enc.Encode([]any{1.5e9, []any{map[string]any{
		"type": "BlockStored", "block_hashes": hashes, "parent_block_hash": nil, "token_ids": ids, "block_size": page,
		"lora_id": nil, "medium": "GPU", "lora_name": nil, "extra_keys": extra,
	}}, 0}); err != nil {
		t.Fatal(err)
	}
	var d kvevents.Decoder
	batch, err := d.Decode(b.Bytes())
	if err != nil || batch.Dropped > 0 {
		t.Fatal(err, batch.FirstFault)
	}
	packer, err := kvevents.NewPacker(kvevents.PackConfig{Engine: kvevents.VLLM, Grid: p.rules.config().Grid, Hasher: p.path.directory.hasher})
	if err != nil {
		t.Fatal(err)
	}
	slot, _, err := packer.Pack(1, batch)
	if err != nil {
		t.Fatal(err)
	}
	p.index.Apply(&crdt.Delta{Stream: id, Epoch: 1, Anchor: 1, Slots: []crdt.Slot{slot}}, 1)
}
