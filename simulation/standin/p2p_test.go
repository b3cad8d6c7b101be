package standin

import (
	"net"
	"strconv"
	"testing"
)

// What another engine holds is fetched instead of computed; whoever names an
// engine that does not answer, or nonsense, gets its prompt computed.
func TestPromptsAreFetchedFromOtherEngines(t *testing.T) {
	holder, other := start(t, Config{Name: "a"}), start(t, Config{Name: "b"})
	in := chatBody(words(1, 100), 4)
	var first reply
	post(t, holder, "/v1/chat/completions", in, &first)
	host, text, err := net.SplitHostPort(holder.Addr())
	port, err2 := strconv.Atoi(text)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := free.Addr().(*net.TCPAddr).Port
	free.Close()
	computed := other.State().Stats.Computed
	for name, c := range map[string]struct {
		source any
		cached int
	}{
		"nobody answers": {obj{"kv_request_id": "x", "remote_host": host, "remote_port": closed}, 0},
		"no name":        {obj{"remote_host": host, "remote_port": port}, 0},
		"the holder":     {obj{"kv_request_id": "x", "remote_host": host, "remote_port": port}, 96},
	} {
		if !other.all()[0].clear() {
			t.Fatal("the cache cannot be cleared")
		}
		in["kv_transfer_params"] = obj{"remote_kv_source": c.source}
		var got reply
		post(t, other, "/v1/chat/completions", in, &got)
		st := other.State().Stats
		if got.cached() != c.cached || st.Computed-computed != uint64(104-c.cached) {
			t.Errorf("%s: %d tokens cached, %d computed, want %d and %d", name, got.cached(), st.Computed-computed, c.cached, 104-c.cached)
		}
		if got.Choices[0].Message.Content != first.Choices[0].Message.Content {
			t.Errorf("%s: another answer", name)
		}
		computed = st.Computed
	}
	if n := other.State().Fetched; n != 96 {
		t.Errorf("%d tokens fetched, want 96", n)
	}
}
