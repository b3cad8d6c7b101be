//go:build e2e && e2e_vllm && linux

package main

import (
	"fmt"
	"os"
	"testing"
)

// poolingCases are prompts of which a vector or a class is made.
var poolingCases = []vllmCase{
	{"classify, text", "/classify", func(w *vllmWorld) object {
		return object{"model": "tiny", "input": w.text(60)}
	}},
	{"classify, a list", "/classify", func(w *vllmWorld) object {
		return object{"model": "tiny", "input": []string{w.text(60)}}
	}},
	{"classify, ids", "/classify", func(w *vllmWorld) object {
		return object{"model": "tiny", "input": w.ids(333)}
	}},
	{"classify, chat", "/classify", func(w *vllmWorld) object {
		return object{"model": "tiny", "messages": []object{say("system", w.text(40)), say("user", "Übrigens: 你好")}}
	}},
	{"classify, truncated", "/classify", func(w *vllmWorld) object {
		return object{"model": "tiny", "input": w.text(60), "truncate_prompt_tokens": 200}
	}},
	{"classify, truncated on the left", "/classify", func(w *vllmWorld) object {
		return object{"model": "tiny", "input": w.text(60), "truncate_prompt_tokens": 200, "truncation_side": "left"}
	}},
	{"classify, no special tokens", "/classify", func(w *vllmWorld) object {
		return object{"model": "tiny", "input": w.text(60), "add_special_tokens": false}
	}},
	{"classify, cache_salt", "/classify", func(w *vllmWorld) object {
		return object{"model": "tiny", "input": w.text(60), "cache_salt": "red"}
	}},
	{"pooling, text", "/pooling", func(w *vllmWorld) object {
		return object{"model": "tiny", "input": w.text(60), "task": "classify"}
	}},
}

// pooling holds that prompts of a pooling model are matched to the token. Their
// answers do not say what was cached: the server's metrics do.
func (w *vllmWorld) pooling(t *testing.T) {
	e := &vllm{name: "classes", port: 21103, folder: w.open.folder, flags: []string{"--runner", "pooling", "--convert", "classify"}}
	e.start(t)
	e.waitHealthy(t)
	e.fold = newFold(t, e.folder, e.replay())
	e.alone = launch(t, append([]string{
		"serve", "--insecure-mesh", "--drain.delay", "100ms",
		"--replicas", fmt.Sprintf("[{name: classes, url: %q, events: %q, replay: %q}]", e.url(), e.events(), e.replay()),
	}, anyPorts...)...)
	only := &vllmWorld{t: t, engines: []*vllm{e}, serial: w.serial}
	for _, c := range poolingCases {
		body := c.body(only)
		sendPrompt(t, e.url()+c.path, body)
		only.settle(t, "after "+c.name)
		before := e.metric(t, "vllm:prefix_cache_hits_total")
		r := sendPrompt(t, e.alone.url()+c.path, body)
		cached := int(e.metric(t, "vllm:prefix_cache_hits_total") - before)
		fmt.Fprintf(os.Stdout, "| %s | classifier | %d/%d |\n", c.name, r.matched(t), cached)
		if r.matched(t) != cached || cached < 5*vllmPage {
			t.Errorf("%s: %d tokens were matched, %d cached; keys %+v", c.name, r.matched(t), cached, e.alone.status().Keys)
		}
	}
}
