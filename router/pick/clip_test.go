package pick

import (
	"testing"

	"github.com/banyan-llm/banyan/router/policy"
)

// TestNoMoreIsPromisedThanAnEngineReuses holds what is believed cached against
// what vLLM and SGLang report: whole pages below the last token.
func TestNoMoreIsPromisedThanAnEngineReuses(t *testing.T) {
	for _, c := range []struct {
		tokens, page, held, want int
	}{
		{64, 16, 64, 48}, // the last token is always computed, and its page with it
		{65, 16, 64, 64},
		{64, 64, 64, 0},
		{128, 64, 128, 64},
		{200, 64, 192, 192},
		{64, 1, 64, 63},
		{63, 1, 48, 48},
		{1, 16, 0, 0},
		{0, 16, 0, 0},
		{100, 128, 96, 0},
		{300, 128, 160, 160}, // facts are whole pages; what is predicted may not be
	} {
		p := Prompt{Tokens: c.tokens, Grid: 16}
		p.Chain.Exact = true
		got := policy.Candidate{GPU: c.held, CPU: c.held, Disk: c.held, Predicted: c.held, Suspect: c.held, Pool: c.held}
		p.clip(&got, c.page, false)
		predicted := min(c.held/c.page*c.page, c.want)
		if want := (policy.Candidate{GPU: c.want, CPU: c.want, Disk: c.want, Predicted: predicted, Suspect: c.want, Pool: c.want}); got != want {
			t.Errorf("%d tokens, pages of %d, %d held: %+v, want %+v", c.tokens, c.page, c.held, got, want)
		}
	}
	dropping := Prompt{Tokens: 100, Grid: 16}
	dropping.Chain.Exact = true
	got := policy.Candidate{GPU: 96, CPU: 96, Disk: 112, Predicted: 16, Suspect: 96}
	dropping.clip(&got, 16, true)
	if want := (policy.Candidate{GPU: 80, CPU: 80, Disk: 80, Predicted: 0, Suspect: 80}); got != want {
		t.Errorf("an engine that drops the last page: %+v, want %+v", got, want)
	}
	text := Prompt{Tokens: 10, Grid: 128}
	kept := policy.Candidate{GPU: 256, Predicted: 256}
	if text.clip(&kept, 16, false); kept.GPU != 256 || kept.Predicted != 256 {
		t.Errorf("keys of text are clipped by a count of tokens: %+v", kept)
	}
	text.Uncached = true
	if text.clip(&kept, 16, false); kept != (policy.Candidate{}) {
		t.Errorf("a request that reads no cache is promised %+v", kept)
	}
}
