package simulation

import (
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/fleet"
)

// entries is how discovery lists an engine to one peer.
type entries uint8

const (
	once  entries = iota
	again         // by the configuration, and under a second name and spelling by DNS
	moved         // by DNS twice and by Kubernetes, no longer by the configuration
	ways
)

// list sets which engines the peer lists, of whatever entries discovery has.
func (p *faultPeer) list(which func(*faultEngine) bool) {
	fresh := p.lists == nil
	specs := map[string][]fleet.Spec{}
	n, want := 0, 0
	add := func(source string, spec fleet.Spec) {
		specs[source] = append(specs[source], spec)
		n++
	}
	for _, e := range p.run.engines {
		switch {
		case !which(e):
			if fresh {
				p.run.reached("a joiner after a departure")
			}
			continue
		case p.entries[e] == once:
			add(fleet.SourceStatic, fleet.Spec{URL: e.url})
		case p.entries[e] == again:
			add(fleet.SourceStatic, fleet.Spec{URL: e.url})
			add(fleet.SourceDNS, fleet.Spec{Name: e.name + "-again", URL: e.url + "/"})
		case p.entries[e] == moved:
			add(fleet.SourceDNS, fleet.Spec{URL: e.url + "//"})
			add(fleet.SourceDNS, fleet.Spec{Name: e.name + "-again", URL: e.url})
			add(fleet.SourceKubernetes, fleet.Spec{Name: "pod-" + e.name, URL: e.url})
		}
		want++
	}
	now := time.UnixMilli(p.now())
	for _, source := range []string{fleet.SourceStatic, fleet.SourceDNS, fleet.SourceKubernetes} {
		p.fleet.Update(source, specs[source], now)
		p.lists = map[crdt.StreamID]bool{}
		for _, one := range p.fleet.List() {
			p.lists[one.Stream] = true
		}
		p.leaving.List(p.lists, p.now()) // one that moves may be missing for a moment
	}
	if got := len(p.fleet.List()); got != want || len(p.lists) != want {
		p.run.violate("Listing", p, "%d entries of %d engines became %d replicas with %d streams", n, want, got, len(p.lists))
	}
	if n > want {
		p.run.reached("listed more than once")
	}
}

// relist changes how discovery lists an engine, to each peer in a way and at a
// time of its own.
func (r *faultRun) relist(e *faultEngine) (undo func()) {
	set := func(how func() entries) {
		for _, p := range r.live() {
			r.after(r.news.Int64N(staggerMs/2), func() {
				p.entries[e] = how()
				p.list(func(o *faultEngine) bool { return p.lists[o.stream] })
			})
		}
	}
	set(func() entries { return again + entries(r.news.IntN(int(ways-again))) })
	return func() { set(func() entries { return once }) }
}
