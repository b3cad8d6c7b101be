package console

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// meshWide are the settings that all peers of a mesh must have in common: a peer
// that is restarted with another value is refused by the others.
var meshWide = []string{"grid", "limits.predictions", "mesh.label", "mesh.hash_secret"}

// NewMeshHelp says what to do about a changed setting that peers must agree on.
const NewMeshHelp = "Do not restart this peer with it: the others would refuse it. Take the change back, or start a second mesh (deploy/README.md#upgrade-and-roll-back)"

// Pending splits settings that a running peer does not take up: those that a
// restart applies, and those that need a new mesh.
func Pending(keys []string) (restart, newMesh []string) {
	for _, key := range keys {
		if slices.Contains(meshWide, key) {
			newMesh = append(newMesh, key)
		} else {
			restart = append(restart, key)
		}
	}
	return restart, newMesh
}

// waitingText says what the changed settings wait for; empty if there are none.
func (c *Config) waitingText() string {
	restart, newMesh := Pending(c.Restart)
	var parts []string
	if restart != nil {
		parts = append(parts, "restart this peer to apply "+strings.Join(restart, ", "))
	}
	if newMesh != nil {
		parts = append(parts, "do not restart it for "+strings.Join(newMesh, ", ")+": this needs a new mesh (deploy/README.md#upgrade-and-roll-back)")
	}
	return strings.Join(parts, "; ")
}

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
		if waiting := c.waitingText(); waiting != "" {
			text += "; " + waiting
		}
		out = append(out, [2]string{"config", text})
	}
	return out
}
