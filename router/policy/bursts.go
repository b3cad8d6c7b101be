package policy

import (
	"math"
	"math/rand/v2"
)

// Bursts tells how many dispatches of other peers one peer has not seen when it
// decides, from how many it had not seen at its last decisions. What is late is
// heard of afterwards, so it can be counted, and a rate times the age of the
// view says nothing of it where requests come together: the subagents of a
// session begin within a millisecond. The zero value is empty. Not safe for
// concurrent use. Times are in ms, of one clock.
type Bursts struct {
	own  [burstMemory]burst // a ring, the latest at sent-1
	sent int
}

// burst is an own dispatch and how many of others fell about it.
type burst struct {
	at     float64
	others int
}

// burstMemory is how many own dispatches are looked back on.
const burstMemory = 32

// Sent notes an own dispatch.
func (b *Bursts) Sent(at float64) {
	b.own[b.sent%burstMemory] = burst{at: at}
	b.sent++
}

// Heard notes that others' dispatches became known, n of them. The view was so
// many ms old: they were made within that time of every own dispatch younger
// than twice as much, before it or after it.
func (b *Bursts) Heard(n int, at, age float64) {
	for i := range min(b.sent, burstMemory) {
		o := &b.own[(b.sent-1-i)%burstMemory]
		if at-o.at > 2*age {
			return
		}
		o.others += n
	}
}

// Draw draws how many dispatches that came with this one are before it and
// unseen. The last decisions tell how many came with one of them; which of them
// this one is, nobody knows. evenly is how many would fall within twice the age
// of the view if they came evenly. Those are poured, so only what is clearly
// more counts, and nothing where one or more is always expected: what comes
// within a long time comes for many reasons. O(burstMemory).
func (b *Bursts) Draw(now, age, evenly float64, rnd *rand.Rand) int {
	if !(evenly < 1) {
		return 0
	}
	expected, first := int(math.Ceil(2*(evenly+math.Sqrt(evenly)))), min(b.sent, burstMemory)
	known, most := 0, 0
	for i := range min(b.sent, burstMemory) {
		if o := &b.own[(b.sent-1-i)%burstMemory]; now-o.at > 2*age { // all that came with it has been heard of
			first = min(first, i)
			known++
			most = max(most, o.others)
		}
	}
	if most <= expected {
		return 0
	}
	o := &b.own[(b.sent-1-first-rnd.IntN(known))%burstMemory]
	return rnd.IntN(max(o.others-expected, 0) + 1)
}
