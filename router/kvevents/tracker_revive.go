package kvevents

import (
	"slices"

	"github.com/banyan-llm/banyan/crdt"
)

// silentUS is how long an incarnation says nothing, by the engine's clock,
// before the one it outranked may be taken to have outlived it.
const silentUS = 1_000_000

// nearer is how many times nearer to the last slot of an outranked incarnation
// than to that of the present one a slot must be to go on where the former was;
// next is the same for the very next slot, of which nothing was missed.
const (
	nearer = 8
	next   = 4
)

// keeps reports whether an outranked epoch can be revived.
func (p *Prior) keeps(epoch uint64) bool { return slices.Contains(p.Shadows, epoch) }

// leave remembers what was followed, in case it turns out to be the present
// incarnation after all.
func (t *Tracker) leave() {
	if t.inc.epoch != 0 {
		was := t.inc
		t.prev, t.prevAt, t.before = &was, t.nowMs, t.heard
	}
	t.sure, t.heard, t.lowest = false, 0, 0
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

// spoiled reports whether the mesh's incarnation begins with a slot that cannot
// be of the process followed here, though it holds slots that are: another owner
// heard both, one after the other, and took the first for a restart.
func (t *Tracker) spoiled() bool {
	return t.prior.FirstTS != 0 && !t.inc.fits(t.prior.FirstSeq, t.prior.FirstTS)
}

// unbroken reports whether the present connection brought, without a gap, both a
// slot that the first one of the mesh's incarnation cannot go with and the last
// one.
func (t *Tracker) unbroken() bool {
	if t.lowest == 0 || len(t.inc.known.missing(t.lowest, t.prior.LastSeq)) > 0 {
		return false
	}
	for seq := t.lowest; seq <= t.heard && seq-t.lowest < rememberedTimes; seq++ {
		ts := t.inc.time(seq)
		if ts != 0 && (seq == t.prior.FirstSeq && ts != t.prior.FirstTS || seq > t.prior.FirstSeq && ts < t.prior.FirstTS) {
			return true
		}
	}
	return false
}

// resumed reports whether a live slot proves that the restart followed last was
// none. One connection is to one process, and over this one came slots of the
// incarnation before, then what looked like a restart, and now a slot that goes
// on where the incarnation before was. Something that forwards for the engine
// may keep a connection over a restart, so the numbers must say it too: of a
// process that restarted, all but an eighth of the slots would have been missed,
// or the first few and none of the incarnation before.
func (t *Tracker) resumed(s *crdt.Slot) bool {
	if t.prev == nil || t.before == 0 || s.Seq <= max(t.before, t.inc.last) || s.TS <= t.inc.maxTS {
		return false
	}
	gone := s.Seq - t.inc.last
	return (nearer*(s.Seq-t.before) < gone || s.Seq == t.before+1 && next < gone) && t.prior.Epoch == t.inc.epoch && t.prior.keeps(t.prev.epoch)
}

// wasOnItsWay reports whether a live slot is the next one of the incarnation
// before, said before the restart that was heard first.
func (t *Tracker) wasOnItsWay(s *crdt.Slot) bool {
	return t.prev != nil && t.before != 0 && s.Seq == t.before+1 && s.TS > t.prev.maxTS && s.TS < t.inc.anchorTS
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
