package console

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// WriteTable draws the status for people: verdict first, problems with their
// cure last. width 0 cuts nothing.
func (s *Status) WriteTable(w io.Writer, width int) error {
	out := &printer{w: w, width: width}
	verdict := "OK: converged"
	if !s.OK {
		verdict = "TROUBLE"
	}
	up := 0
	for _, r := range s.Replicas {
		if r.State == "up" {
			up++
		}
	}
	alive, members := 0, 0
	for _, p := range s.Peers {
		switch p.State {
		case "alive":
			alive++
			members++
		case "failed":
			members++
		}
	}
	out.line("%s  %s, %d/%d peers, %d/%d replicas, %d divergent streams  (seen from %s, %s)",
		s.Label, verdict, alive, members, up, len(s.Replicas), s.Mesh.Divergent, s.Name,
		time.UnixMilli(s.TimeMs).Format("15:04:05"))
	out.line("")
	out.table(peerRows(s))
	out.line("")
	out.table(replicaRows(s))
	if len(s.Prefixes) > 0 {
		out.line("")
		out.table(prefixRows(s))
	}
	out.line("")
	out.line("requests %s, %s failed; prompt tokens %s, cached %s; tree %s facts, %s; propagation p50 %s p99 %s",
		count(s.Requests.Total), count(s.Requests.Failed), count(s.Requests.PromptTokens),
		ratio(s.Requests.CachedTokens, s.Requests.PromptTokens), count(s.Tree.Facts), sizeText(uint64(s.Tree.Bytes)),
		millis(s.Mesh.PropagationMs.P50), millis(s.Mesh.PropagationMs.P99))
	if q := s.Queue; q != nil && (q.Waiting > 0 || len(q.Outcomes) > 0 && q.Refused()+q.Outcomes["admitted"] > 0) {
		out.line("queue %d waiting by class %v of %d tenants, oldest %s; %s waited (p99 %s), %s refused; %d of %d in flight",
			q.Waiting, q.Classes, q.Tenants, (time.Duration(q.OldestMs) * time.Millisecond).Round(100*time.Millisecond), count(q.Outcomes["admitted"]), millis(q.WaitMs.P99), count(q.Refused()), q.InFlight, q.Concurrency)
	}
	if d := s.Disagg; d != nil {
		out.line("prefill:decode %d:%d, %s, %s pairs, %s whole, %s failed; mean prompt %.0f, cached %.0f, output %.0f; advised prefill per decode replica %s",
			d.Prefill, d.Decode, d.Mode, count(d.Pairs), count(d.Whole), count(d.Failed), d.Input, d.Cached, d.Output, number(d.Advised, 2))
	}
	if c := &s.Config; c.Hash != "" {
		waits := ""
		if len(c.Restart) > 0 {
			waits = "; waiting for a restart: " + strings.Join(c.Restart, ", ")
		}
		out.line("config %s, taken up %s%s", c.Hash, time.UnixMilli(c.LoadedMs).Format("2006-01-02 15:04:05"), waits)
	}
	if len(s.Problems) > 0 {
		out.line("")
	}
	for _, p := range s.Problems {
		out.line("! %s. %s", p.Text, p.Help)
	}
	return out.err
}

func peerRows(s *Status) [][]string {
	rows := [][]string{{"PEER", "ADDRESS", "STATE", "READY", "VERSION", ">REQ/S", ">VIEW AGE", ">FACTS", ">MEM"}}
	for _, p := range s.Peers {
		name, ready := p.Name, "no"
		if p.Self {
			name += "*"
		}
		switch {
		case p.Draining:
			ready = "drain"
		case p.Ready:
			ready = "yes"
		}
		rows = append(rows, []string{
			name, p.Address, p.State, ready, dash(p.Version), number(p.Rate, 1), millis(p.ViewAgeMs), maybe(p.Facts, count), maybe(p.Memory, sizeText),
		})
	}
	return rows
}

func replicaRows(s *Status) [][]string {
	rows := [][]string{{"REPLICA", "URL", "ENGINE", "ROLE", "STATE", ">INFLIGHT", ">UNCACHED", ">CACHED", ">BLOCKS", "STREAM", "KEYS"}}
	for _, r := range s.Replicas {
		cached := "-"
		if r.Cached != nil {
			cached = fmt.Sprintf("%.0f %%", 100**r.Cached)
		}
		state := r.State
		if r.State == "down" {
			state = fmt.Sprintf("down %s", age(r.SinceMs))
		} else if r.SlowStart != nil && state == "up" {
			state = fmt.Sprintf("up %.0f %%", 100**r.SlowStart)
		}
		stream := r.Stream.State
		if r.Stream.Detail != "" && stream != "ok" {
			stream += ": " + r.Stream.Detail
		}
		rows = append(rows, []string{
			r.Name, r.URL, engineText(&r), r.Role, state, fmt.Sprint(r.Inflight), count(uint64(max(r.Uncached, 0))), cached, count(r.Stream.Facts), stream, dash(r.Tokenizer),
		})
	}
	return rows
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

func prefixRows(s *Status) [][]string {
	rows := [][]string{{"PREFIX", ">TOKENS", ">HOLDERS"}}
	for i, p := range s.Prefixes {
		if i == 10 {
			rows = append(rows, []string{fmt.Sprintf("… %d more", len(s.Prefixes)-10), "", ""})
			break
		}
		key := p.Key
		if len(key) > 8 {
			key = key[:8]
		}
		rows = append(rows, []string{key, fmt.Sprint(p.Tokens), fmt.Sprintf("%d/%d", len(p.Holders), len(s.Replicas))})
	}
	return rows
}

// printer writes lines and aligned tables, remembering the first error.
type printer struct {
	w     io.Writer
	width int
	err   error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

// table prints columns two spaces apart; a heading that begins with > is of a
// column aligned right.
func (p *printer) table(rows [][]string) {
	right := make([]bool, len(rows[0]))
	for i, h := range rows[0] {
		rows[0][i], right[i] = strings.CutPrefix(h, ">")
	}
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i > 0 {
				b.WriteString("  ")
			}
			if right[i] {
				b.WriteString(pad + cell)
			} else {
				b.WriteString(cell + pad)
			}
		}
		line := strings.TrimRight(b.String(), " ")
		if p.width > 0 && utf8.RuneCountInString(line) > p.width {
			line = string([]rune(line)[:p.width-1]) + "…"
		}
		p.line("%s", line)
	}
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func maybe(v *uint64, format func(uint64) string) string {
	if v == nil {
		return "-"
	}
	return format(*v)
}

func number(v *float64, digits int) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.*f", digits, *v)
}

func millis(v *float64) string {
	switch {
	case v == nil:
		return "-"
	case *v >= 10_000:
		return fmt.Sprintf("%.0f s", *v/1000)
	case *v >= 1000:
		return fmt.Sprintf("%.1f s", *v/1000)
	case *v >= 10:
		return fmt.Sprintf("%.0f ms", *v)
	case *v >= 1:
		return fmt.Sprintf("%.1f ms", *v)
	}
	return fmt.Sprintf("%.2f ms", *v)
}

// age shortens a time: 12s, 4m, 3h 20m, 5d 2h.
func age(ms int64) string {
	switch s := ms / 1000; {
	case s < 120:
		return fmt.Sprintf("%ds", s)
	case s < 7200:
		return fmt.Sprintf("%dm", s/60)
	case s < 172_800:
		return fmt.Sprintf("%dh %dm", s/3600, s/60%60)
	default:
		return fmt.Sprintf("%dd %dh", s/86_400, s/3600%24)
	}
}

// count shortens a number: 950, 12.4k, 4.8M, 2.1G.
func count(n uint64) string {
	switch {
	case n >= 1_000_000_000:
		return fmt.Sprintf("%.1fG", float64(n)/1e9)
	case n >= 1_000_000:
		return fmt.Sprintf("%.1fM", float64(n)/1e6)
	case n >= 10_000:
		return fmt.Sprintf("%.1fk", float64(n)/1e3)
	}
	return fmt.Sprint(n)
}

// sizeText shortens a size: 310M.
func sizeText(n uint64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1fG", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%dM", n>>20)
	}
	return fmt.Sprintf("%dK", n>>10)
}

func ratio(part, whole uint64) string {
	if whole == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(whole))
}
