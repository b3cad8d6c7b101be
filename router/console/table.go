package console

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Look is how a status is drawn on a terminal.
type Look struct {
	Width int  // of the terminal; 0: nothing is cut or left out
	Color bool // states and verdict in colour
	All   bool // long lists whole, whatever the width

	Strict bool // of checks: advice counts as what does not hold
}

// shortList is how many rows of a table a terminal shows unless all are asked
// for.
const shortList = 10

// WriteTable draws the status for people: verdict first, worst rows first,
// problems with their cure last, nearest to the prompt.
func (s *Status) WriteTable(w io.Writer, look Look) error {
	out := &printer{w: w, look: look}
	verdict := "OK: converged,"
	if s.others() == 0 {
		verdict = "OK: no other peer is known,"
	}
	if len(s.Problems) > 0 {
		verdict = "TROUBLE: " + s.trouble() + ";"
	}
	t := s.tally()
	out.wrapped("", s.Level, "mesh %s: %s %s, %s, %d divergent streams  (seen from %s, %s)",
		s.Label, verdict, s.peersText(&t), t.replicasText(), s.Mesh.Divergent, s.Name, time.UnixMilli(s.TimeMs).Format("15:04:05"))
	out.line("")
	out.table(peerColumns, peerRows(s))
	out.line("")
	out.table(replicaColumns, replicaRows(s))
	if len(s.Keys) > 0 {
		out.line("")
		out.table(keyColumns, keyRows(s))
	}
	if rows := prefixRows(s, look.All); len(rows) > 0 {
		out.line("")
		out.table(prefixColumns, rows)
	}
	out.line("")
	for _, fact := range s.summary(look.All || look.Width == 0) {
		out.wrapped("          ", "", "%-10s%s", fact[0], fact[1])
	}
	out.line("")
	out.wrapped("  ", "head", "%s", s.legend())
	if len(s.Problems)+len(s.Notes) > 0 {
		out.line("")
	}
	s.writeProblems(out)
	return out.err
}

// legend says what the columns count that do not say it themselves.
func (s *Status) legend() string {
	text := "VIEW AGE: age of the load data of that peer. FACTS, BLOCKS: cached blocks known. UNCACHED: prompt tokens in flight that are not cached there. " +
		"CACHED: share of prompt tokens that the replica reported as cached, of requests through " + dash(s.Name) + ". STREAM: the connection to its cache events (ok: connected). " +
		"KEYS: how prompts are matched with cached blocks (exact: by the engine's own tokens)."
	if len(s.Prefixes) > 0 {
		text += " HOLDERS: replicas that have the prefix cached. HITS: share of the last prompts that found it cached."
	}
	return text
}

// writeProblems writes the problems and the notes with their cures.
func (s *Status) writeProblems(out *printer) {
	for _, p := range s.Problems {
		out.wrapped("  ", LevelWarn, "! %s. %s", p.Text, p.Help)
	}
	for _, p := range s.Notes {
		out.wrapped("  ", "", "i %s. %s", p.Text, p.Help)
	}
}

// summary is what is said in sentences; whole: with what is for developers.
func (s *Status) summary(whole bool) [][2]string {
	r := &s.Requests
	cached := ratio(r.CachedTokens, r.PromptTokens) + " of " + count(r.PromptTokens) + " prompt tokens since the start"
	ttft := "p50 " + millis(r.TTFTMs.P50) + ", p99 " + millis(r.TTFTMs.P99) + " since the start"
	if q := r.Recent; q != nil {
		cached = ratio(q.CachedTokens, q.PromptTokens) + " in the last minute, " + cached
		ttft = "p50 " + millis(q.TTFTMs.P50) + ", p99 " + millis(q.TTFTMs.P99) + " in the last minute; " + ttft
	}
	out := [][2]string{
		{"requests", count(r.Total) + " through this peer, " + count(r.Failed) + " failed"},
		{"cached", cached},
		{"ttft", ttft},
	}
	if whole {
		out = append(out, [2]string{"tree", count(s.Tree.Facts) + " facts in " + sizeText(uint64(max(s.Tree.Bytes, 0)))})
		out = append(out, s.Mesh.gossip()...)
	}
	return append(out, s.optional()...)
}

func peerRows(s *Status) (rows []tableRow) {
	for _, p := range s.Peers {
		name, ready := p.Name, "no"
		if p.Self {
			name += "*"
		}
		switch {
		case p.State != "alive":
			ready = "-"
		case p.Draining:
			ready = "draining"
		case p.Ready:
			ready = "yes"
		}
		rows = append(rows, tableRow{levelOf(peerWord(&p)), []string{
			name, p.Address, stateOf(&p), ready, dash(p.Version), number(p.Rate, 1), millis(p.ViewAgeMs), maybe(p.Facts, count), maybe(p.Memory, sizeText),
		}})
	}
	return worstFirst(rows)
}

func stateOf(p *Peer) string {
	if p.State == "alive" && p.Refused != "" {
		return "refused"
	}
	return p.State
}

var peerColumns = []column{
	{head: "PEER"},
	{head: "ADDRESS", drop: 3},
	{head: "STATE"},
	{head: "READY"},
	{head: "VERSION", drop: 4},
	{head: "REQ/S", right: true},
	{head: "VIEW AGE", right: true},
	{head: "FACTS", right: true, drop: 1},
	{head: "MEM", right: true, drop: 2},
}

func replicaRows(s *Status) (rows []tableRow) {
	for _, r := range s.Replicas {
		state, cached, blocks, keys := r.stateWord(), share(r.Cached), count(r.Stream.Facts), keysText(s, &r)
		stream := r.Stream.State
		switch {
		case !r.Answers(): // what was known of it says nothing now; the reason is told below
			state += " " + age(r.SinceMs)
			cached, blocks, stream, keys = "-", "-", "-", "-"
		case r.SlowStart != nil && state == "up":
			state = fmt.Sprintf("ramping up %.0f %%", 100**r.SlowStart)
		}
		if r.Stream.Detail != "" && stream != "ok" && r.Answers() {
			stream += ": " + r.Stream.Detail
		}
		rows = append(rows, tableRow{worse(levelOf(r.State), levelOf(r.Stream.State)), []string{
			r.Name, r.URL, engineText(&r), roleText(&r), state, fmt.Sprint(r.Inflight), count(uint64(max(r.Uncached, 0))), cached, blocks, stream, keys,
		}})
	}
	return worstFirst(rows)
}

var replicaColumns = []column{
	{head: "REPLICA"},
	{head: "URL", drop: 4},
	{head: "ENGINE", drop: 5},
	{head: "ROLE", drop: 6},
	{head: "STATE"},
	{head: "INFLIGHT", right: true},
	{head: "UNCACHED", right: true, drop: 1},
	{head: "CACHED", right: true},
	{head: "BLOCKS", right: true, drop: 2},
	{head: "STREAM"},
	{head: "KEYS", drop: 7},
}

// roleText is what a replica does, if it does anything itself.
func roleText(r *Replica) string {
	if r.Kind == "pool" || r.Kind == "render" {
		return r.Kind
	}
	return r.Role
}

// engineText is the engine and its page; "?" marks what was only assumed.
func engineText(r *Replica) string {
	text := dash(r.Engine)
	if r.EngineFrom == "assumed" {
		text += "?"
	}
	if r.BlockSize != nil {
		text += fmt.Sprintf("/%d", *r.BlockSize)
	}
	return text
}

// keyRows say how prompts of each model and API become keys, and why not as
// the engine's events do.
func keyRows(s *Status) (rows []tableRow) {
	for i := range s.Keys {
		k, level := &s.Keys[i], ""
		if k.Off {
			level = LevelWarn
		}
		how, why := "exact, by "+k.Rung, k.Why
		if !k.Exact {
			how = k.Scheme
			if why == "" {
				why = k.Reason
			}
		}
		rows = append(rows, tableRow{level, []string{k.Model, k.API, how, dash(why)}})
	}
	return worstFirst(rows)
}

// maxKeysTold bounds the models and APIs in a note.
const maxKeysTold = 12

// keysNote says in a paragraph what keyRows say.
func keysNote(s *Status) string {
	rows := keyRows(s)
	var parts []string
	for i, row := range rows {
		if i == maxKeysTold {
			parts = append(parts, fmt.Sprintf("%d more: see banyan status", len(rows)-i))
			break
		}
		text := fmt.Sprintf("%s %s: %s", row.cells[0], row.cells[1], row.cells[2])
		if why := row.cells[3]; why != "-" {
			text += " (" + why + ")"
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return "No prompt was keyed yet."
	}
	return "Prompts are keyed: " + strings.Join(parts, " · ") + "."
}

var keyColumns = []column{{head: "MODEL"}, {head: "API"}, {head: "KEYS"}, {head: "WHY", drop: 1}}

// keysText is how prompts of a replica's models become keys, as the rows of
// those models tell.
func keysText(s *Status, r *Replica) string {
	exact, text := false, false
	for i := range s.Keys {
		if slices.Contains(r.Models, s.Keys[i].Model) {
			exact = exact || s.Keys[i].Exact
			text = text || !s.Keys[i].Exact
		}
	}
	switch {
	case exact && text:
		return "exact, text"
	case exact:
		return "exact"
	case text:
		return "text"
	case r.Tokenizer == "engine":
		return "exact"
	}
	return dash(r.Tokenizer)
}

// prefixRows are the pieces that the last prompts used, the most used first;
// all of them if no prompt came yet, or if all are asked for.
func prefixRows(s *Status, all bool) (rows []tableRow) {
	used := slices.Clone(s.Prefixes)
	if !all {
		used = slices.DeleteFunc(used, func(p Prefix) bool { return p.HitShare != nil && *p.HitShare < .005 })
	}
	part := func(p Prefix) float64 {
		if p.HitShare == nil {
			return 0
		}
		return *p.HitShare
	}
	slices.SortStableFunc(used, func(a, b Prefix) int { return cmp.Compare(part(b), part(a)) })
	for _, p := range used {
		rows = append(rows, tableRow{"", []string{
			short(p.Key), fmt.Sprint(p.Tokens), fmt.Sprintf("%d/%d", len(p.Holders), len(s.Replicas)), share(p.HitShare),
		}})
	}
	return rows
}

var prefixColumns = []column{
	{head: "PREFIX"}, {head: "TOKENS", right: true}, {head: "HOLDERS", right: true}, {head: "HITS", right: true},
}

func worstFirst(rows []tableRow) []tableRow {
	slices.SortStableFunc(rows, func(a, b tableRow) int { return cmp.Compare(severity[b.level], severity[a.level]) })
	return rows
}
