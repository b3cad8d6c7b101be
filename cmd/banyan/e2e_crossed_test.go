//go:build e2e

package main

import (
	"fmt"
	"strings"
	"testing"
)

// Events that are read for the wrong replica are told, with the cure: by what the
// engines report, or, where they report nothing, by promises that do not come true.
// What is listed right is well.
func TestEventsOfAnotherReplicaAreTold(t *testing.T) {
	listed := func(name, host string, r, events *process) string {
		_, port, _ := strings.Cut(r.said["http"], ":")
		return fmt.Sprintf("{name: %s, url: 'http://%s:%s', events: '%s', replay: '%s'}", name, host, port, events.said["events"], events.said["replay"])
	}
	const ip = "127.0.0.1"
	for _, c := range []struct {
		name string
		args []string
		list func(a, b *process) string
		says string // "": nothing is wrong
		long bool   // only many answers tell
	}{
		{"as it should be", nil, func(a, b *process) string { return listed("a", ip, a, a) + "," + listed("b", ip, b, b) }, "", false},
		{"as it should be, with caches too small", []string{"--blocks", "700"}, func(a, b *process) string { return listed("a", ip, a, a) + "," + listed("b", ip, b, b) }, "", true},
		{"crossed, and the engines tell", nil, func(a, b *process) string { return listed("a", ip, a, b) + "," + listed("b", ip, b, a) }, "The events that are read for a are those of b", false},
		{"crossed, and the engines tell nothing", []string{"--hide-event-sources"}, func(a, b *process) string { return listed("a", ip, a, b) + "," + listed("b", ip, b, a) }, "What the events of", true},
		{"one address for both", []string{"--hide-event-sources"}, func(a, b *process) string { return listed("a", ip, a, a) + "," + listed("b", ip, b, a) }, "The events of a and b are read from one address", false},
		{"one engine under two URLs", nil, func(a, _ *process) string { return listed("a", ip, a, a) + "," + listed("b", "localhost", a, a) }, "a and b are one engine under two URLs", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := replicaProcess(t, "a", c.args...), replicaProcess(t, "b", c.args...)
			p := single(t, "--limits.tokenize", tokenizeLimit.String(), "--replicas", "["+c.list(a, b)+"]")
			eventually(t, "both streams are read", func() bool {
				s := p.status()
				return s != nil && s.Ready && len(s.Replicas) == 2 && s.Replicas[0].Stream.State == "ok" && s.Replicas[1].Stream.State == "ok"
			})
			p.streamed(0)
			conversations := 5
			if c.long {
				conversations = 40
			}
			cached, tokens := talkALot(p, conversations, 5)
			t.Logf("%d of %d tokens were cached", cached, tokens)
			verdict := func() (string, int) {
				text, code := p.check()
				return strings.Join(strings.Fields(text), " "), code
			}
			if c.says == "" {
				if text, code := verdict(); code != exitOK {
					t.Errorf("exit code %d: %s", code, text)
				}
			} else {
				eventually(t, "it is told", func() bool {
					text, code := verdict()
					return code == exitFailed && strings.Contains(text, c.says)
				})
			}
			p.evidence("events: " + c.name)
			p.stop()
		})
	}
}

// talkALot has n conversations of some turns each, one turn of each after the other,
// and counts what was cached of roughly how many tokens.
func talkALot(p *process, n, turns int) (cached, tokens int) {
	for turn := range turns {
		for i := range n {
			var said []message
			for before := range turn + 1 {
				said = append(said, message{"user", strings.Repeat(fmt.Sprintf("Word %d of conversation %d. ", before, i), 40)})
			}
			_, _, c := p.say(said)
			cached += c
			tokens += 40 * 6 * (turn + 1)
		}
	}
	return cached, tokens
}
