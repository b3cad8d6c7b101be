package report

import (
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
)

// Events that are not the replica's own are told once, with the surest reason;
// engines that look alike, and ranks of one server, are not.
func TestEventsThatAreNotItsOwnAreTold(t *testing.T) {
	feed := func(events, tells string, started, facts uint64) Feed {
		out := Feed{Events: events, Tells: tells, Started: started, Floor: 9, Facts: crdt.Sum{Count: 5, Facts: facts}}
		if facts == 0 {
			out.Facts, out.Floor = crdt.Sum{}, 0
		}
		return out
	}
	lies := feed("tcp://a:1", "", 7, 1)
	lies.Untrue, lies.Checked = 8, 16
	doubts, few := lies, lies
	doubts.Untrue, few.Untrue, few.Checked = 4, 15, 15
	topic := feed("tcp://a:1", "", 8, 2)
	topic.Topic = "b"
	for name, c := range map[string]struct {
		a, b Feed
		one  bool   // URL
		says string // "": nothing
	}{
		"as it should be":                   {a: feed("tcp://a:1", "tcp://a:1", 7, 1), b: feed("tcp://b:1", "tcp://b:1", 8, 2)},
		"nothing came yet":                  {a: feed("tcp://a:1", "", 0, 0), b: feed("tcp://b:1", "", 0, 0)},
		"no events":                         {a: feed("", "", 0, 0), b: feed("", "", 0, 0)},
		"warmed up alike":                   {a: feed("tcp://a:1", "", 7, 1), b: feed("tcp://b:1", "", 8, 1)},
		"started together":                  {a: feed("tcp://a:1", "", 7, 1), b: feed("tcp://b:1", "", 7, 2)},
		"two URLs":                          {a: feed("tcp://a:1", "", 7, 1), b: feed("tcp://b:1", "", 7, 1), says: "a and b are one engine under two URLs"},
		"two URLs with one address":         {a: feed("tcp://a:1", "", 7, 1), b: feed("tcp://a:1", "", 7, 1), says: "a and b are one engine under two URLs"},
		"ranks of one server":               {a: feed("tcp://a:1", "", 7, 1), b: feed("tcp://a:1", "", 7, 1), one: true},
		"one address":                       {a: feed("tcp://a:1", "", 7, 1), b: feed("tcp://a:1", "", 8, 2), says: "The events of a and b are read from one address, tcp://a:1"},
		"one address, a topic each":         {a: feed("tcp://a:1", "", 7, 1), b: topic},
		"another's, as both tell":           {a: feed("tcp://b:1", "tcp://a:1", 7, 1), b: feed("tcp://b:2", "tcp://b:1", 8, 2), says: "The events that are read for a are those of b"},
		"through a port that is nobody's":   {a: feed("tcp://proxy:1", "tcp://a:1", 7, 1), b: feed("tcp://b:1", "tcp://b:1", 8, 2)},
		"promises that do not come true":    {a: lies, b: feed("tcp://b:1", "", 8, 2), says: "What the events of a say does not come true: 8 of 16"},
		"some promises do not come true":    {a: doubts, b: feed("tcp://b:1", "", 8, 2)},
		"few answers have said it":          {a: few, b: feed("tcp://b:1", "", 8, 2)},
		"two reasons, of which one is told": {a: lies, b: feed("tcp://a:1", "", 8, 2), says: "are read from one address"},
	} {
		f := Fleet{Listed: []Listed{{Name: "a", URL: "http://a", Serves: true, Feed: c.a}, {Name: "b", URL: "http://b", Serves: true, Feed: c.b}}}
		if c.one {
			f.Listed[1].URL = "http://a"
		}
		got := f.eventProblems()
		if c.says == "" && got == nil {
			continue
		}
		if len(got) != 1 || c.says == "" || !strings.Contains(got[0].Text, c.says) || got[0].Help == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
