package standin

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/router/kvevents"
	"github.com/banyan-llm/banyan/router/kvevents/zmtp"
)

// askRank sends one completion to a rank, "" for none.
func askRank(t *testing.T, s *Server, rank, prompt string) int {
	t.Helper()
	body, _ := json.Marshal(obj{"prompt": prompt, "max_tokens": 1})
	req, _ := http.NewRequest(http.MethodPost, s.URL()+"/v1/completions", strings.NewReader(string(body)))
	if rank != "" {
		req.Header.Set("X-data-parallel-rank", rank)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, res, nil)
}

// vLLM's Responses never reach the rank that they name unless it would have
// been theirs anyway.
func TestVLLMPicksTheRankOfResponses(t *testing.T) {
	s := start(t, Config{Ranks: 2})
	for range 4 {
		body := strings.NewReader(`{"input":"one","max_output_tokens":1}`)
		req, _ := http.NewRequest(http.MethodPost, s.URL()+"/v1/responses", body)
		req.Header.Set("X-Data-Parallel-Rank", "1")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if code := decode(t, res, nil); code != 200 {
			t.Fatalf("status %d", code)
		}
	}
	if ranks := s.State().Ranks; ranks[0].Finished == 0 {
		t.Errorf("every request went to the rank it named: %+v", ranks)
	}
}

func TestRanksAreServersOfTheirOwnBehindOneURL(t *testing.T) {
	for _, engine := range []string{VLLM, SGLang} {
		s := start(t, Config{Engine: engine, Ranks: 3, Events: "tcp://127.0.0.1:0", Replay: "tcp://127.0.0.1:0"})
		text := words(1, 64)
		for _, rank := range []string{"1", "1", "2", "none", ""} {
			if code := askRank(t, s, rank, text); code != 200 {
				t.Fatalf("%s rank %q: %d", engine, rank, code)
			}
		}
		if code := askRank(t, s, "3", text); code != 400 {
			t.Errorf("%s rank 3 of 3 answers %d", engine, code)
		}
		var metrics string
		get(t, s, "/metrics", &metrics)
		label := map[string]string{VLLM: `engine="2"`, SGLang: `dp_rank="2"`}[engine]
		if !strings.Contains(metrics, label) {
			t.Errorf("%s: no series of rank 2", engine)
		}
		for rank, st := range s.State().Ranks {
			if want := map[int]uint64{1: 2, 2: 1}[rank]; st.Finished < want {
				t.Errorf("%s: rank %d finished %d", engine, rank, st.Finished)
			}
		}
		endpoint, err := offsetPort(s.ReplayAddr(), 2)
		if err != nil {
			t.Fatal(err)
		}
		d, err := zmtp.DialDealer(t.Context(), endpoint, zmtp.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Send(kvevents.ReplayRequest(0)...); err != nil {
			t.Fatal(err)
		}
		frames, _, err := d.Recv(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		f, err := kvevents.ParseReplay(frames)
		if err != nil {
			t.Fatal(err)
		}
		var dec kvevents.Decoder
		if b, err := dec.Decode(f.Payload); err != nil || b.Rank != 2 {
			t.Errorf("%s: the third replay socket tells %+v, %v", engine, b, err)
		}
		d.Close()
		if err := s.Restart(0); err != nil {
			t.Error(err)
		}
	}
	if _, err := New(Config{Ranks: 65}); err == nil || !strings.Contains(err.Error(), "ranks") {
		t.Errorf("65 ranks: %v", err)
	}
}
