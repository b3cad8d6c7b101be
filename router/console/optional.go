package console

import (
	"fmt"
	"strings"
	"time"
)

// optional is the summary of what may be off or unknown.
func (s *Status) optional() (out [][2]string) {
	if q := s.Queue; q != nil && (q.Waiting > 0 || len(q.Outcomes) > 0 && q.Refused()+q.Outcomes["admitted"] > 0) {
		out = append(out, [2]string{"queue", fmt.Sprintf("%d waiting by class %v of %d tenants, oldest %s; %s waited (p99 %s), %s refused; %d of %d in flight",
			q.Waiting, q.Classes, q.Tenants, (time.Duration(q.OldestMs) * time.Millisecond).Round(100*time.Millisecond),
			count(q.Outcomes["admitted"]), millis(q.WaitMs.P99), count(q.Refused()), q.InFlight, q.Concurrency)})
	}
	if d := s.Disagg; d != nil {
		out = append(out, [2]string{"split", fmt.Sprintf("prefill:decode %d:%d, %s, %s pairs, %s whole, %s failed; mean prompt %.0f, cached %.0f, output %.0f; advised prefill per decode replica %s",
			d.Prefill, d.Decode, d.Mode, count(d.Pairs), count(d.Whole), count(d.Failed), d.Input, d.Cached, d.Output, number(d.Advised, 2))})
	}
	if c := &s.Config; c.Hash != "" {
		text := c.Hash + ", applied " + time.UnixMilli(c.LoadedMs).Format("2006-01-02 15:04:05")
		if len(c.Restart) > 0 {
			text += "; waiting for a restart: " + strings.Join(c.Restart, ", ")
		}
		out = append(out, [2]string{"config", text})
	}
	return out
}
