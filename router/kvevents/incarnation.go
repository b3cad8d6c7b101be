package kvevents

import "github.com/banyan-llm/banyan/crdt"

// incarnation is one run of an engine process as far as a tracker saw it.
type incarnation struct {
	epoch, anchor uint64
	anchorTS      int64  // time of the first slot, if it was seen here
	last          uint64 // highest slot seen, here or by the mesh
	maxTS         int64  // latest engine time seen
	known         spans  // slots seen here
	times         [rememberedTimes]slotTime
}

// slotTime remembers one slot's engine time.
type slotTime struct {
	seq uint64
	ts  int64
}

// verdict is what a slot's number and time say about its incarnation.
type verdict uint8

const (
	unseen    verdict = iota // not seen before; nothing speaks against it
	duplicate                // seen before
	other                    // proof of another incarnation
)

// judge holds a slot against what was seen. Only two things prove another
// incarnation: the same number with another time, and a number not above the
// highest with a time later than all.
func (i *incarnation) judge(s *crdt.Slot) verdict {
	if ts := i.time(s.Seq); ts != 0 && s.TS != 0 {
		if ts == s.TS {
			if i.known.has(s.Seq) {
				return duplicate
			}
			return unseen
		}
		return other
	}
	if s.Seq <= i.last && i.maxTS != 0 && s.TS > i.maxTS {
		return other
	}
	if i.known.has(s.Seq) {
		return duplicate
	}
	return unseen
}

// judge holds a slot against what was seen here, and against the mesh's last
// slot of the same incarnation: another owner may be far ahead of this one.
func (t *Tracker) judge(s *crdt.Slot) verdict {
	v := t.inc.judge(s)
	if v == unseen && t.prior.Epoch == t.inc.epoch && t.prior.contradicts(s) {
		return other
	}
	return v
}

// same reports whether a slot proves that its sender is this incarnation.
func (i *incarnation) same(s *crdt.Slot) bool {
	ts := i.time(s.Seq)
	return ts != 0 && ts == s.TS
}

// fits reports whether a slot may be one of this incarnation, by all that is
// remembered of it: numbers and times of one process grow together. It looks at
// every remembered time.
func (i *incarnation) fits(seq uint64, ts int64) bool {
	for _, e := range &i.times {
		if e.ts != 0 && (e.seq == seq && e.ts != ts || e.seq > seq && e.ts < ts || e.seq < seq && e.ts > ts) {
			return false
		}
	}
	return true
}

// time is the remembered time of a slot; 0 if forgotten or never known.
func (i *incarnation) time(seq uint64) int64 {
	if e := i.times[seq%rememberedTimes]; e.seq == seq {
		return e.ts
	}
	return 0
}

// note records a slot as seen.
func (i *incarnation) note(s *crdt.Slot) {
	i.known.add(s.Seq, s.Seq)
	i.known.trim(knownSpans)
	i.remember(s.Seq, s.TS)
	i.last = max(i.last, s.Seq)
}

// remember keeps a slot's time, the newer slot where two share a place.
func (i *incarnation) remember(seq uint64, ts int64) {
	if e := &i.times[seq%rememberedTimes]; seq >= e.seq {
		*e = slotTime{seq, ts}
	}
	i.maxTS = max(i.maxTS, ts)
}

// forgetBefore forgets the times of slots said before a time, but for the latest
// slot. Who takes over another owner's name for a process takes its first slot
// for the one that gave the name: what is remembered from before that may be of
// the process before, if the restart looked like a gap here, and would prove
// again a restart that has its name already.
func (i *incarnation) forgetBefore(ts int64) {
	for k := range i.times {
		if e := &i.times[k]; e.ts < ts && e.seq < i.last {
			*e = slotTime{}
		}
	}
}

// contradicts reports whether a slot proves that the mesh's incarnation is not
// the slot's.
func (p *Prior) contradicts(s *crdt.Slot) bool {
	if p.LastTS == 0 || s.TS == 0 {
		return false
	}
	if s.Seq == p.LastSeq {
		return s.TS != p.LastTS
	}
	return s.Seq < p.LastSeq && s.TS > p.LastTS
}
