package policy

import "math"

// Demand counts what one peer is asked for, so that it knows without hearing
// anybody which prompts are hot. The zero value is empty. Not safe for
// concurrent use.
//
// It is the Space-Saving sketch (Metwally, Agrawal, El Abbadi 2005) over fading
// counts, a small one for each of demandSets sets of keys: no key is thought
// hotter than it is, and with at most demandWays of a set, none cooler.
type Demand struct {
	sets  [demandSets][demandWays]counter
	all   float64 // requests, those with a session included
	faded int64   // ms; until when counts have faded
}

// counter counts one key.
type counter struct {
	key   uint64  // 0: free
	count float64 // requests
	other float64 // how many of them may have had another key
}

// Size and memory of a Demand: 3 kB.
const (
	demandSets = 16
	demandWays = 8
	demandMs   = 30_000 // time constant: one of 64 peers sees few requests
	demandStep = 500    // counts fade this often, ms
)

// Ask counts a request and returns the share of the requests before it that had
// its key, 0 to 1, as if one more had had another. The turns of a session follow
// each other, so one is never hot: 0. O(demandWays).
func (d *Demand) Ask(req *Request, nowMs int64) float64 {
	d.fade(nowMs)
	before := d.all
	d.all++
	key, ok := req.affinityKey()
	if !ok || req.Session != 0 {
		return 0
	}
	c := d.counter(key)
	seen := c.count - c.other
	c.count++
	return seen / (before + 1)
}

// counter is the key's, or that of the key of its set that was asked for least.
func (d *Demand) counter(key uint64) *counter {
	set := &d.sets[mix(key)%demandSets]
	least := &set[0]
	for i := range set {
		c := &set[i]
		if c.key == key {
			return c
		}
		if c.count < least.count {
			least = c
		}
	}
	least.key, least.other = key, least.count
	return least
}

func (d *Demand) fade(nowMs int64) {
	d.faded = min(d.faded, nowMs) // a clock set back must not stop it
	if nowMs-d.faded < demandStep {
		return
	}
	by := math.Exp(float64(d.faded-nowMs) / demandMs)
	d.faded = nowMs
	d.all *= by
	for i := range d.sets {
		for j := range d.sets[i] {
			c := &d.sets[i][j]
			c.count *= by
			c.other *= by
		}
	}
}
