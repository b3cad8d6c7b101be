package workload

import "testing"

func TestFitShortensWhatIsTooLong(t *testing.T) {
	w := &Workload{Requests: []Request{
		{Prompt: []Segment{{ID: 1, Tokens: 100}, {ID: 2, Tokens: 100}}, Tokens: 200, Output: 50},
		{Prompt: []Segment{{ID: 1, Tokens: 10}}, Tokens: 10, Output: 50},
		{PromptIDs: []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, Tokens: 10, Output: 1000},
	}}
	own := w.Requests
	if n := w.Fit(200, 2); n != 2 {
		t.Errorf("%d were shortened, want 2", n)
	}
	r := w.Requests[0]
	if r.Tokens != 75 || r.Output != 50 || len(r.Prompt) != 1 || r.Prompt[0].Tokens != 75 {
		t.Errorf("%+v", r)
	}
	if r := w.Requests[2]; r.Output != 50 || len(r.PromptIDs) != 10 {
		t.Errorf("%+v", r)
	}
	if own[0].Tokens != 200 || len(own[0].Prompt) != 2 {
		t.Errorf("the caller's requests were changed: %+v", own[0])
	}
	if n := w.Fit(200, 2); n != 0 {
		t.Errorf("%d were shortened again", n)
	}
}
