package replica

import (
	"maps"
	"testing"

	"pgregory.net/rapid"
)

// The pool beside a naive one: a list of named pages in order of release.
func TestPoolAgreesWithItsTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 6).Draw(t, "limit")
		p := newPool(limit, false)
		names := map[int32]uint64{} // named pages
		refs := map[int32]int{}
		var free []int32 // in order of release
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				at := p.take()
				if want := limit - len(refs); (at != none) != (want > 0) {
					t.Fatalf("took page %d with %d free", at, want)
				}
				if at == none {
					return
				}
				delete(names, at)
				if len(free) > 0 && free[0] == at {
					free = free[1:]
				} else if len(p.pages)-1 > limit {
					t.Fatalf("%d pages of %d", len(p.pages)-1, limit)
				}
				refs[at] = 1
				if rapid.Bool().Draw(t, "named") {
					names[at] = rapid.Uint64Range(1, 2).Draw(t, "key")
					p.name(at, names[at])
				}
			},
			"pin": func(t *rapid.T) {
				at := p.find(rapid.Uint64Range(1, 2).Draw(t, "key"))
				if at == none {
					return
				}
				p.pin(at)
				refs[at]++
				for i, f := range free {
					if f == at {
						free = append(free[:i], free[i+1:]...)
						break
					}
				}
			},
			"release": func(t *rapid.T) {
				held := make([]int32, 0, len(refs))
				for at := int32(1); at < int32(len(p.pages)); at++ {
					if refs[at] > 0 {
						held = append(held, at)
					}
				}
				if len(held) == 0 {
					return
				}
				at := rapid.SampledFrom(held).Draw(t, "page")
				p.release(at)
				if refs[at]--; refs[at] == 0 {
					delete(refs, at)
					free = append(free, at)
				}
			},
			"": func(t *rapid.T) {
				want := map[uint64]int{}
				for _, key := range names {
					want[key]++
				}
				got := map[uint64]int{}
				for _, s := range p.byKey.slots {
					key := s.key
					for at := s.at; at != 0 && at != none; at = p.pages[at].twin {
						if names[at] != key {
							t.Fatalf("page %d is found under key %d, has %d", at, key, names[at])
						}
						got[key]++
					}
				}
				if !maps.Equal(got, want) {
					t.Fatalf("copies %v, want %v", got, want)
				}
				if p.listed != len(free) || p.used() != len(refs) || p.free() != limit-len(refs) {
					t.Fatalf("%d listed, %d used, %d free; want %d, %d, %d", p.listed, p.used(), p.free(), len(free), len(refs), limit-len(refs))
				}
				at := p.pages[0].next
				for _, f := range free {
					if at != f {
						t.Fatalf("free list has %d where %d was released", at, f)
					}
					at = p.pages[at].next
				}
			},
		})
	})
}

func TestTableAgreesWithAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tab table
		want := map[uint64]int32{}
		// Multiples of one power of two share their home slots.
		keys := rapid.Map(rapid.Uint64Range(0, 200), func(k uint64) uint64 { return k * 0x3b9aca07 << 48 })
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				key, at := keys.Draw(t, "key"), rapid.Int32Range(1, 99).Draw(t, "at")
				old := tab.put(key, at)
				if old != want[key] {
					t.Fatalf("put of %x found %d, want %d", key, old, want[key])
				}
				if old == 0 {
					want[key] = at
				}
			},
			"replace": func(t *rapid.T) {
				key := keys.Draw(t, "key")
				if want[key] != 0 {
					tab.replace(key, 7)
					want[key] = 7
				}
			},
			"remove": func(t *rapid.T) {
				for range 3 {
					key := keys.Draw(t, "key")
					if want[key] != 0 {
						tab.remove(key)
						delete(want, key)
					}
				}
			},
			"": func(t *rapid.T) {
				got := map[uint64]int32{}
				for _, s := range tab.slots {
					if s.at != 0 {
						got[s.key] = tab.get(s.key)
					}
				}
				if !maps.Equal(got, want) || tab.n != len(want) {
					t.Fatalf("table has %v (%d), want %v", got, tab.n, want)
				}
			},
		})
	})
}
