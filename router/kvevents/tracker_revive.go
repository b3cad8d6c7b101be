package kvevents

import (
	"slices"

	"github.com/banyan-llm/banyan/crdt"
)

// silentUS is how long an incarnation says nothing, by the engine's clock,
// before the one it outranked may be taken to have outlived it.
const silentUS = 1_000_000

// nearer is how many times nearer to the last slot of an outranked incarnation
// than to that of the present one a slot must be to go on where the former was.
const nearer = 8

// keeps reports whether an outranked epoch can be revived.
func (p *Prior) keeps(epoch uint64) bool { return slices.Contains(p.Shadows, epoch) }

// leave remembers what was followed, in case it turns out to be the present
// incarnation after all.
func (t *Tracker) leave() {
	if t.inc.epoch != 0 {
		was := t.inc
		t.prev, t.prevAt, t.before = &was, t.nowMs, t.heard
	}
	t.sure, t.heard = false, 0
}

// outlived reports whether a live slot proves that the engine never restarted:
// it came over the connection to the outranked process, goes on where that one
// was, is later than all that the incarnation above it ever said, and that one
// has fallen silent. Two processes that both go on are no false alarm; and if
// what the other one said last may be a slot of ours that we missed, it may be
// another owner's name for this same process (see heed), and nothing restarted.
func (t *Tracker) outlived(s *crdt.Slot) bool {
	return t.sure && t.prior.Epoch > t.inc.epoch && s.Seq > t.inc.last && t.prior.LastTS != 0 &&
		s.TS-t.prior.LastTS > silentUS && !t.prior.contradicts(s) && t.prior.keeps(t.inc.epoch) &&
		!t.inc.fits(t.prior.LastSeq, t.prior.LastTS)
}

// resumed reports whether a live slot proves that the restart followed last was
// none. One connection is to one process, and over this one came slots of the
// incarnation before, then what looked like a restart, and now a slot that goes
// on where the incarnation before was. Something that forwards for the engine
// may keep a connection over a restart, so the numbers must say it too: of a
// process that restarted, all but an eighth of the slots would have been missed.
func (t *Tracker) resumed(s *crdt.Slot) bool {
	if t.prev == nil || t.before == 0 || s.Seq <= max(t.before, t.inc.last) || s.TS <= t.inc.maxTS {
		return false
	}
	return nearer*(s.Seq-t.before) < s.Seq-t.inc.last && t.prior.Epoch == t.inc.epoch && t.prior.keeps(t.prev.epoch)
}

// searchAnew looks for the incarnation that is there now. If the one followed
// before this can still be revived it is asked for first.
func (t *Tracker) searchAnew() {
	if t.prev != nil && t.prior.keeps(t.prev.epoch) {
		t.search(Seeking, recall, t.prev.last)
		return
	}
	t.search(Seeking, discover, 1)
}

// revive follows an incarnation again that was outranked by a false alarm. It
// counts as a restart: false means too many, and the stream is in quarantine.
func (t *Tracker) revive(was incarnation) bool {
	if !t.allowBump() {
		return false
	}
	old := was.epoch
	was.epoch = max(t.prior.Epoch, t.inc.epoch) + 1
	t.inc, t.prev, t.sure = was, nil, true
	t.forget()
	t.out.Revive, t.out.Anew = old, true
	t.stats.Revived++
	return true
}
