//go:build e2e

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/router/console"
)

// TestNewConversationsWaitWhileOthersFillTheCaches: two conversations use more
// of a replica's cache than admission.working_set says. A third one waits, at
// whatever peer, or is told when to come again; those under way go on. As soon
// as another replica may be used, it is let in.
func TestNewConversationsWaitWhileOthersFillTheCaches(t *testing.T) {
	small, large := replicaProcess(t, "r0", "--blocks", "512"), replicaProcess(t, "r1", "--blocks", "4096")
	peers := knowing(t, meshWith(t, 2, "admission: {working_set: 0.5}\nlimits: {queue_timeout: 10m}\n", small, large))
	peers[0].intent("r1", "drain")
	everywhere(t, peers, "r1", "it is drained", func(r console.Replica) bool { return r.State == "draining" })

	var talks [2][]message
	for i := range talks {
		talks[i] = []message{{"system", strings.Repeat(fmt.Sprintf("Conversation %d has much to say. ", i), 450)}, {"user", "Hello."}}
	}
	turn := 0
	eventually(t, "all peers know that more is in use than may be", func() bool {
		for i := range talks {
			if replica, _, _ := peers[(turn+i)%2].say(talks[i]); replica != "r0" {
				t.Errorf("answered by %s, which is drained", replica)
			}
		}
		turn++
		for _, p := range peers {
			st := p.status()
			if st == nil || st.Queue == nil || st.Queue.WorkingSet == nil {
				return false
			}
			w := st.Queue.WorkingSet
			if w.CacheTokens != 8192 || float64(w.UsedTokens) <= w.Share*float64(w.CacheTokens) || w.Again < .5 {
				return false
			}
		}
		return true
	})
	third := []message{{"system", strings.Repeat("A third one wants to begin. ", 350)}, {"user", "May I?"}}
	for _, p := range peers {
		if status, text, header := p.tryFor(third, ".2"); status != http.StatusTooManyRequests || !strings.Contains(text, "new conversation") || header.Get("Retry-After") == "" {
			t.Errorf("a third conversation got %d %s", status, text)
		}
	}
	if used := peers[0].counted(`banyan_working_set_tokens{replica="r0"}`); used < 4096 {
		t.Errorf("%d tokens are told to be in use", used)
	}

	answered := make(chan struct{})
	go func() {
		defer close(answered)
		status, text, _ := peers[0].tryFor(third, "")
		if status != http.StatusOK {
			t.Errorf("the conversation that waited got %d %s", status, text)
		}
	}()
	eventually(t, "it waits", func() bool { return peers[0].counted("banyan_queue_depth") == 1 })
	for i := range talks {
		talks[i] = append(talks[i], message{"assistant", "Yes."}, message{"user", "Go on."})
		if replica, _, cached := peers[i].say(talks[i]); replica != "r0" || cached < 1000 {
			t.Errorf("a turn was answered by %s with %d tokens cached", replica, cached)
		}
	}
	if n := peers[0].counted("banyan_queue_depth"); n != 1 {
		t.Errorf("%d wait, want the third conversation", n)
	}
	peers[1].intent("r1", "undrain")
	<-answered
}

// tryFor sends a chat turn that waits so many seconds to be let in; "": as long
// as the router lets it.
func (p *process) tryFor(messages []message, seconds string) (status int, text string, header http.Header) {
	body, _ := json.Marshal(map[string]any{"model": "m", "messages": messages, "max_tokens": 20})
	req, err := http.NewRequest(http.MethodPost, "http://"+p.said["http"]+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		p.t.Error(err)
		return 0, "", nil
	}
	req.Header.Set("Content-Type", "application/json")
	if seconds != "" {
		req.Header.Set("X-Banyan-Timeout", seconds)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Error(err)
		return 0, "", nil
	}
	defer res.Body.Close()
	raw, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(raw), res.Header
}
