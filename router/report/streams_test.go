package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/console"
	"github.com/banyan-llm/banyan/router/index"
)

// TestI6EqualStreamsHaveEqualDigests: keys that only one peer linked are left
// out, everything else counts.
func TestI6EqualStreamsHaveEqualDigests(t *testing.T) {
	d := crdt.Digest{Context: crdt.Context{Epoch: 3, Anchor: 1, Floor: 9, Lost: []crdt.Span{{From: 2, To: 4}}}}
	d.Base.Count, d.Base.Facts = 7, 99
	linked := d
	linked.Base.Linked = 5
	if len(Digest(&d)) != 16 || Digest(&d) != Digest(&linked) {
		t.Errorf("I6: %s and %s", Digest(&d), Digest(&linked))
	}
	above, voids := d, d
	above.Context.Above, above.Context.Lost = d.Context.Lost, nil
	voids.Context.Floor = 10
	if texts := []string{Digest(&d), Digest(&above), Digest(&voids)}; texts[0] == texts[1] || texts[0] == texts[2] {
		t.Errorf("other streams have the same: %v", texts)
	}
}

// TestEventsThatCannotBeHeardAreToldOnce: and again when they went and came.
func TestEventsThatCannotBeHeardAreToldOnce(t *testing.T) {
	long := int64(1e9)
	deaf := func(why string) console.Replica {
		return console.Replica{Name: "a", State: "up", Stream: console.Stream{State: "connecting", Detail: why, ConnectingMs: &long}}
	}
	var u Unheard
	lost, back := u.Look([]console.Replica{deaf(""), {Name: "b", State: "up"}})
	if len(lost) != 1 || lost[0].Replica != "a" || lost[0].Why != "no connection" || !strings.HasPrefix(lost[0].Cure, "Set `events` to") || back != nil {
		t.Fatalf("%+v %v", lost, back)
	}
	if lost, back = u.Look([]console.Replica{deaf("")}); lost != nil || back != nil {
		t.Errorf("told again: %+v %v", lost, back)
	}
	if lost, back = u.Look(nil); lost != nil || !slices.Equal(back, []string{"a"}) {
		t.Errorf("%+v %v", lost, back)
	}
	if lost, _ = u.Look([]console.Replica{deaf("it is a ROUTER")}); len(lost) != 1 || !strings.Contains(lost[0].Cure, "swap `events` and `replay`") {
		t.Errorf("%+v", lost)
	}
}

func TestAStreamThatDoesNotFitSaysWhatToRaise(t *testing.T) {
	for bound, want := range map[index.Bound]string{index.BoundMemory: "raise limits.memory", index.BoundFacts: "raise limits.stream_facts"} {
		if got := Unusable(&index.Full{Facts: 5, Bound: bound}); !strings.Contains(got, want) || !strings.Contains(got, "5 blocks") {
			t.Errorf("%s: %s", bound, got)
		}
	}
}
