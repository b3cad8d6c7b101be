//go:build e2e

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// TestADroppedLastPageIsLearned: vLLM with EAGLE or MTP computes the last page
// that it finds cached again, for its drafter. Answers tell, and from then on no
// more is believed than the engine takes; of one that takes all, all is.
func TestADroppedLastPageIsLearned(t *testing.T) {
	for _, c := range []struct {
		args  []string
		drops bool
	}{{[]string{"--drop-last-page"}, true}, {nil, false}} {
		p := meshOf(t, 1, replicaProcess(t, "r0", c.args...))[0]
		ids := strings.TrimSuffix(strings.Repeat("7,", 100), ",") // six pages and a bit
		ask := func(last int) (matched, cached int) {
			body := fmt.Sprintf(`{"model":"m","max_tokens":1,"prompt":[%s,%d]}`, ids, last)
			res, err := http.Post("http://"+p.said["http"]+"/v1/completions", "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			var said struct {
				Usage struct {
					Details struct {
						Cached int `json:"cached_tokens"`
					} `json:"prompt_tokens_details"`
				}
			}
			if err := json.NewDecoder(res.Body).Decode(&said); err != nil || res.StatusCode != http.StatusOK {
				t.Fatalf("%d %v", res.StatusCode, err)
			}
			matched, _ = strconv.Atoi(res.Header.Get("X-Banyan-Matched-Tokens"))
			return matched, said.Usage.Details.Cached
		}
		equal, last := 0, 0
		eventually(t, "what is matched is what is cached", func() bool {
			matched, cached := ask(last)
			last++
			if matched == cached && cached > 0 {
				equal++
			} else {
				equal = 0
			}
			if want := map[bool]int{true: 80, false: 96}[c.drops]; cached != want && last > 1 {
				t.Fatalf("drops %v: %d tokens are cached, want %d", c.drops, cached, want)
			}
			return equal == 12
		})
	}
}
