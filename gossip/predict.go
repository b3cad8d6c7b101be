package gossip

import (
	"fmt"

	"github.com/banyan-llm/banyan/crdt"
)

const (
	predictionsPerFrame = 256
	predictionFrames    = 16     // sent in one go; the rest 10 ms later
	bucketMs            = 16_000 // of the prediction sums
	closedMs            = 2_000  // buckets this long over are compared
	bucketsPerRound     = 64     // repaired in one digest
)

// predictions tells, takes and repairs predicted blocks.
type predictions struct {
	*base
	predictDue int64
}

// predicted plans to send waiting predictions.
func (c *predictions) predicted() {
	if c.predictDue == 0 {
		c.predictDue = c.now + predictMs
		c.wake(c.predictDue)
	}
}

// flushPredictions sends what is waiting to all whose bulk connection has
// room; the others are repaired by the sums of the digest.
func (c *predictions) flushPredictions() {
	c.predictDue = 0
	for range predictionFrames {
		ps := c.state.OwnPredictions(nil, predictionsPerFrame)
		if len(ps) == 0 {
			return
		}
		body := crdt.AppendPredictions(c.newBody(256*len(ps)), ps)
		for _, p := range c.order {
			c.sendPredictions(p, body)
		}
	}
	c.predicted()
}

func (c *predictions) sendPredictions(p *peer, body []byte) {
	if bulk := p.conns[Bulk]; c.room(bulk) {
		c.send(bulk, kindPredict, body, sentFrame{})
	}
}

// predictFrame joins predictions. Nobody relays them.
func (c *predictions) predictFrame(_ *conn, r *reader) error {
	ps, err := readPredictions(r)
	if err != nil {
		return fmt.Errorf("predictions: %w", err)
	}
	c.stats.FuturePredictions += uint64(c.state.JoinPredictions(ps, c.now))
	return nil
}

// bucketKey names one sum.
type bucketKey struct {
	space  crdt.PredictionSpace
	bucket int64
}

// closedSums are the sums of buckets that nobody writes to any more: in the
// current one something is always on its way.
func (c *predictions) closedSums() []crdt.PredictionSum {
	all := c.state.PredictionSums(c.now)
	out := all[:0:0]
	for _, s := range all {
		if c.closed(s.Bucket) {
			out = append(out, s)
		}
	}
	return out
}

// closed reports whether a bucket is over for long enough. Far ones are not.
func (c *predictions) closed(bucket int64) bool { return bucket < (c.wall()-closedMs)/bucketMs }

// comparePredictions sends p the entries of every bucket in which it has
// others; its own come when it sees our sums.
func (c *predictions) comparePredictions(p *peer, theirs []crdt.PredictionSum) {
	c.repairPredictions(p, c.closedSums(), theirs)
}

// repairPredictions is comparePredictions for some of our sums.
func (c *predictions) repairPredictions(p *peer, ours, theirs []crdt.PredictionSum) {
	have := make(map[bucketKey]crdt.PredictionSum, len(theirs))
	for _, s := range theirs {
		have[bucketKey{s.Space, s.Bucket}] = s
	}
	left := bucketsPerRound
	for _, s := range ours {
		if t, ok := have[bucketKey{s.Space, s.Bucket}]; ok && t.XOR == s.XOR && t.Count == s.Count {
			continue
		}
		if left--; left < 0 {
			return
		}
		ps := c.state.PredictionsOf(s.Space, s.Bucket)
		for len(ps) > 0 {
			n := min(len(ps), predictionsPerFrame)
			c.sendPredictions(p, crdt.AppendPredictions(c.newBody(256*n), ps[:n]))
			ps = ps[n:]
		}
	}
}
