package replica

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
)

// Profile is the timing model of one engine on one kind of machine. A step
// with B running decodes (Context tokens in all) and prefill pieces of u
// uncached after c cached tokens takes
//
//	max(D0 + D1*B + D2*Context, A + B*sum(u) + CQ*sum((c+u)^2 - c^2))
//
// where a part that has no work is left out. If Linear is set the parts are
// not alternatives but add up, as the measured layers do:
//
//	Linear(B + sum(u)) + D1*B + D2*Context + CQ*sum((c+u)^2 - c^2)
type Profile struct {
	Name string

	A  float64 // seconds a prefill step
	B  float64 // seconds an uncached token
	CQ float64 // seconds a token pair

	D0 float64 // seconds a decode step
	D1 float64 // seconds a running decode
	D2 float64 // seconds a token of context

	Linear []Point // seconds of a step by its tokens, ascending

	Chunk    int // token budget of a step
	MaxSeqs  int // running requests; 0: 512
	KVTokens int // tokens the KV cache holds
	Source   string
}

// Point is one measured step: Tokens in it, Seconds it took.
type Point struct {
	Tokens  int
	Seconds float64
}

// Work is what one step does.
type Work struct {
	Decodes int     // requests that get one token
	Context int     // their tokens so far
	Prefill int     // uncached prompt tokens
	Square  float64 // sum of (c+u)^2 - c^2 over the prefill pieces
}

// StepTime is the duration of a step in seconds.
func (p *Profile) StepTime(w Work) float64 {
	if len(p.Linear) > 0 {
		return p.linear(w.Decodes+w.Prefill) + p.D1*float64(w.Decodes) + p.D2*float64(w.Context) + p.CQ*w.Square
	}
	var decode, prefill float64
	if w.Decodes > 0 {
		decode = p.D0 + p.D1*float64(w.Decodes) + p.D2*float64(w.Context)
	}
	if w.Prefill > 0 {
		prefill = p.A + p.B*float64(w.Prefill) + p.CQ*w.Square
	}
	return max(decode, prefill)
}

// Prefill is the time in seconds that an idle replica needs to compute u
// uncached tokens after c cached ones, chunk by chunk.
func (p *Profile) Prefill(u, c int) float64 {
	took := 0.0
	for u > 0 {
		n := min(u, p.Chunk)
		took += p.StepTime(Work{Prefill: n, Square: float64(n) * float64(n+2*c)})
		c, u = c+n, u-n
	}
	return took
}

// linear interpolates the measured steps; beyond the last one it goes on at
// the last slope.
func (p *Profile) linear(tokens int) float64 {
	t := p.Linear
	if tokens <= t[0].Tokens {
		return t[0].Seconds
	}
	i := sort.Search(len(t), func(i int) bool { return t[i].Tokens >= tokens })
	i = max(1, min(i, len(t)-1))
	a, b := t[i-1], t[i]
	return a.Seconds + (b.Seconds-a.Seconds)*float64(tokens-a.Tokens)/float64(b.Tokens-a.Tokens)
}

func (p *Profile) validate() error {
	var faults []error
	for _, f := range []struct {
		name  string
		value float64
	}{{"a", p.A}, {"b", p.B}, {"cq", p.CQ}, {"d0", p.D0}, {"d1", p.D1}, {"d2", p.D2}} {
		if !(f.value >= 0) {
			faults = append(faults, fmt.Errorf("profile %s: %s is %g, want at least 0", p.Name, f.name, f.value))
		}
	}
	if len(p.Linear) == 0 && (p.A+p.B <= 0 || p.D0+p.D1 <= 0) {
		faults = append(faults, fmt.Errorf("profile %s: steps take no time", p.Name))
	}
	for i, pt := range p.Linear {
		if pt.Seconds <= 0 || i > 0 && pt.Tokens <= p.Linear[i-1].Tokens {
			faults = append(faults, fmt.Errorf("profile %s: linear point %d is not ascending and positive", p.Name, i))
		}
	}
	if len(p.Linear) == 1 {
		faults = append(faults, fmt.Errorf("profile %s: linear needs two points", p.Name))
	}
	return errors.Join(faults...)
}

//go:embed timing.json
var timing []byte

// ProfileByName returns a named profile; the error lists the names.
func ProfileByName(name string) (Profile, error) {
	all := profiles()
	if p, ok := all[name]; ok {
		return p, nil
	}
	return Profile{}, fmt.Errorf("unknown profile %q (have %v)", name, ProfileNames())
}

// ProfileNames lists the profiles.
func ProfileNames() []string { return slices.Sorted(maps.Keys(profiles())) }

// profiles joins our own profiles with the complete sets of timing.json.
func profiles() map[string]Profile {
	all := make(map[string]Profile)
	for _, p := range own {
		all[p.Name] = p
	}
	for _, set := range timingSets() {
		p, ok := set.profile()
		if !ok {
			continue
		}
		if more, ok := missing[p.Name]; ok {
			p.D1, p.D2, p.CQ = p.D1+more.D1, p.D2+more.D2, p.CQ+more.CQ
			p.Chunk, p.KVTokens = more.Chunk, more.KVTokens
			p.Source += "; " + more.Source
		}
		if p.Chunk > 0 && p.KVTokens > 0 {
			all[p.Name] = p
		}
	}
	return all
}

// timingSet is one set of timing.json, in ms.
type timingSet struct {
	Name   string             `json:"name"`
	A      float64            `json:"a"`
	B      float64            `json:"b"`
	CQ     float64            `json:"cq"`
	D0     float64            `json:"d0"`
	D1     float64            `json:"d1"`
	D2     float64            `json:"d2"`
	Steps  map[string]float64 `json:"step_ms_by_tokens"`
	KV     int                `json:"kv_tokens"`
	Source string             `json:"src"`
}

func timingSets() []timingSet {
	var file struct {
		Sets []timingSet `json:"sets"`
	}
	if err := json.Unmarshal(timing, &file); err != nil {
		panic("invariant: embedded timing.json: " + err.Error())
	}
	return file.Sets
}

// profile turns a set into seconds; false if it lacks prefill or decode.
func (s timingSet) profile() (Profile, bool) {
	const ms = 1e-3
	p := Profile{
		Name: s.Name, KVTokens: s.KV, Source: s.Source,
		A: s.A * ms, B: s.B * ms, CQ: s.CQ * ms, D0: s.D0 * ms, D1: s.D1 * ms, D2: s.D2 * ms,
	}
	for tokens, took := range s.Steps {
		n, err := strconv.Atoi(tokens)
		if err != nil {
			return p, false
		}
		p.Linear = append(p.Linear, Point{n, took * ms})
	}
	slices.SortFunc(p.Linear, func(a, b Point) int { return a.Tokens - b.Tokens })
	return p, len(p.Linear) > 0 || s.B > 0 && s.D0 > 0
}
