package simulation

import (
	"math"
	"math/bits"

	"github.com/banyan-llm/banyan/simulation/replica"
)

// index is the prefix knowledge of the peers: what engines told, a delay ago,
// and what dispatches let expect. One bit a replica.
type index struct {
	delay    float64 // of engine events
	dispatch float64 // of others' predictions
	lasts    float64 // seconds a prediction counts; negative: none are made

	holders map[uint64]uint64 // key -> replicas; E5
	held    []int             // keys of every replica in holders
	pending fifo[fact]

	predicted map[uint64][]prediction
	expiring  fifo[expiry]
}

// fact is one engine event on its way.
type fact struct {
	at      float64
	replica int
	removed bool
	keys    []uint64
	one     [1]uint64 // room for the key of a removal
}

// prediction says that a peer sent a block to a replica.
type prediction struct {
	at            float64
	peer, replica int
}

type expiry struct {
	at   float64
	keys []uint64
}

func newIndex(cfg *Config) *index {
	return &index{
		delay: cfg.IndexDelay, dispatch: cfg.DispatchDelay, lasts: cfg.PredictFor,
		holders: make(map[uint64]uint64), held: make([]int, cfg.Replicas), predicted: make(map[uint64][]prediction),
	}
}

// tell takes a step's events of one replica.
func (x *index) tell(now float64, k int, events []replica.KVEvent) {
	for _, e := range events {
		switch e.Kind {
		case replica.Stored:
			x.pending.push(fact{at: now, replica: k, keys: e.Keys})
		case replica.Removed:
			x.pending.push(fact{at: now, replica: k, removed: true, one: [1]uint64{e.Key}})
		case replica.Cleared:
			panic("invariant: nobody clears a cache in an evaluation")
		}
	}
}

// advance makes visible what is older than the delay and forgets expired
// predictions.
func (x *index) advance(now float64) {
	for x.pending.len() > 0 && x.pending.front().at+x.delay <= now {
		f := x.pending.pop()
		bit := uint64(1) << f.replica
		if f.removed {
			if x.holders[f.one[0]]&bit != 0 {
				x.held[f.replica]--
			}
			if left := x.holders[f.one[0]] &^ bit; left != 0 {
				x.holders[f.one[0]] = left
			} else {
				delete(x.holders, f.one[0])
			}
			continue
		}
		for _, key := range f.keys {
			if x.holders[key]&bit == 0 {
				x.held[f.replica]++
			}
			x.holders[key] |= bit
		}
	}
	for x.expiring.len() > 0 && x.expiring.front().at+x.lasts <= now {
		x.forget(x.expiring.front().keys, now)
		x.expiring.pop()
	}
}

// predict notes that a peer sent a prompt to a replica.
func (x *index) predict(now float64, peer, k int, keys []uint64) {
	if x.lasts < 0 || len(keys) == 0 {
		return
	}
	for _, key := range keys {
		list := x.predicted[key]
		for i := range list {
			if list[i].peer == peer && list[i].replica == k { // renewed: it moves to the young end
				list = append(list[:i], list[i+1:]...)
				break
			}
		}
		x.predicted[key] = append(list, prediction{at: now, peer: peer, replica: k})
	}
	x.expiring.push(expiry{at: now, keys: keys})
}

func (x *index) forget(keys []uint64, now float64) {
	for _, key := range keys {
		list := x.predicted[key]
		for len(list) > 0 && list[0].at+x.lasts <= now {
			list = list[1:]
		}
		if len(list) == 0 {
			delete(x.predicted, key)
			continue
		}
		x.predicted[key] = list
	}
}

// match fills, per replica, how many leading keys it holds for certain and
// with predictions, as a peer sees it. O(depth).
func (x *index) match(now float64, peer int, keys []uint64, confirmed, expected []int) {
	clear(confirmed)
	clear(expected)
	all := uint64(math.MaxUint64) >> (64 - len(confirmed))
	sure, maybe := all, all
	for i, key := range keys {
		held := x.holders[key]
		guess := held
		if maybe&^held != 0 {
			for _, p := range x.predicted[key] {
				if p.peer == peer || p.at+x.dispatch <= now {
					guess |= 1 << p.replica
				}
			}
		}
		drop(confirmed, sure&^held, i)
		drop(expected, maybe&^guess, i)
		sure &= held
		if maybe &= guess; sure|maybe == 0 {
			return
		}
	}
	drop(confirmed, sure, len(keys))
	drop(expected, maybe, len(keys))
}

// drop sets the depth of every replica in the set.
func drop(depth []int, set uint64, d int) {
	for ; set != 0; set &= set - 1 {
		depth[bits.TrailingZeros64(set)] = d
	}
}
