package proxy

import (
	"errors"
	"time"
)

// ErrDown is Result.Err of a try whose replica went down while it was waited
// for. The replica is known to be down: it is no further failure of it.
var ErrDown = errors.New("the replica is down")

// Down is what is known of a try's replica.
type Down uint8

const (
	NotDown Down = iota
	// DownMute: its probes get no answer, and another replica could take what waits
	// there. It may be frozen, cut off, or too busy to answer.
	DownMute
	// DownDead: nobody listens at its address any more, or it says itself that it
	// is not well.
	DownDead
)

// watch ends the try if its replica goes down and no byte comes for a while: an
// engine that dies need not close its connections. vLLM's API server waits for
// them when its engine is gone, and the kernel of a frozen process keeps them.
//
// Neither sign is enough alone. Engines that drain, or are too busy to answer
// probes, still stream; and healthy ones are silent while they compute a long
// prompt. A mute replica may come back, so only what another one can take over is
// taken from it: what would be lost for the client stays.
func (x *exchange) watch(t *try) {
	if x.cfg.Down == nil {
		return
	}
	t.last = x.call.Attempt >= x.limits.Retries || !x.repeatable()
	var seen uint64
	h := x.Handler // the exchange may be over
	t.timer = time.AfterFunc(time.Hour, func() {
		if t.ctx.Err() != nil {
			return
		}
		if t.stoodStill(&seen) && h.leaves(t) {
			t.cancel(ErrDown)
			return
		}
		t.timer.Reset(h.cfg.Silence)
	})
	t.timer.Reset(h.cfg.Silence)
}

// unwatch ends it; a look that is under way does no harm to a try that is over.
func (t *try) unwatch() {
	if t.timer != nil {
		t.timer.Stop()
	}
}

// waits frames what waits for bytes of the replica: reads is odd meanwhile.
func (t *try) waits() { t.reads.Add(1) }
func (t *try) got()   { t.reads.Add(1) }

// stoodStill reports whether one wait has lasted since the last look.
func (t *try) stoodStill(seen *uint64) bool {
	now := t.reads.Load()
	still := now == *seen && now%2 == 1
	*seen = now
	return still
}

// leaves reports whether a try that stands still is to leave its replica. From
// a mute one it goes only where a retry is sure, which is paid here.
func (h *Handler) leaves(t *try) bool {
	switch h.cfg.Down(t.target) {
	case DownDead:
		return true
	case DownMute:
		t.paid.Store(!t.last && !t.stuck.Load() && h.budget.take(time.Now()))
		return t.paid.Load()
	}
	return false
}
