package console

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// maxMatrix is the largest mesh whose view ages are drawn as a matrix.
const maxMatrix = 16

// staleMs is the view age that is marked.
const staleMs = 1000

// Row is one line of the page: texts by the names that the template gives its
// cells, and the numbers that its columns are sorted by.
type Row struct {
	Key   string             `json:"key"`
	Class string             `json:"class"`
	Bar   float64            `json:"bar"` // 0 to 100
	Cells map[string]string  `json:"cells"`
	Sort  map[string]float64 `json:"sort,omitempty"`
	Lines []Row              `json:"lines,omitempty"` // candidates of a decision
	Ages  []Age              `json:"ages,omitempty"`
}

// Age is one cell of the matrix of view ages.
type Age struct {
	Text  string `json:"text"`
	Class string `json:"class"`
}

// Drawing is a status as the page shows it.
type Drawing struct {
	Level    string            `json:"level"`
	Cells    map[string]string `json:"cells"` // texts outside of tables
	Sparks   map[string]Line   `json:"sparks"`
	Problems []Problem         `json:"problems"`
	Replicas []Row             `json:"replicas"`
	Peers    []Row             `json:"peers"`
	Columns  []string          `json:"columns"` // of the matrix; none if it is too large or small
	Tree     []Branch          `json:"tree"`
	Unit     string            `json:"unit"`     // what shares of the tree are shares of
	Branches []Row             `json:"branches"` // the same as rows
	Names    []string          `json:"names"`    // of the replicas, in the order of ticks
}

func drawStatus(s *Status) Drawing {
	d := Drawing{Level: s.Level, Problems: s.Problems, Sparks: sparks(s.History, s.TimeMs)}
	tree, byHits := Forest(s.Prefixes, s.Grid)
	d.Tree = tree
	d.Unit = "of cached blocks"
	if byHits {
		d.Unit = "of the last prompts here that found it cached"
	}
	d.Replicas, d.Peers, d.Columns, d.Names = drawReplicas(s), drawPeers(s), columns(s), []string{}
	for _, r := range s.Replicas {
		d.Names = append(d.Names, r.Name)
	}
	for i := range d.Tree {
		row := drawBranch(&d.Tree[i], len(s.Replicas))
		row.Key = fmt.Sprintf("%s.%d", row.Key, i) // bundles have no key
		d.Branches = append(d.Branches, row)
	}
	rate, known := 0.0, false
	for _, p := range s.Peers {
		if p.Rate != nil {
			rate, known = rate+*p.Rate, true
		}
	}
	d.Cells = map[string]string{
		"label": s.Label, "verdict": s.Verdict, "mark": marks[s.Level], "name": s.Name, "version": s.Version, "policy": s.Policy,
		"time": time.UnixMilli(s.TimeMs).Format("15:04:05"), "uptime": age(1000 * s.UptimeS),
		"rate": "-", "rateNote": count(s.Requests.Total) + " through this peer since its start, " + count(s.Requests.Failed) + " failed",
		"keysNote": keysNote(s),
		"treeNote": treeText(&s.Tree, d.Unit),
		"meshNote": fmt.Sprintf("What one peer hears the others know %s later (99 %%: %s). %d streams differ. Received %s, sent %s.",
			millis(s.Mesh.PropagationMs.P50), millis(s.Mesh.PropagationMs.P99), s.Mesh.Divergent, sum(s.Mesh.BytesIn), sum(s.Mesh.BytesOut)),
	}
	if q := s.Queue; q != nil && q.Waiting > 0 {
		d.Cells["rateNote"] += fmt.Sprintf(", %d waiting for room", q.Waiting)
	}
	if known {
		d.Cells["rate"] = fmt.Sprintf("%.1f", rate)
	}
	drawLately(&d, &s.Requests)
	return d
}

// drawLately fills the numbers that tell of the last minute; their notes tell
// of all the time since the start.
func drawLately(d *Drawing, r *Requests) {
	is := r.Recent
	if is == nil {
		is = &Recent{}
	}
	d.Cells["cached"] = ratio(is.CachedTokens, is.PromptTokens)
	if r.Total == 0 {
		for _, name := range []string{"cached", "ttft", "added"} {
			d.Cells[name], d.Cells[name+"Note"] = "-", "nothing yet"
		}
		return
	}
	d.Cells["cachedNote"] = fmt.Sprintf("%s predicted; since the start %s of %s", ratio(is.MatchedTokens, is.PromptTokens),
		ratio(r.CachedTokens, r.PromptTokens), count(r.PromptTokens))
	for name, q := range map[string][2]Quantiles{"ttft": {is.TTFTMs, r.TTFTMs}, "added": {is.AddedMs, r.AddedMs}} {
		d.Cells[name] = millis(q[0].P50)
		d.Cells[name+"Note"] = fmt.Sprintf("median; p99 %s; since the start %s, p99 %s", millis(q[0].P99), millis(q[1].P50), millis(q[1].P99))
	}
}

func treeText(t *Tree, unit string) string {
	return fmt.Sprintf("%s cached blocks in %s, %s more predicted. Height: share %s.", count(t.Facts), sizeText(uint64(max(t.Bytes, 0))), count(t.Predicted), unit)
}

// marks stand beside the colour of a level.
var marks = map[string]string{LevelOK: "✓", LevelWarn: "!", LevelBad: "✕"}

func sum(m map[string]uint64) string {
	total := uint64(0)
	for _, n := range m {
		total += n
	}
	return sizeText(total)
}

func drawReplicas(s *Status) []Row {
	most := 8
	for _, r := range s.Replicas {
		most = max(most, r.Inflight)
	}
	rows := []Row{}
	for _, r := range s.Replicas {
		row := Row{Key: r.Name, Class: worse(levelOf(r.State), levelOf(r.Stream.State)), Bar: 100 * float64(r.Inflight) / float64(most)}
		row.Cells = map[string]string{
			"name": r.Name, "url": r.URL, "engine": engineText(&r), "role": roleText(&r), "state": stateText(&r),
			"inflight": fmt.Sprint(r.Inflight), "uncached": count(uint64(max(r.Uncached, 0))), "cached": share(r.Cached), "kv": share(r.KVUse),
			"model": modelText(&r), "errors": errorText(&r), "ttft": millis(r.TTFTMs),
			"blocks": count(r.Stream.Facts), "stream": r.Stream.State, "action": "drain", "detail": streamText(&r), "mark": marks[levelOf(r.State)],
			"streamMark": marks[levelOf(r.Stream.State)], "levels": " state-" + levelOf(r.State) + " stream-" + levelOf(r.Stream.State),
		}
		if r.State == "draining" {
			row.Cells["action"] = "undrain"
		}
		row.Sort = map[string]float64{
			"inflight": float64(r.Inflight), "uncached": float64(r.Uncached), "cached": orLess(r.Cached), "kv": orLess(r.KVUse), "errors": float64(r.Failed), "ttft": orLess(r.TTFTMs), "blocks": float64(r.Stream.Facts),
		}
		rows = append(rows, row)
	}
	slices.SortStableFunc(rows, func(a, b Row) int { return cmp.Compare(severity[b.Class], severity[a.Class]) })
	for i := range rows {
		rows[i].Class += rows[i].Cells["levels"]
		delete(rows[i].Cells, "levels")
	}
	return rows
}

// severity brings what needs a look to the top of a table.
var severity = map[string]int{LevelOK: 0, LevelWarn: 1, LevelBad: 2}

// worse is the worse of two levels.
func worse(a, b string) string {
	if severity[b] > severity[a] {
		return b
	}
	return a
}

// modelText is the first of what a replica serves, and how many more.
func modelText(r *Replica) string {
	switch len(r.Models) {
	case 0:
		return "-"
	case 1:
		return r.Models[0]
	}
	return fmt.Sprintf("%s + %d", r.Models[0], len(r.Models)-1)
}

// errorText is how many tries failed, of those of the last minute here.
func errorText(r *Replica) string {
	if r.Tries == 0 {
		return "-"
	}
	return fmt.Sprintf("%d of %d", r.Failed, r.Tries)
}

func stateText(r *Replica) string {
	switch {
	case !r.Answers():
		return r.stateWord() + " " + age(r.SinceMs)
	case r.SlowStart != nil && r.State == "up":
		return fmt.Sprintf("up, at %.0f %%", 100**r.SlowStart)
	}
	return r.stateWord()
}

// stateWord is the replica's state in the words of a table: drained once nothing
// is left in flight there.
func (r *Replica) stateWord() string {
	switch {
	case r.State == "unfit":
		return "unusable"
	case r.State == "draining" && r.Inflight == 0:
		return "drained"
	}
	return r.State
}

// streamText is all that is known of a replica's events in a paragraph.
func streamText(r *Replica) string {
	q := &r.Stream
	parts := []string{}
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if r.Reason != "" {
		add("%s", r.Reason)
	}
	if q.Detail != "" && q.Detail != r.Reason {
		add("%s", q.Detail)
	}
	add("%s", engineText(r))
	add("heard by %s", dash(strings.Join(q.Owners, ", ")))
	add("epoch %x", q.Epoch)
	add("all known up to %d, %d holes, %d spans lost", q.Floor, q.Holes, q.Lost)
	add("%s blocks, %s linked", count(q.Facts), count(q.Linked))
	if q.LastEventMs != nil {
		add("last event %s ago", millis(floatOf(*q.LastEventMs)))
	}
	add("digest %s", dash(q.Digest))
	add("prompts keyed by %s", dash(r.Tokenizer))
	if r.LoadError != "" {
		add("load not read: %s", r.LoadError)
	}
	return strings.Join(parts, " · ")
}

func floatOf(n int64) *float64 { f := float64(n); return &f }

// orLess sorts unknown values below all others.
func orLess(v *float64) float64 {
	if v == nil {
		return -1
	}
	return *v
}

func share(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100**v)
}

func drawPeers(s *Status) []Row {
	rows, square, no := []Row{}, columns(s) != nil, 0
	for _, p := range s.Peers {
		word := peerWord(&p)
		row := Row{Key: p.ID, Class: levelOf(word) + " state-" + levelOf(word)}
		row.Cells = map[string]string{
			"name": p.Name, "address": p.Address, "state": word, "mark": marks[levelOf(word)], "rate": number(p.Rate, 1), "age": millis(p.ViewAgeMs),
			"facts": maybe(p.Facts, count), "memory": maybe(p.Memory, sizeText), "version": dash(p.Version), "worst": worst(&p, s.Peers), "no": "",
		}
		if square && p.State != "left" {
			no++
			row.Cells["no"] = fmt.Sprint(no)
		}
		if p.Self {
			row.Cells["name"] += " (this)"
			row.Cells["age"] = "·"
		}
		if square && p.State != "left" {
			row.Ages = drawAges(&p, s.Peers)
		}
		rows = append(rows, row)
	}
	return rows
}

// columns names the peers of the matrix; nil if there is none.
func columns(s *Status) []string {
	var names []string
	for _, p := range s.Peers {
		if p.State != "left" {
			names = append(names, p.Name)
		}
	}
	if len(names) < 2 || len(names) > maxMatrix {
		return nil
	}
	return names
}

func drawAges(p *Peer, peers []Peer) []Age {
	var out []Age
	for _, q := range peers {
		if q.State == "left" {
			continue
		}
		a := Age{Text: "-"}
		if ms, ok := p.ViewAges[q.ID]; q.ID == p.ID {
			a.Text = "·"
		} else if ok {
			a.Text = fmt.Sprint(ms)
			if ms > staleMs {
				a.Text, a.Class = a.Text+"!", "stale"
			}
		}
		out = append(out, a)
	}
	return out
}

// worst names the peer that p knows least of.
func worst(p *Peer, peers []Peer) string {
	text, most := "-", int64(-1)
	for _, q := range peers {
		if ms, ok := p.ViewAges[q.ID]; ok && ms > most && q.ID != p.ID {
			text, most = q.Name+" "+millis(floatOf(ms)), ms
		}
	}
	return text
}

func drawBranch(b *Branch, replicas int) Row {
	name := prefixName(b.Model, b.Tenant, b.Key)
	if b.Key == "" {
		name = fmt.Sprintf("other (%d)", b.Bundled)
	}
	held, of := "several", "-"
	if b.Key != "" {
		held, of = strings.Join(b.Holders, " "), fmt.Sprintf("%d/%d", len(b.Holders), replicas)
	}
	return Row{Key: b.Key, Class: fmt.Sprintf("l%d", min(b.Level, 8)), Bar: 100 * b.Share, Cells: map[string]string{
		"name": name, "key": short(b.Key), "tokens": fmt.Sprintf("%s–%s", count(uint64(max(b.From, 0))), count(uint64(max(b.To, 0)))),
		"share": fmt.Sprintf("%.0f %%", 100*b.Share), "holders": held, "held": of,
	}}
}

// prefixName names a piece of the tree by what people know: whose prompts found
// it, model and first tenant. One that none of the last prompts found has only
// its key.
func prefixName(model, tenant, key string) string {
	switch {
	case model == "":
		return short(key)
	case tenant == "":
		return model
	}
	return model + " · " + tenant
}

// short is the part of a key that people compare.
func short(key string) string {
	if len(key) > 8 {
		return key[:8]
	}
	return key
}

func drawEvent(e *Event) Row {
	return Row{Key: fmt.Sprint(e.Seq), Class: e.Level, Cells: map[string]string{
		"time": time.UnixMilli(e.TimeMs).Format("15:04:05"), "mark": marks[e.Level], "text": e.Text,
	}}
}

func drawDecision(d *Decision) Row {
	row := Row{Key: fmt.Sprint(d.Seq), Class: d.Reason, Cells: map[string]string{
		"time": time.UnixMilli(d.TimeMs).Format("15:04:05.0"), "replica": d.Replica, "reason": d.Reason, "policy": d.Policy, "request": d.Request,
		"tokens": fmt.Sprintf("%s of %s", count(uint64(max(d.Matched, 0))), count(uint64(max(d.Prompt, 0)))), "ttft": "",
	}}
	if d.Prompt > 0 {
		row.Bar = min(100, 100*float64(d.Matched)/float64(d.Prompt))
	}
	if d.Predicted != nil {
		row.Cells["ttft"] = millis(d.Predicted)
	}
	if d.Decode != "" {
		row.Cells["replica"] += " → " + d.Decode
	}
	for _, c := range d.Candidates {
		line := Row{Key: c.Replica, Cells: map[string]string{
			"replica": c.Replica, "score": "-", "confirmed": fmt.Sprint(c.Confirmed), "expected": fmt.Sprint(c.Expected),
			"load": fmt.Sprintf("%d + %d", c.Waiting, c.Streams),
		}}
		if c.Score != nil {
			line.Cells["score"] = fmt.Sprintf("%.4g", *c.Score)
		}
		if c.Replica == d.Replica {
			line.Class = "chosen"
		}
		row.Lines = append(row.Lines, line)
	}
	if d.Count > len(d.Candidates) {
		row.Cells["more"] = fmt.Sprintf("%d more candidates", d.Count-len(d.Candidates))
	}
	return row
}
