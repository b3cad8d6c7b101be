package kvevents

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/banyan-llm/banyan/router/kvevents/follow"
	"github.com/banyan-llm/banyan/router/kvevents/zmtp"
)

// replayQuiet is how long a replay that has begun may say nothing.
const replayQuiet = 500 * time.Millisecond

// played is one item of a replay.
type played struct {
	run      uint64
	frame    Frame
	held     zmtp.Held
	at       time.Time
	done     bool
	complete bool  // done: the end marker came
	err      error // done: why it did not
}

// player asks an engine's replay, one at a time (I7). start and stop belong to
// one goroutine.
type player struct {
	endpoint string
	timeout  time.Duration
	opt      zmtp.Options
	items    chan played // buffered: what is in it when a replay is stopped is stale

	run    uint64 // numbers replays; items of older ones are stale
	cancel context.CancelFunc
	ended  chan struct{}
}

// start asks for all batches from a slot on. The one before must be stopped.
func (p *player) start(ctx context.Context, ask follow.ReplayFrom) {
	p.run++
	ctx, p.cancel = context.WithCancel(ctx)
	p.ended = make(chan struct{})
	run, ended := p.run, p.ended
	go func() {
		defer close(ended)
		p.play(ctx, run, ask)
	}()
}

// stop ends the replay in flight and waits for its goroutine.
func (p *player) stop() {
	if p.cancel == nil {
		return
	}
	p.cancel()
	<-p.ended
	p.cancel = nil
	p.run++ // nothing of it counts any more
}

// play runs one attempt and says how it ended.
func (p *player) play(ctx context.Context, run uint64, ask follow.ReplayFrom) {
	if ask.Again {
		t := time.NewTimer(againAfter/2 + rand.N(againAfter))
		defer t.Stop()
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
	attempt, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	complete, err := p.attempt(attempt, run, ask.From)
	p.put(ctx, played{run: run, at: time.Now(), done: true, complete: complete, err: err})
}

// attempt reads one replay to its end marker.
func (p *player) attempt(ctx context.Context, run, from uint64) (complete bool, err error) {
	d, err := zmtp.DialDealer(ctx, p.endpoint, p.opt)
	if err != nil {
		return false, err
	}
	defer d.Close()
	if err := d.Send(ReplayRequest(from - 1)...); err != nil {
		return false, err
	}
	// The end marker can be lost like any batch: silence ends a replay too.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var quiet *time.Timer
	for {
		frames, held, err := d.Recv(ctx)
		if err != nil {
			return false, err
		}
		if quiet == nil {
			quiet = time.AfterFunc(replayQuiet, cancel)
			defer quiet.Stop()
		}
		quiet.Stop()
		f, err := ParseReplay(frames)
		if err != nil || f.End {
			held.Release()
			return f.End, err
		}
		if !p.put(ctx, played{run: run, frame: f, held: held, at: time.Now()}) {
			return false, ctx.Err()
		}
		quiet.Reset(replayQuiet)
	}
}

// put hands an item over; false if ctx ended first.
func (p *player) put(ctx context.Context, item played) bool {
	select {
	case p.items <- item:
		return true
	case <-ctx.Done():
		item.held.Release()
		return false
	}
}
