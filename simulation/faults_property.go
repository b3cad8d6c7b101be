package simulation

import (
	"fmt"
	"slices"
)

// Property is one of ARCHITECTURE.md's 28 that a run is held against.
type Property struct {
	Number int
	Name   string
	// Says is the property in a few words.
	Says string
}

// Properties is the closed list of what RunFaults checks. The first ones hold
// at any moment, those from StrongEventualConsistency on once all is healed.
func Properties() []Property {
	return []Property{
		{2, "Oracle", "the base is the fold of the known slots"},
		{5, "NoResurrection", "nothing is shown that a known slot removed"},
		{6, "NoPhantom", "nothing is shown that no known slot stored"},
		{7, "GapSafety", "slots past a hole count at once"},
		{8, "EpochFence", "epochs never fall and never name two processes"},
		{9, "EpochOrder", "a newer process has the higher epoch; the mesh knows no less than anybody did"},
		{13, "Cleanup", "registers are held of live members and of nobody else"},
		{14, "Bounded", "staged, unacknowledged and missing stay within limits"},
		{16, "Codec", "no frame of a correct peer is rejected"},
		{22, "NoLocalDelete", "nothing a known slot stored is missing without a removal"},
		{26, "DrainOrder", "a draining peer's load stays while its streams run"},
		{28, "OneName", "a process that the mesh has a name for is not named anew"},
		{10, "StrongEventualConsistency", "contexts, sums, matches, predictions and intents are equal"},
		{11, "ConvergenceBound", "all that within the bound"},
		{12, "EqualsTruth", "and equal to the engines' caches, if no batch was lost"},
		{15, "NoEcho", "who ingests nothing sends slots only when asked; at rest nobody does; bytes <= c x slots x peers"},
		{21, "HastyLoss", "only owners give slots up; nothing stays given up that a live peer has"},
		{24, "HealAfterReap", "all live peers are connected again"},
		{25, "NonTransitiveLink", "also with a link that never comes back"},
	}
}

// Held is how often a property was checked in a run, and how often it failed.
type Held struct {
	Property   string `json:"property"`
	Number     int    `json:"number"` // of ARCHITECTURE.md
	Checks     int    `json:"checks"`
	Violations int    `json:"violations"`
}

// Violation is one property that did not hold.
type Violation struct {
	Property string `json:"property"` // as ARCHITECTURE.md names it
	AtMs     int64  `json:"at_ms"`
	Peer     string `json:"peer"`
	What     string `json:"what"`
}

func (v Violation) String() string {
	return fmt.Sprintf("%s at %.3fs on %s: %s", v.Property, float64(v.AtMs)/1000, v.Peer, v.What)
}

// maxViolations is how many of one property are kept.
const maxViolations = 20

// checked counts that properties were looked at.
func (r *faultRun) checked(properties ...string) {
	for _, name := range properties {
		r.checks[name]++
	}
}

func (r *faultRun) violate(property string, p *faultPeer, format string, args ...any) {
	name := "mesh"
	if p != nil {
		name = p.name
	}
	v := Violation{Property: property, AtMs: r.now - faultStart, Peer: name, What: fmt.Sprintf(format, args...)}
	r.trace(name, "VIOLATION %s: %s", property, v.What)
	if r.broken[property]++; r.broken[property] <= maxViolations {
		r.violations = append(r.violations, v)
	}
}

// held sums up what was checked.
func (r *faultRun) held() (out []Held) {
	for _, p := range Properties() {
		out = append(out, Held{Property: p.Name, Number: p.Number, Checks: r.checks[p.Name], Violations: r.broken[p.Name]})
	}
	slices.SortStableFunc(out, func(a, b Held) int { return a.Number - b.Number })
	return out
}
