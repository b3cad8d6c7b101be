package proxy

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// judge tells of the first replica what a test wants, once it has begun.
type judge struct {
	verdict Down
	asked   chan struct{}
}

// downRig is a rig whose first replica is down as told from the first look on.
func downRig(t *testing.T, verdict Down, change func(*Config), upstreams ...http.HandlerFunc) (*rig, *judge) {
	j := &judge{verdict, make(chan struct{}, 1000)}
	g := newRig(t, func(c *Config) {
		c.Silence = 20 * time.Millisecond
		c.Down = func(target *Target) Down {
			if target.Replica != "r0" {
				return NotDown
			}
			select {
			case j.asked <- struct{}{}:
			default:
			}
			return j.verdict
		}
		if change != nil {
			change(c)
		}
	}, upstreams...)
	return g, j
}

// looks waits until the judge was asked n times, or the request is given up.
func (j *judge) looks(r *http.Request, n int) {
	for range n {
		select {
		case <-j.asked:
		case <-r.Context().Done():
			return
		}
	}
}

// What another replica can take over leaves one that is down; of a mute one
// nothing is taken that would be lost for the client.
func TestWhatWaitsAtAReplicaThatIsDown(t *testing.T) {
	const whole, stream = `{"model":"m"}`, `{"model":"m","stream":true}`
	once := func(l *Limits) { l.Retries = -1 }
	poor := func(l *Limits) { l.RetryMin, l.RetryRatio = 1e-9, 1e-9 }
	for _, c := range []struct {
		name    string
		verdict Down
		body    string
		limits  func(*Limits)
		stays   bool
	}{
		{"dead", DownDead, whole, nil, false},
		{"dead, a stream", DownDead, stream, nil, false},
		{"mute", DownMute, whole, nil, false},
		{"mute, a stream", DownMute, stream, nil, false},
		{"up", NotDown, whole, nil, true},
		{"mute, the last try", DownMute, whole, once, true},
		{"mute, no budget", DownMute, stream, poor, true},
	} {
		var j *judge
		var g *rig
		g, j = downRig(t, c.verdict, func(cfg *Config) {
			if c.limits != nil {
				c.limits(&cfg.Limits)
			}
		}, func(w http.ResponseWriter, r *http.Request) {
			readAll(r)
			j.looks(r, 3)
			writeChunks(w, `{"choices":[0]}`)
		}, func(w http.ResponseWriter, r *http.Request) { writeChunks(w, `{"choices":[1]}`) })
		a := g.chat(c.body)
		from := map[bool]string{true: "r0", false: "r1"}[c.stays]
		if a.status != 200 || a.header.Get("X-Banyan-Replica") != from {
			t.Errorf("%s: %d by %s, want %s: %s", c.name, a.status, a.header.Get("X-Banyan-Replica"), from, a.body)
		}
		if r := g.last(); !c.stays && (!errors.Is(r.Err, ErrDown) || r.Cause != CauseReset || !r.Retried) {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
}

// Where nobody else is left the client is told.
func TestADeadReplicaWithoutAnotherOne(t *testing.T) {
	g, _ := downRig(t, DownDead, nil, func(_ http.ResponseWriter, r *http.Request) {
		readAll(r)
		<-r.Context().Done()
	})
	if a := g.chat(`{"model":"m"}`); a.status != http.StatusBadGateway && a.status != http.StatusServiceUnavailable {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// A stream that stands still at a replica that is down goes on at another one if
// it can. If it cannot it is cut, but only if the replica is dead.
func TestAStreamAtAReplicaThatIsDown(t *testing.T) {
	for _, c := range []struct {
		name           string
		verdict        Down
		on             bool // limits.continue_streams
		continued, cut bool
	}{
		{"dead, goes on", DownDead, true, true, false},
		{"mute, goes on", DownMute, true, true, false},
		{"dead, cannot go on", DownDead, false, false, true},
		{"mute, cannot go on", DownMute, false, false, false},
	} {
		var j *judge
		var g *rig
		stand := func(w http.ResponseWriter, made int) {
			if made == 2 {
				j.looks(w.(requestOf).request, 3)
			}
		}
		first := func(w http.ResponseWriter, r *http.Request) { (&counting{lose: stand}).ServeHTTP(requestOf{w, r}, r) }
		g, j = downRig(t, c.verdict, func(cfg *Config) { cfg.Limits.Continue = c.on }, first, (&counting{}).ServeHTTP)
		for _, target := range g.targets {
			target.Tokens = true
		}
		a := g.chat(`{"model":"m","stream":true,"max_tokens":4,"messages":[{"role":"user","content":"x"}]}`)
		all := !slices.ContainsFunc([]string{"w1", "w2", "w3", "w4"}, func(word string) bool { return !strings.Contains(a.body, word) })
		if r := g.last(); c.cut == all || r.Retried != c.continued || errors.Is(r.Err, ErrDown) != (c.continued || c.cut) {
			t.Errorf("%s: retried %v, %v: %s", c.name, r.Retried, r.Err, a.body)
		}
	}
}

// requestOf carries the request to a counting engine's lose.
type requestOf struct {
	http.ResponseWriter
	request *http.Request
}

func (r requestOf) Flush() { r.ResponseWriter.(http.Flusher).Flush() }

// Bytes that come, and a client that is slow to take them, are no silence.
func TestOnlyAWaitThatLastsIsSilence(t *testing.T) {
	var tr try
	var seen uint64
	still := func() bool { return tr.stoodStill(&seen) }
	if still() {
		t.Error("nothing is waited for")
	}
	tr.waits()
	if still() {
		t.Error("the wait has only begun")
	}
	for range 2 {
		if !still() {
			t.Error("it lasts")
		}
	}
	tr.got()
	for range 2 {
		if still() {
			t.Error("the client is slow")
		}
	}
	tr.waits()
	tr.got()
	tr.waits()
	if still() {
		t.Error("bytes have come")
	}
}
