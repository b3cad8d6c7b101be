package fleet

import (
	"testing"
	"time"

	"github.com/banyan-llm/banyan/router/load"
)

func TestWhoStartsSlowly(t *testing.T) {
	now := time.Unix(1000, 0)
	f := New(Config{SlowStart: 10 * time.Second})
	a, b := Spec{URL: "http://a:1"}, Spec{URL: "http://b:1"}
	f.Set([]Spec{a}, now)
	if w := f.Get("a:1").Weight(now); w != 1 {
		t.Errorf("a replica that was there before this peer has weight %v", w)
	}
	f.Update(SourceDNS, []Spec{b}, now.Add(time.Second))
	if w := f.Get("b:1").Weight(now.Add(time.Second)); w != 1 {
		t.Errorf("a replica of a source's first list has weight %v", w)
	}
	f.Update(SourceDNS, []Spec{b, {URL: "http://c:1"}}, now)
	c := f.Get("c:1")
	for at, want := range map[time.Duration]float64{0: .1, 5 * time.Second: .55, 10 * time.Second: 1, time.Hour: 1} {
		if w := c.Weight(now.Add(at)); w < want-1e-9 || w > want+1e-9 {
			t.Errorf("a new replica has weight %v after %v, want %v", w, at, want)
		}
	}
	r := f.Get("a:1")
	r.Fail(now, true, "connection refused")
	r.OK(now.Add(time.Minute))
	if w := r.Weight(now.Add(time.Minute)); w != load.SlowStart(0, time.Second) {
		t.Errorf("a replica that came back has weight %v", w)
	}
	r.OK(now.Add(time.Minute + 5*time.Second))
	if w := r.Weight(now.Add(time.Minute + 10*time.Second)); w != 1 {
		t.Errorf("answers must not start the ramp again: %v", w)
	}
}

func TestSourcesAreMergedAndTheConfigurationWins(t *testing.T) {
	now := time.Unix(1, 0)
	changes := 0
	f := New(Config{Changed: func() { changes++ }})
	f.Set([]Spec{{URL: "http://10.0.0.1:80", Name: "mine", Role: "prefill"}}, now)
	f.Update(SourceKubernetes, []Spec{{URL: "http://10.0.0.1:80", Name: "pod-1"}, {URL: "http://10.0.0.2:80", Name: "pod-2"}, {URL: "not a url"}}, now)
	f.Update(SourceDNS, []Spec{{URL: "http://10.0.0.2:80"}, {URL: "http://10.0.0.3:80", Name: "mine"}}, now)
	var got []string
	for _, r := range f.List() {
		got = append(got, r.Name()+" "+r.Source)
	}
	if len(got) != 2 || got[0] != "10.0.0.2:80 dns" || got[1] != "mine static" {
		t.Errorf("%q", got)
	}
	before := changes
	f.Update(SourceDNS, []Spec{{URL: "http://10.0.0.3:80", Name: "mine"}, {URL: "http://10.0.0.2:80"}}, now)
	if changes != before {
		t.Error("the same list in another order is no change")
	}
	f.Update(SourceDNS, nil, now)
	if r := f.Get("pod-2"); r == nil || f.Get("mine").Spec.Role != "prefill" {
		t.Error("one source's end must not take the other's replicas")
	}
}
