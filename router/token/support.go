package token

import (
	"sync"
	"time"
)

// How long a replica is left alone.
const (
	reprobeAfter   = time.Minute     // has neither endpoint
	coolAfter      = 3               // failures in a row
	coolFirst      = 2 * time.Second // then, doubling
	coolMost       = 8 * time.Second // up to this: so long may text keys outlive an outage
	maxReplicas    = 4096            // remembered; more than a mesh has
	renderSuffix   = "/render"
	tokenizePath   = "/tokenize"
	completions    = "/v1/completions"
	chatCompletion = "/v1/chat/completions"
)

// ability is what is known of one replica's tokenizer endpoints.
type ability struct {
	noRender   bool
	noTokenize bool
	failures   int       // in a row
	quietUntil time.Time // do not ask before
	probing    bool      // one question was let through after a quiet time
}

// abilities remembers replicas by URL.
type abilities struct {
	mu       sync.Mutex
	replicas map[string]*ability
}

// ask reports whether to ask the replica now, and whether its render endpoint
// is worth trying. After a quiet time one caller is let through to probe; the
// others stay away for the length of a deadline.
func (a *abilities) ask(url string, now time.Time, deadline time.Duration) (render bool, refusal Reason) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.replicas[url]
	if r == nil {
		return true, ""
	}
	if now.Before(r.quietUntil) {
		if r.noRender && r.noTokenize {
			return false, Unsupported
		}
		return false, Cooling
	}
	if !r.quietUntil.IsZero() {
		r.quietUntil, r.probing = now.Add(deadline), true
		r.noRender, r.noTokenize = r.noRender && !r.noTokenize, false
	}
	return !r.noRender, ""
}

// resting reports whether the replica is being left alone.
func (a *abilities) resting(url string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.replicas[url]
	return r != nil && now.Before(r.quietUntil)
}

func (a *abilities) getLocked(url string) *ability {
	r := a.replicas[url]
	if r == nil {
		if len(a.replicas) >= maxReplicas {
			for old := range a.replicas { // any: it is only learned again
				delete(a.replicas, old)
				break
			}
		}
		r = &ability{}
		a.replicas[url] = r
	}
	return r
}

// missing notes that an endpoint does not exist.
func (a *abilities) missing(url string, render bool, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.getLocked(url)
	if render {
		r.noRender = true
		return
	}
	r.noTokenize, r.probing = true, false
	r.quietUntil = now.Add(reprobeAfter)
}

// answered notes that the replica works.
func (a *abilities) answered(url string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.getLocked(url)
	r.failures, r.quietUntil, r.probing = 0, time.Time{}, false
}

// failed notes a time-out, a lost connection or a server error. Of many
// questions that one outage fails together only those count that found the
// replica not yet left alone, else a moment's outage would cool the longest.
func (a *abilities) failed(url string, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.getLocked(url)
	if now.Before(r.quietUntil) && !r.probing {
		return
	}
	r.probing = false
	if r.failures++; r.failures >= coolAfter {
		pause := coolFirst << min(r.failures-coolAfter, 10)
		r.quietUntil = now.Add(min(pause, coolMost))
	}
}
