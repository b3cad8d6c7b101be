package token

import (
	"sync"
	"time"
)

// How long a replica is left alone.
const (
	reprobeAfter   = time.Minute      // has neither endpoint
	coolAfter      = 3                // failures in a row
	coolFirst      = 2 * time.Second  // then, doubling
	coolMost       = 60 * time.Second // up to this
	maxReplicas    = 4096             // remembered; more than a mesh has
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
		r.quietUntil = now.Add(deadline)
		r.noRender, r.noTokenize = r.noRender && !r.noTokenize, false
	}
	return !r.noRender, ""
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
	r.noTokenize = true
	r.quietUntil = now.Add(reprobeAfter)
}

// answered notes that the replica works.
func (a *abilities) answered(url string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.getLocked(url)
	r.failures, r.quietUntil = 0, time.Time{}
}

// failed notes a time-out, a lost connection or a server error.
func (a *abilities) failed(url string, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.getLocked(url)
	if r.failures++; r.failures >= coolAfter {
		pause := coolFirst << min(r.failures-coolAfter, 10)
		r.quietUntil = now.Add(min(pause, coolMost))
	}
}
