package disagg

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestI7ThePrefillLegOutlivesTheAnswer: it may still be handing over.
func TestI7ThePrefillLegOutlivesTheAnswer(t *testing.T) {
	released := make(chan struct{})
	p := newPair(t, "sglang", begins(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-released:
			_, _ = io.WriteString(w, prefillSays)
		case <-r.Context().Done():
		}
	}), says(200, decodeSays))
	res, err := p.send(t.Context(), plainAsk)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(res.Body)
	if err != nil || string(raw) != decodeSays {
		t.Fatalf("%s %v", raw, err)
	}
	res.Body.Close()
	close(released)
	p.legs.running.wg.Wait()
	if len(p.ends) != 1 || p.ends[0] != Answered || p.usage.Prompt != 40 {
		t.Errorf("I7: told %q, %+v", p.ends, p.usage)
	}
	if body := p.sent("decode").raw; body != p.sent("prefill").raw || !strings.HasPrefix(body, strings.TrimSuffix(plainAsk, "}")) ||
		!strings.Contains(body, `"bootstrap_host":"127.0.0.1","bootstrap_port":8998,"bootstrap_room":`) {
		t.Error(body)
	}
}

// TestI6AFailedSGLangPrefillEndsTheDecodeLeg: which would else wait for it.
func TestI6AFailedSGLangPrefillEndsTheDecodeLeg(t *testing.T) {
	for name, c := range map[string]struct {
		prefill http.HandlerFunc
		outcome Outcome
	}{
		"500": {says(500, `{}`), Failed}, "dies": {dies, Failed}, "breaks": {begins(dies), Failed},
		"refuses": {says(400, `{"error":{}}`), Refused}, "hangs": {hangs, Timeout}, "stalls": {begins(hangs), Timeout},
	} {
		ended := make(chan struct{}, 1)
		p := newPair(t, "sglang", c.prefill, begins(func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			ended <- struct{}{}
		}))
		if c.outcome == Timeout {
			p.legs.Timeout = func() time.Duration { return 100 * time.Millisecond }
		}
		status, answer, err := p.ask(plainAsk, c.outcome)
		if refused := c.outcome == Refused; refused != (status == 400) || refused != (err == nil) || !p.atLead || refused == p.broke {
			t.Errorf("I6: %s: %d %s %v %+v", name, status, answer, err, p)
		}
		if p.sent("decode") == nil {
			continue
		}
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Errorf("I6: %s: the decode leg waits on", name)
		}
	}
}

// TestAFailedSGLangDecodeLegLetsThePrefillLegGo: nobody will fetch.
func TestAFailedSGLangDecodeLegLetsThePrefillLegGo(t *testing.T) {
	p := newPair(t, "sglang", hangs, dies)
	if _, _, err := p.ask(plainAsk, Left); err == nil || p.atLead || p.broke {
		t.Errorf("%v %+v", err, p)
	}
}

// TestARankedPrefillServerMeetsInARoomOfItsRank: the port is as its label says.
func TestARankedPrefillServerMeetsInARoomOfItsRank(t *testing.T) {
	p := newPair(t, "sglang", says(200, prefillSays), says(200, decodeSays))
	p.try.Prefill.Ranked, p.try.Prefill.Rank, p.try.Prefill.Ranks = true, 2, 4
	p.try.Prefill.Labels = map[string]string{"bootstrap_port": "9001"}
	if _, _, err := p.ask(plainAsk, Answered); err != nil {
		t.Fatal(err)
	}
	raw := p.sent("decode").raw
	_, digits, _ := strings.Cut(raw, `"bootstrap_room":`)
	room, err := strconv.ParseUint(strings.TrimSuffix(digits, "}"), 10, 64)
	if err != nil || room%4 != 2 || !strings.Contains(raw, `"disagg_prefill_dp_rank":2`) || !strings.Contains(raw, `"bootstrap_port":9001`) {
		t.Error(raw, err)
	}
}
