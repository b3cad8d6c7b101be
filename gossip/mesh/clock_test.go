package mesh

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/gossip"
)

// wallClock is a clock that can be set.
type wallClock struct{ ahead atomic.Int64 }

func (w *wallClock) read() time.Time { return time.Now().Round(0).Add(time.Duration(w.ahead.Load())) }

func (w *wallClock) set(ahead time.Duration) { w.ahead.Store(int64(ahead)) }

// A wall clock that jumps neither ends the time in which a peer looks for the
// mesh nor parts peers that talk to each other.
func TestAClockThatIsSetEndsNoGraceAndPartsNobody(t *testing.T) {
	t.Parallel()
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(jump.String(), func(t *testing.T) {
			t.Parallel()
			var clock wallClock
			cfg := config("a")
			cfg.Clock = clock.read
			state := newLoadState(cfg.PeerID)
			core, err := gossip.New(gossip.Config{
				Self: cfg.PeerID, Name: cfg.Name, Label: cfg.Label, Fingerprint: 7, State: state,
				Rand: rand.New(rand.NewPCG(1, 2)), JoinGrace: jump.Abs().Milliseconds() / 2, JoinBound: jump.Abs().Milliseconds() / 2,
			})
			if err != nil {
				t.Fatal(err)
			}
			cfg.Core = core
			a := start(t, cfg)
			a.state = state
			told := func(want time.Duration) {
				t.Helper()
				clock.set(want)
				eventually(t, "the core hears of the clock", func() bool {
					state.mu.Lock()
					defer state.mu.Unlock()
					off := want - time.Duration(state.ahead)*time.Millisecond
					return off.Abs() < time.Minute
				})
			}
			told(jump)
			if err := a.Do(t.Context(), func() {
				if ok, why := core.Ready(); ok || why != "looking for the mesh" {
					t.Errorf("ready %v: %s", ok, why)
				}
			}); err != nil {
				t.Fatal(err)
			}

			told(0)
			b := start(t, config("b", a.Addr()))
			whole(t, a, b)
			for i, ahead := range []time.Duration{jump, 0} {
				told(ahead)
				a.dispatch(int32(2*i + 1))
				b.knows(t, a, int32(2*i+1))
				b.dispatch(int32(2*i + 2))
				a.knows(t, b, int32(2*i+2))
			}
			for _, n := range []*node{a, b} {
				if ended := n.value(t, "banyan_mesh_connections_ended_total", "core"); ended != 0 {
					t.Errorf("%s ended %v connections", n.cfg.Name, ended)
				}
			}
			eventually(t, "both see each other", func() bool { return a.sees(b) && b.sees(a) })
		})
	}
}

// Reading two clocks takes a moment, more of it on a busy machine: only what
// cannot be that is told.
func TestLeadTellsOnlyWhatWasSet(t *testing.T) {
	from := time.Unix(1_000_000, 0)
	var l lead
	for _, c := range []struct {
		read, wall time.Duration // after from
		told       bool
		ahead      int64
	}{
		{0, 0, false, 0},
		{0, noticeable - time.Millisecond, false, 0},
		{0, time.Second, true, 1_000},
		{0, time.Second + time.Millisecond, false, 0},
		{noticeable, time.Hour, false, 0}, // who knows when wall was read
		{0, time.Hour, true, 3_600_000},
		{0, -time.Hour, true, -3_600_000},
		{0, 0, true, 0},
	} {
		set, told := l.moved(from, from.Add(c.wall), from.Add(c.read))
		if told != c.told || set.AheadMs != c.ahead {
			t.Errorf("%+v: told %v, %d ms", c, told, set.AheadMs)
		}
	}
}
