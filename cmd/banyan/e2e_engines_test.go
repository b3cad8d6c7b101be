//go:build e2e

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"testing"

	"github.com/banyan-llm/banyan/router/console"
	"github.com/banyan-llm/banyan/simulation/standin"
)

// Each data-parallel rank behind a URL is a replica: found out, followed on
// its own port, read apart, and named in the requests it gets.
func TestRanksBehindAURLAreRoutedApart(t *testing.T) {
	v := replicaProcess(t, "v", "--ranks", "2")
	s := replicaProcess(t, "s", "--engine", "sglang", "--block-size", "32", "--ranks", "2")
	peers := meshFrom(t, 2, fmt.Sprintf("mesh: {insecure: true}\ndrain: {delay: 300ms, timeout: 5s}\nreplicas:\n"+
		"- {name: v, url: 'http://%s', events: '%s', replay: '%s'}\n- {name: s, url: 'http://%s'}\n",
		v.said["http"], v.said["events"], v.said["replay"], s.said["http"]))
	names := []string{"s", "s/1", "v", "v/1"}
	for _, name := range names {
		everywhere(t, peers, name, "is a replica with load and events of its own", func(r console.Replica) bool {
			return r.State == "up" && r.Running != nil && r.Stream.State == "ok" && len(r.Models) > 0
		})
	}
	for i, home := range names {
		t.Run(home, func(t *testing.T) { staysAt(t, peers, names, home, 10+i) })
	}
	digests := map[string]string{}
	for _, name := range names {
		everywhere(t, peers, name, "has facts", func(r console.Replica) bool { return r.Stream.Facts > 0 })
		d := peers[0].named(name).Stream.Digest
		if digests[d] != "" {
			t.Errorf("%s and %s are one stream", name, digests[d])
		}
		digests[d] = name
	}
	for _, r := range []*process{v, s} {
		for rank, st := range stateOf(t, r).Ranks {
			if st.Finished < 5 || st.Hits == 0 {
				t.Errorf("rank %d of %s finished %d requests, %d tokens cached", rank, r.said["http"], st.Finished, st.Hits)
			}
		}
	}
	eventually(t, "all digests are equal", func() bool { return converged(peers) })
	for _, p := range peers {
		p.stop()
	}
}

// stateOf reads a stand-in's counters.
func stateOf(t *testing.T, r *process) (st standin.State) {
	t.Helper()
	res, err := http.Get("http://" + r.said["http"] + "/standin/state")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&st); err != nil {
		t.Fatal(err)
	}
	return st
}

// heldBlocks counts a stand-in's blocks, those of two namespaces apart: SGLang
// gives them one hash if their tokens are equal, while vLLM may hold copies of
// one block.
func heldBlocks(t *testing.T, r *process) (sum uint64) {
	t.Helper()
	res, err := http.Get("http://" + r.said["http"] + "/standin/cache")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var copies map[uint64]uint64
	if err := json.NewDecoder(res.Body).Decode(&copies); err != nil {
		t.Fatal(err)
	}
	if stateOf(t, r).Engine != "sglang" {
		return uint64(len(copies))
	}
	for _, n := range copies {
		sum += n
	}
	return sum
}

// namespace is whose cache entries a request may share.
type namespace struct{ name, model, salt string }

// complete sends one prompt of token ids and returns how much of it the router
// believed cached and how much the engine found.
func (n namespace) complete(t *testing.T, base string, tokens []int) (matched, cached int) {
	t.Helper()
	in := map[string]any{"model": n.model, "prompt": tokens, "max_tokens": 1}
	if n.salt != "" {
		in["cache_salt"] = n.salt
	}
	body, _ := json.Marshal(in)
	res, err := http.Post(base+"/v1/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, _ := io.ReadAll(res.Body)
	var out struct {
		Usage struct {
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	if err := json.Unmarshal(raw, &out); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: status %d: %s", n.name, res.StatusCode, raw)
	}
	matched, _ = strconv.Atoi(res.Header.Get("X-Banyan-Matched-Tokens"))
	return matched, out.Usage.Details.Cached
}

// Equal tokens of two salts, or of an adapter and its base, are never the same
// cache entry. The engine is primed behind the router's back, so that what the
// router knows, it knows from events.
func TestEqualTokensOfOtherNamespacesNeverMatch(t *testing.T) {
	none, red, blue, lora := namespace{"none", "m", ""}, namespace{"red", "m", "red"}, namespace{"blue", "m", "blue"}, namespace{"lora", "x", ""}
	both := namespace{"lora and salt", "x", "red"}
	for _, tc := range []struct {
		name  string
		args  []string
		among []namespace
	}{
		{"vllm", nil, []namespace{none, red, blue, lora, both}},
		{"vllm arrays", []string{"--layout", "array", "--hash-bytes"}, []namespace{none, red, blue, lora, both}},
		{"sglang", []string{"--engine", "sglang"}, []namespace{none, red, blue}},
		{"sglang arrays", []string{"--engine", "sglang", "--layout", "array", "--replay-frames", "4"}, []namespace{none, red, blue}},
		{"trtllm", []string{"--engine", "trtllm"}, []namespace{none, red, blue}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := replicaProcess(t, "r", append([]string{"--loras", "x"}, tc.args...)...)
			events := fmt.Sprintf(", events: '%s', replay: '%s'", r.said["events"], r.said["replay"])
			if tc.name == "trtllm" {
				events = ", events: poll"
			}
			peers := meshFrom(t, 1, fmt.Sprintf("mesh: {insecure: true}\ndrain: {delay: 100ms, timeout: 5s}\nreplicas:\n- {name: r, url: 'http://%s'%s}\n", r.said["http"], events))
			everywhere(t, peers, "r", "is followed", func(r console.Replica) bool { return r.Stream.State == "ok" && len(r.Models) == 2 })
			direct, routed := "http://"+r.said["http"], "http://"+peers[0].said["http"]
			for i, own := range tc.among {
				tokens := make([]int, 16*8)
				for j := range tokens {
					tokens[j] = 1000*(i+1) + j
				}
				own.complete(t, direct, tokens)
				everywhere(t, peers, "r", "what the engine holds is known", func(known console.Replica) bool {
					return known.Stream.Facts == heldBlocks(t, r)
				})
				for _, other := range tc.among {
					if matched, cached := other.complete(t, routed, tokens); other != own && (matched != 0 || cached != 0) {
						t.Errorf("%s: %d tokens primed by %s are believed cached, %d are", other.name, matched, own.name, cached)
					} else if other == own && (matched < len(tokens)-16 || cached == 0) { // the last block is always computed
						t.Errorf("%s: %d of its own tokens are believed cached, %d are", own.name, matched, cached)
					}
				}
			}
			peers[0].stop()
		})
	}
}
