//go:build e2e

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/router/console"
)

// The console page, its feed and the ring of decisions of a real mesh; an open
// feed does not hold up the end of a peer.
func TestConsolePage(t *testing.T) {
	replicas := []*process{replicaProcess(t, "r0"), replicaProcess(t, "r1")}
	peers := knowing(t, meshOf(t, 2, replicas...)) // or a decision weighs one
	admin := "http://" + peers[0].said["admin"]

	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, admin+"/v1/watch", nil)
	if err != nil {
		t.Fatal(err)
	}
	feed, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Body.Close()

	peers[0].say([]message{{Role: "user", Content: strings.Repeat("which replica holds this prefix? ", 40)}})
	var decision console.Decision
	for lines := bufio.NewReader(feed.Body); decision.Seq == 0; {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("the feed ended before a decision came: %v", err)
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok && strings.Contains(data, `"candidates"`) {
			if err := json.Unmarshal([]byte(data), &decision); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(decision.Candidates) != 2 || decision.Policy != "ttft" || decision.Prompt < 40 {
		t.Errorf("decision: %+v", decision)
	}

	eventually(t, "the page shows both replicas, both peers and the decision", func() bool {
		page := adminGet(t, admin+"/")
		for _, want := range []string{">r0<", ">r1<", ">p1<", ">" + decision.Reason + "<", "2/2 peers, 2/2 replicas"} {
			if !strings.Contains(page, want) {
				return false
			}
		}
		return true
	})
	if list := adminGet(t, admin+"/v1/decisions?n=5"); strings.Contains(list, "which replica") || !strings.Contains(list, decision.Replica) {
		t.Errorf("decisions: %s", list)
	}

	cross, err := http.NewRequestWithContext(ctx, http.MethodPost, admin+"/v1/replicas/r0/drain", nil)
	if err != nil {
		t.Fatal(err)
	}
	cross.Header.Set("Sec-Fetch-Site", "cross-site")
	res, err := http.DefaultClient.Do(cross)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusForbidden {
		t.Errorf("a page of another origin could drain: %d", res.StatusCode)
	}

	peers[0].stop()
	if _, err := io.Copy(io.Discard, feed.Body); err != nil {
		t.Errorf("the feed was cut, not ended: %v", err)
	}
}

func adminGet(t *testing.T, address string) string {
	t.Helper()
	res, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
