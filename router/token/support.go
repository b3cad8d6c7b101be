package token

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// How long a replica, or one of its rungs, is left alone.
const (
	reprobeAfter = time.Minute     // a rung that is not there, refuses everything, or is wrong
	coolAfter    = 3               // failures in a row
	coolFirst    = 2 * time.Second // then, doubling
	coolMost     = 8 * time.Second // up to this: so long may text keys outlive an outage
	maxReplicas  = 4096            // remembered; more than a mesh has
	// strikes is how many refusals, strange answers or wrong counts in a row
	// put a rung to rest. One is a prompt's own fault, or an accident.
	strikes = 3
	// maxShapes bounds the shapes of converted prompts that are remembered for
	// a rung; clients send few.
	maxShapes = 256
)

// rungState is what is known of one rung of one replica for one kind.
type rungState struct {
	restUntil time.Time
	why       string // it rests; for people
	worked    bool   // it answered at least once
	struck    int    // refusals before it ever worked, and strange answers, in a row
	wrong     int    // answers in a row whose length the engine's usage denied
	// shapes are which form of converted prompts was right, by their shape.
	shapes map[uint16]shapeState
}

// shapeState is what is known of converted prompts of one shape.
type shapeState struct {
	form  int       // the one that is right
	why   error     // none is
	until time.Time // and so long they are not asked for
}

// rest puts the rung to rest.
func (r *rungState) rest(now time.Time, why string) {
	*r = rungState{restUntil: now.Add(reprobeAfter), why: why}
}

// ability is what is known of one replica.
type ability struct {
	life       int64
	rungs      [kinds][maxSteps]rungState
	failures   int       // in a row
	quietUntil time.Time // do not ask before
	probing    bool      // one question was let through after a quiet time
}

// abilities remembers replicas by URL.
type abilities struct {
	mu       sync.Mutex
	replicas map[string]*ability
}

// ask reports which rungs to try now. After a quiet time one caller is let
// through to probe; the others stay away for the length of a deadline.
func (a *abilities) ask(o *Oracle, k Kind, now time.Time, deadline time.Duration) (open [maxSteps]bool, refusal Reason) {
	a.mu.Lock()
	defer a.mu.Unlock()
	steps := ladder(o.Engine, k)
	r := a.getLocked(o)
	refusal = Unsupported
	for i := range steps {
		if s := &r.rungs[k][i]; !now.Before(s.restUntil) {
			open[i], refusal = true, ""
		} else if strings.HasPrefix(s.why, differs) {
			refusal = Differs
		}
	}
	if refusal != "" {
		return open, refusal
	}
	if now.Before(r.quietUntil) {
		return open, Cooling
	}
	if !r.quietUntil.IsZero() {
		r.quietUntil, r.probing = now.Add(deadline), true
	}
	return open, ""
}

// resting reports whether the replica is not asked for prompts of a kind now.
func (a *abilities) resting(o *Oracle, k Kind, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.replicas[o.URL]
	if r == nil || o.Life > r.life {
		return !Asks(o.Engine, k)
	}
	if now.Before(r.quietUntil) {
		return true
	}
	for i := range ladder(o.Engine, k) {
		if !now.Before(r.rungs[k][i].restUntil) {
			return false
		}
	}
	return true
}

// why says for people what is wrong with the rungs that rest.
func (a *abilities) why(o *Oracle, k Kind, now time.Time) string {
	steps := ladder(o.Engine, k)
	if len(steps) == 0 {
		return fmt.Sprintf("%s has no endpoint that tells the tokens of a %s prompt", o.Engine, k)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.getLocked(o)
	var parts []string
	for i, s := range steps {
		if st := &r.rungs[k][i]; now.Before(st.restUntil) {
			parts = append(parts, s.path+" "+st.why)
		}
	}
	return strings.Join(parts, "; ")
}

func (a *abilities) getLocked(o *Oracle) *ability {
	r := a.replicas[o.URL]
	if r == nil && len(a.replicas) >= maxReplicas {
		for old := range a.replicas { // any: it is only learned again
			delete(a.replicas, old)
			break
		}
	}
	if r == nil || o.Life > r.life { // ranks behind one URL come up one after the other
		r = &ability{life: o.Life}
		a.replicas[o.URL] = r
	}
	return r
}

// note changes what is known of one rung.
func (a *abilities) note(o *Oracle, k Kind, rung int, change func(*rungState)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.getLocked(o).rungs[k][rung])
}

// missing notes that a rung is not there.
func (a *abilities) missing(o *Oracle, k Kind, rung int, now time.Time, why string) {
	a.note(o, k, rung, func(s *rungState) { s.rest(now, why) })
}

// refused notes a 4xx. A rung that never worked and refused its first prompts
// takes none: SGLang before 0.5.23 refuses every chat so.
func (a *abilities) refused(o *Oracle, k Kind, rung int, now time.Time, why string) {
	a.note(o, k, rung, func(s *rungState) {
		if s.worked {
			return
		}
		if s.struck++; s.struck >= strikes {
			s.rest(now, "refuses every prompt: "+why)
		}
	})
}

// strange notes an answer that is none.
func (a *abilities) strange(o *Oracle, k Kind, rung int, now time.Time, why string) {
	a.note(o, k, rung, func(s *rungState) {
		if s.struck++; s.struck >= strikes {
			s.rest(now, "answers what is no list of token ids: "+why)
		}
	})
}

// worked notes a good answer.
func (a *abilities) worked(o *Oracle, k Kind, rung int) {
	a.note(o, k, rung, func(s *rungState) { s.worked, s.struck = true, 0 })
}

// differs begins the reason of a rung that the engine's own usage denied.
const differs = "counts other tokens than the engine used"

// judged notes whether an answer had the length that the engine then counted.
func (a *abilities) judged(from *source, right bool, now time.Time, why string) {
	a.note(&from.oracle, from.kind, from.rung, func(s *rungState) {
		if right {
			s.wrong = 0
		} else if s.wrong++; s.wrong >= strikes || from.converted {
			s.rest(now, differs+": "+why)
		}
	})
}

// shape is what is known of converted prompts of a shape.
func (a *abilities) shape(o *Oracle, k Kind, rung int, shape uint16) (s shapeState, known bool) {
	a.note(o, k, rung, func(r *rungState) { s, known = r.shapes[shape] })
	return s, known
}

// proven notes which form is right, or that none is.
func (a *abilities) proven(o *Oracle, k Kind, rung int, shape uint16, s shapeState) {
	a.note(o, k, rung, func(r *rungState) {
		if r.shapes == nil || len(r.shapes) >= maxShapes {
			r.shapes = make(map[uint16]shapeState)
		}
		r.shapes[shape] = s
	})
}

// answered notes that the replica is well.
func (a *abilities) answered(o *Oracle) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.getLocked(o)
	r.failures, r.quietUntil, r.probing = 0, time.Time{}, false
}

// failed notes a time-out, a lost connection or a server error. Of many
// questions that one outage fails together only those count that found the
// replica not yet left alone, else a moment's outage would cool the longest.
func (a *abilities) failed(o *Oracle, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.getLocked(o)
	if now.Before(r.quietUntil) && !r.probing {
		return
	}
	r.probing = false
	if r.failures++; r.failures >= coolAfter {
		pause := coolFirst << min(r.failures-coolAfter, 10)
		r.quietUntil = now.Add(min(pause, coolMost))
	}
}
