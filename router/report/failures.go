package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/banyan-llm/banyan/router/console"
	"github.com/banyan-llm/banyan/router/requests"
)

// The window of failures: slots of ten seconds, a minute in all.
const (
	failureSlot  = 10 * time.Second
	failureSlots = 6
	maxFailures  = 64 // kinds of failures in a slot; more are "other"
	shownKinds   = 4  // of them in a sentence
)

// Shares of the last minute's requests that are a problem, of at least so many.
const (
	failedShare  = 0.05
	failedCount  = 3
	refusedCount = 10 // and more than half of them: one client's mistakes are no trouble
)

// failure is what a request ended with instead of an answer.
type failure struct {
	model, replica, cause string
	status                int
}

// Failures counts the requests of the last minute, and how those that failed did.
// The zero value is ready.
type Failures struct {
	mu    sync.Mutex // guards below
	slots [failureSlots]failureCount
}

type failureCount struct {
	number                       int64
	total, failed, shed, refused uint64
	by                           map[failure]uint64
}

// Add counts an ended request of a model that somebody serves, or "other".
func (f *Failures) Add(r *requests.Record, model string, now time.Time) {
	if r.Error == requests.ErrLeft {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	number := now.UnixNano() / int64(failureSlot)
	s := &f.slots[number%failureSlots]
	if s.number != number || s.by == nil {
		*s = failureCount{number: number, by: map[failure]uint64{}}
	}
	s.total++
	switch {
	case !r.Failed():
		return
	case r.Status == 429:
		s.shed++
	case r.Status >= 400 && r.Status < 500:
		if r.Replica == "" { // this router's own refusal: the client's mistake
			return
		}
		s.refused++
	default:
		s.failed++
	}
	kind := failure{model, r.Replica, causeOf(r), r.Status}
	if _, ok := s.by[kind]; !ok && len(s.by) >= maxFailures {
		kind = failure{"other", "other", "other", r.Status}
	}
	s.by[kind]++
}

// causeOf says in a few words how a request failed.
func causeOf(r *requests.Record) string {
	switch r.Error {
	case "":
		return fmt.Sprintf("status %d", r.Status)
	case requests.ErrCut:
		return "the answer broke off"
	case requests.ErrInStream:
		return "an error inside the stream"
	case requests.ErrWrong:
		return "no answer of the API"
	}
	return strings.ReplaceAll(r.Error, "_", " ")
}

// Since is the last minute's count.
func (f *Failures) Since(now time.Time) console.Failures {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out console.Failures
	sum := map[failure]uint64{}
	for i := range f.slots {
		s := &f.slots[i]
		if now.UnixNano()/int64(failureSlot)-s.number >= failureSlots {
			continue
		}
		out.Total, out.Failed, out.Shed, out.Refused = out.Total+s.total, out.Failed+s.failed, out.Shed+s.shed, out.Refused+s.refused
		for kind, n := range s.by {
			sum[kind] += n
		}
	}
	out.By = []console.Failure{}
	for kind, n := range sum {
		out.By = append(out.By, console.Failure{Model: kind.model, Replica: kind.replica, Cause: kind.cause, Status: kind.status, Count: n})
	}
	slices.SortFunc(out.By, func(a, b console.Failure) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Replica, b.Replica), strings.Compare(a.Cause, b.Cause), strings.Compare(a.Model, b.Model))
	})
	return out
}

// failureProblems says what share of the last minute's requests failed, and how.
func failureProblems(r *console.Failures) (out []console.Problem) {
	add := func(n uint64, what, help string, of func(*console.Failure) bool) {
		out = append(out, console.Problem{
			Text: fmt.Sprintf("%d of %d requests %s in the last minute (%.0f %%): %s", n, r.Total, what, 100*float64(n)/float64(r.Total), kindsOf(r.By, of)), Help: help,
		})
	}
	much := func(n uint64) bool { return n >= failedCount && float64(n) >= failedShare*float64(r.Total) }
	if much(r.Failed) {
		add(r.Failed, "failed", "Look at the log of the replicas it names; `banyan why ID` tells of one request, its id is in the access log and in X-Request-Id",
			func(k *console.Failure) bool { return !k.ClientError() && !k.Overload() })
	}
	if much(r.Shed) {
		add(r.Shed, "were turned away for overload", "Add replicas, or raise admission.* and limits.queue if clients can wait", (*console.Failure).Overload)
	}
	if r.Refused >= refusedCount && 2*r.Refused > r.Total {
		add(r.Refused, "were refused by replicas", "Ask one of them: the error says what it does not take. If only one replica refuses, compare its flags and version with the others'", (*console.Failure).ClientError)
	}
	return out
}

// placeProblems says when clients cannot connect, and when what is written of
// their requests is lost.
func placeProblems(r *console.Requests) (problems, notes []console.Problem) {
	if r.Recent != nil && r.Recent.TurnedAway > 0 {
		problems = append(problems, console.Problem{
			Text: fmt.Sprintf("%d connections of clients were turned away in the last minute: limits.connections are all in use", r.Recent.TurnedAway),
			Help: "Add peers, or raise limits.connections (and the number of files that the process may open)",
		})
	}
	if r.LogFault != "" {
		problems = append(problems, console.Problem{
			Text: fmt.Sprintf("The access log cannot be written: %s; lines lost: %d", r.LogFault, r.LogLost),
			Help: "Requests go on. Make room on the disk, or correct access_log.path: the next lines are written as soon as they can be",
		})
	}
	if r.FewFiles != "" {
		notes = append(notes, console.Problem{Text: "Few clients can connect at a time: " + r.FewFiles, Help: "Raise the limit where the process is started, then restart it"})
	}
	return problems, notes
}

// kindsOf lists the commonest kinds that pass.
func kindsOf(by []console.Failure, of func(*console.Failure) bool) string {
	var words []string
	for i := range by {
		if k := &by[i]; of(k) {
			where := ""
			if k.Replica != "" {
				where = " at " + k.Replica
			}
			words = append(words, fmt.Sprintf("%d %s%s (%s)", k.Count, k.Cause, where, k.Model))
		}
	}
	return listedKinds(words)
}

func listedKinds(words []string) string {
	if len(words) <= shownKinds {
		return strings.Join(words, ", ")
	}
	return strings.Join(words[:shownKinds], ", ") + " and others"
}
