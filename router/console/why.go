package console

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/banyan-llm/banyan/router/requests"
)

// WriteWhy tells one request's story: what became of it, each try, and each
// decision with what was known and every candidate's score, best first.
func WriteWhy(w io.Writer, told *requests.Told, look Look) error {
	out := &printer{w: w, look: look}
	r := &told.Request
	out.wrapped("  ", toldLevel(told), "%s: %s", r.ID, Outcome(told))
	out.line("")
	for _, fact := range requestFacts(told) {
		out.wrapped("            ", "", "%-12s%s", fact[0], fact[1])
	}
	if len(r.Tries) > 0 {
		out.line("")
		rows := make([]tableRow, len(r.Tries))
		for i := range r.Tries {
			rows[i] = tryRow(i, &r.Tries[i])
		}
		out.table(tryColumns, rows)
		if n := r.Total - len(r.Tries); n > 0 {
			out.line(fmt.Sprintf("… and %d more tries", n))
		}
	}
	for i := range told.Decisions {
		out.line("")
		out.decision(i, &told.Decisions[i])
	}
	if len(told.Decisions) == 0 {
		out.line("")
		out.wrapped("", "", "%s", undecided(r))
	}
	return out.err
}

// keysWord says how a prompt's cached tokens were found.
func keysWord(scheme string) string {
	switch scheme {
	case "ids":
		return "exact, by the token ids in the request"
	case "engine":
		return "exact, by the engine's own tokens"
	case "text":
		return "by text, from this mesh's own requests"
	}
	return dash(scheme)
}

// matchedText splits what a choice counted on into what the replica had told and
// what earlier requests were to leave there.
func matchedText(d *requests.ToldDecision) string {
	i := slices.IndexFunc(d.Candidates, func(c requests.ToldCandidate) bool { return c.Replica == d.Replica })
	if i < 0 {
		return fmt.Sprintf("%d cached there or expected", d.Matched)
	}
	cached := min(d.Candidates[i].Confirmed, d.Matched)
	return fmt.Sprintf("%d cached there, %d more expected from requests sent there before", cached, d.Matched-cached)
}

// undecided says why no replica was chosen.
func undecided(r *requests.ToldRecord) string {
	switch r.Error {
	case "no_replica":
		return "No replica was chosen: none that serves the model was up. `banyan status` says why."
	case "overloaded":
		return "No replica was chosen: all were full until its time in the queue was over, or the queue was full."
	}
	return "No replica was chosen for it."
}

var tryColumns = []column{{head: "TRY", right: true}, {head: "REPLICA"}, {head: "AT", right: true}, {head: "TOOK", right: true}, {head: "STATUS", right: true}, {head: "RESULT"}}

func tryRow(i int, t *requests.ToldTry) tableRow {
	level, result := "", "answered"
	switch {
	case t.Lost:
		result = "the other replica of the hedge was faster"
	case t.Cause == requests.CauseLeft:
		result = "cancelled: the client left"
	case t.Cause != "":
		level, result = LevelWarn, t.Cause
		if t.Detail != "" {
			result += ": " + t.Detail
		}
	case t.Detail != "":
		level, result = LevelWarn, "broke off: "+t.Detail
	}
	if t.Before > 0 {
		result += fmt.Sprintf(" (it went on from token %d)", t.Before+1)
	}
	status := "-"
	if t.Status > 0 {
		status = fmt.Sprint(t.Status)
	}
	return tableRow{level, []string{fmt.Sprint(i + 1), t.Replica, "+" + millis(&t.Begin), millis(&t.Took), status, result}}
}

// Outcome is what became of a request in one sentence.
func Outcome(told *requests.Told) string {
	r := &told.Request
	asked := ""
	if r.Total > 1 {
		asked = fmt.Sprintf(", after %d tries", r.Total)
	}
	by := ""
	if r.Replica != "" {
		by = " by " + r.Replica
	}
	switch {
	case told.State == "running" && len(told.Decisions) == 0:
		return "has waited " + millis(&r.Duration) + ", no replica yet"
	case told.State == "running":
		return "running for " + millis(&r.Duration) + " at " + r.Replica + asked
	case r.Error == requests.ErrLeft:
		return "the client left after " + millis(&r.Duration) + asked
	case r.Error == requests.ErrCut:
		return "FAILED: the response of " + dash(r.Replica) + " ended after its first byte, before it was complete" + asked
	case r.Error == requests.ErrInStream:
		return "FAILED: " + dash(r.Replica) + " reported an error inside the streamed response" + asked
	case r.Status >= 400 && r.Error != "":
		return fmt.Sprintf("FAILED: refused with %d %s%s", r.Status, r.Error, asked)
	case r.Status >= 400 || r.Status == 0:
		return fmt.Sprintf("FAILED: answered%s with status %d%s", by, r.Status, asked)
	case r.TTFT != nil:
		return fmt.Sprintf("answered%s with status %d; first token after %s%s", by, r.Status, millis(r.TTFT), asked)
	}
	return fmt.Sprintf("answered%s with status %d after %s%s", by, r.Status, millis(&r.Duration), asked)
}

func toldLevel(told *requests.Told) string {
	r := &told.Request
	switch {
	case told.State == "running" || r.Error == requests.ErrLeft:
		return ""
	case r.Error != "" || r.Status >= 400 || r.Status == 0:
		return LevelBad
	case r.Total > 1:
		return LevelWarn
	}
	return LevelOK
}

// requestFacts are the lines under the sentence.
func requestFacts(told *requests.Told) (out [][2]string) {
	r := &told.Request
	add := func(name, text string) {
		if text != "" {
			out = append(out, [2]string{name, text})
		}
	}
	kind := ""
	if r.Stream {
		kind = ", streamed"
	}
	add("received", r.Time+" at peer "+told.Peer)
	add("request", r.Endpoint+kind)
	add("model", r.Model)
	add("key", r.Key)
	add("tenant", r.Tenant)
	times := "queue " + millis(&r.Queue) + ", first token " + millis(r.TTFT) + ", total " + millis(&r.Duration)
	add("time", times)
	add("tokens", fmt.Sprintf("prompt %s (predicted cached %s, reported cached %s), output %s", tokens(r.Prompt), tokens(r.Matched), tokens(r.Cached), tokens(r.Output)))
	add("client id", r.ClientID)
	add("trace", r.Trace)
	return out
}

func tokens(n *int) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}

var candidateColumns = []column{
	{head: "CANDIDATE"},
	{head: "SCORE", right: true},
	{head: "CACHED", right: true},
	{head: "EXPECTED", right: true, drop: 1},
	{head: "WAITING", right: true},
	{head: "STREAMS", right: true},
}

// reasonWords say what the reasons of a choice mean.
var reasonWords = map[string]string{
	"prefix": "it holds most of the prompt", "load": "it was the least loaded", "spill": "the replica that holds the prompt was too busy", "session": "it served the session before",
	"stale": "data from other peers was too old", "only": "there was no other", "baseline": "the policy looks at neither cache nor load",
}

// decision draws one choice of a replica.
func (p *printer) decision(i int, d *requests.ToldDecision) {
	to := d.Replica
	if d.Decode != "" {
		to += " to prefill, " + d.Decode + " to decode"
	}
	why := d.Reason
	if words := reasonWords[d.Reason]; words != "" {
		why += ": " + words
	}
	p.wrapped("  ", "", "Choice %d, at +%s: %s (%s; policy %s)", i+1, millis(&d.AtMs), to, why, d.Policy)
	p.wrapped("  ", "", "  known: of %d prompt tokens %s (%s); predicted first token %s; load data up to %s old, cache data up to %s, from %d peers",
		d.Prompt, matchedText(d), keysWord(d.Keys), millis(d.Predicted), millis(&d.LoadAgeMs), millis(&d.IndexAgeMs), d.Peers)
	if d.Waited > 0 {
		moved := "it stayed"
		if d.From != "" {
			moved = "moved here from " + d.From
		}
		p.wrapped("  ", "", "  waited %s to see what other peers sent at the same moment: %s", millis(&d.Waited), moved)
	}
	if d.Source != "" {
		p.wrapped("  ", "", "  asked to fetch %d more tokens from %s instead of computing them", d.Fetched, d.Source)
	}
	list := slices.Clone(d.Candidates)
	slices.SortStableFunc(list, func(a, b requests.ToldCandidate) int {
		switch {
		case a.Score == nil && b.Score == nil:
			return 0
		case a.Score == nil:
			return 1
		case b.Score == nil:
			return -1
		}
		return cmp.Compare(*a.Score, *b.Score)
	})
	rows := make([]tableRow, len(list))
	for i, c := range list {
		name := c.Replica
		if c.Replica == d.Replica {
			name += " <- chosen"
		}
		score := "-"
		if c.Score != nil {
			score = strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.6f", *c.Score), "0"), ".")
		}
		rows[i] = tableRow{"", []string{name, score, fmt.Sprint(c.Confirmed), fmt.Sprint(c.Expected), fmt.Sprint(c.Waiting), fmt.Sprint(c.Streams)}}
	}
	p.table(candidateColumns, rows)
	if len(rows) > 1 {
		p.line("CACHED: prompt tokens cached there, by its events. EXPECTED: prompt tokens that requests sent there lately, by any peer, have or will have cached; those in CACHED may be among them. The lowest SCORE wins (what it counts depends on the policy; ttft: seconds, the predicted first token plus penalties).")
	}
	if n := d.Count - len(list); n > 0 {
		p.line(fmt.Sprintf("… and %d more candidates", n))
	}
}

var requestColumns = []column{
	{head: "TIME"},
	{head: "ID"},
	{head: "MODEL", drop: 2},
	{head: "REPLICA", drop: 1},
	{head: "WHAT CAME OF IT"},
}

// WriteRequests lists requests, the newest first.
func WriteRequests(w io.Writer, list []requests.Told, look Look) error {
	out := &printer{w: w, look: look}
	if len(list) == 0 {
		out.line("This peer remembers no request that failed, was slow or was retried.")
		out.line(refusedHint)
		return out.err
	}
	list = slices.SortedStableFunc(slices.Values(list), func(a, b requests.Told) int { return cmp.Compare(b.Request.Time, a.Request.Time) })
	rows := make([]tableRow, len(list))
	for i := range list {
		r := &list[i].Request
		rows[i] = tableRow{toldLevel(&list[i]), []string{strings.TrimSuffix(r.Time, "Z"), r.ID, dash(r.Model), dash(r.Replica), Outcome(&list[i])}}
	}
	look.All = true
	out.look = look
	out.table(requestColumns, rows)
	out.line(refusedHint)
	return out.err
}

// refusedHint says where the requests are that the list leaves out.
const refusedHint = "Listed are requests of this peer; the others list theirs (--peer). Not listed: requests whose client gave up before they were slow (access_log.slow), and 4xx responses, which are client errors. banyan why ID shows one."
