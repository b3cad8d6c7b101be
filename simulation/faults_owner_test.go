package simulation

import "testing"

// A peer that takes up a stream at rest hears its last slot once more, by the
// replay that tells which process it is, and tells nobody (property 15).
func TestANewOwnerTellsNothingKnown(t *testing.T) {
	r := quiet(t, FaultConfig{Seed: 12, Peers: 3, Replicas: 1, NoTraffic: true})
	e := r.engines[0]
	e.calm, e.replay = true, 150
	r.runUntil(r.now + 3_000)
	before := r.slotFrames()
	anew := 0
	for _, p := range r.peers {
		if f := p.follows[e.stream]; f != nil {
			f.conn++
			f.replay++
			delete(p.follows, e.stream)
			anew++
		}
	}
	r.runUntil(r.now + 5_000)
	if n := r.slotFrames() - before; anew == 0 || n != 0 {
		t.Errorf("%d owners followed anew and sent %d frames of slots\n%s", anew, n, r.end())
	}
	clean(t, r)
}
