//go:build e2e

package main

import (
	"fmt"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/router/access"
	"github.com/banyan-llm/banyan/router/console"
)

// views are the sizes that pages are judged at; 720 wide is 200 % of 1440.
var views = []struct {
	name          string
	width, height int
}{{"laptop", 1440, 900}, {"tablet", 1024, 768}, {"zoomed", 720, 450}, {"phone", 390, 844}}

// brokenWords lists the words of the table of replicas, names and models aside, that go on
// in a second line.
const brokenWords = `[...document.querySelectorAll('#replicas :is(thead th, td:not(.model))')].flatMap(cell => {
  const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), out = []
  for (let n; n = texts.nextNode();) for (const m of n.data.matchAll(/\S+/g)) {
    const r = document.createRange()
    r.setStart(n, m.index)
    r.setEnd(n, m.index + m[0].length)
    if (new Set([...r.getClientRects()].map(box => Math.round(box.top))).size > 1) out.push(m[0])
  }
  return out
})`

// Every made-up mesh at every size, light and dark: no complaint, nothing cut
// off, nothing an accessibility checker finds.
func TestConsolePagesInABrowser(t *testing.T) {
	b := startBrowser(t)
	axe := axeSource(t)
	for name, m := range madeUpPages {
		t.Run(name, func(t *testing.T) {
			c := console.New(m.status)
			m.chatter(c)
			server := httptest.NewServer(c.Handler())
			t.Cleanup(server.Close)
			t.Cleanup(c.Close)
			p := b.open(t, server.URL+"/")
			p.until("the page is live", `document.body.classList.contains('live')`)
			for _, scheme := range []string{"light", "dark"} {
				for _, v := range views {
					p.view(v.width, v.height, scheme)
					where := fmt.Sprintf("%s-%s-%s", name, v.name, scheme)
					var wide int
					p.eval(`document.documentElement.scrollWidth - document.documentElement.clientWidth`, &wide)
					if wide > 0 {
						t.Errorf("%s: %d pixels stick out", where, wide)
					}
					p.eval(`Math.max(...['replicas', 'peers'].map(id => (e => e.scrollWidth - e.clientWidth)(document.querySelector('#' + id + ' .scroll'))))`, &wide)
					if wide > 0 {
						t.Errorf("%s: %d pixels of a table are cut off", where, wide)
					}
					var broken []string
					p.eval(brokenWords, &broken)
					if len(broken) > 0 {
						t.Errorf("%s: words that break: %q", where, broken)
					}
					p.shoot(where)
					if axe != "" && (v.name == "laptop" || v.name == "phone" && scheme == "light") {
						p.accessible(where, axe)
					}
				}
			}
			p.judge(server.URL)
		})
	}
}

// A page that was opened while nothing was cached draws the tree once there is
// one.
func TestConsoleDrawsATreeThatComesLater(t *testing.T) {
	b := startBrowser(t)
	var cached atomic.Bool
	m := madeUpPages["healthy"]
	c := console.New(func() *console.Status {
		s := m.status()
		if !cached.Load() {
			s.Prefixes = []console.Prefix{}
		}
		return s
	})
	server := httptest.NewServer(c.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(c.Close)
	p := b.open(t, server.URL+"/")
	p.until("the page is live and says that nothing is cached", `document.body.classList.contains('live') &&
		document.querySelector('.tree').innerText.includes('Nothing is cached yet')`)
	cached.Store(true)
	p.until("the tree is drawn", `document.querySelectorAll('#icicle [role=treeitem]').length > 3 &&
		!document.querySelector('.tree').innerText.includes('Nothing is cached yet')`)
	p.judge(server.URL)
}

// Rows that change places under the keyboard take nothing from it: neither the
// focus nor an opened row, whichever row it is in and however the others move.
func TestConsoleKeepsTheFocusWhenRowsMove(t *testing.T) {
	b := startBrowser(t)
	var looks, beat atomic.Int64
	m := madeUpPages["healthy"]
	c := console.New(func() *console.Status {
		s := m.status()
		turn := int(looks.Add(1))
		if beat.Load() == 0 {
			turn = 0
		}
		for i := range s.Replicas {
			s.Replicas[i].Inflight = (7*turn + 5*i*(1+turn%3)) % 23
		}
		return s
	})
	server := httptest.NewServer(c.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(c.Close)
	p := b.open(t, server.URL+"/")
	p.until("the page is live", `document.body.classList.contains('live')`)
	order := `[...document.querySelectorAll('#replica-rows > tr')].map(r => r.dataset.key).join()`
	p.eval(`document.querySelector('th[data-sort=inflight] button').click()`, nil)
	for row := range 4 {
		beat.Store(0)
		p.eval(fmt.Sprintf(`window.mine = document.querySelectorAll('#replica-rows > tr')[%d].querySelector('summary')`, row), nil)
		p.eval(`window.mine.focus(); window.mine.parentElement.open = true`, nil)
		beat.Store(1)
		seen := p.text(order)
		for moves := 0; moves < 2; {
			now := p.text(order)
			if now != seen {
				seen = now
				moves++
			}
			if on := p.text(`document.activeElement === window.mine && window.mine.parentElement.open ? 'kept' : '` + "the focus is at ' + (" + focused + `)`); on != "kept" {
				t.Fatalf("row %d, %d moves, now %s: %s", row, moves, now, on)
			}
			time.Sleep(20 * time.Millisecond)
		}
		var sorted bool
		p.eval(`(a => a.every((v, i) => i === 0 || a[i - 1] >= v))([...document.querySelectorAll('#replica-rows > tr')].map(r => parseFloat(r.querySelector('[data-f=inflight]').textContent)))`, &sorted)
		if !sorted {
			t.Errorf("row %d: the rows are not sorted", row)
		}
		p.eval(`window.mine.parentElement.open = false`, nil)
	}
	p.judge(server.URL)
}

// With an admin key the browser asks once, and the page, its feed and a drain
// work; a key that may only look cannot drain, and the page says so.
func TestConsoleWithAnAdminKeyInABrowser(t *testing.T) {
	b := startBrowser(t)
	full, fullLine := access.NewKey("ann")
	look, lookLine := access.NewKey("bob", "role=read")
	keys := writeFile(t, fullLine+"\n"+lookLine+"\n")
	t.Setenv("BANYAN_ADMIN_KEY", full) // for the test's own look at the status
	peer := meshWith(t, 1, fmt.Sprintf("admin: {keys_file: %q}\n", keys), replicaProcess(t, "r0"))[0]
	origin := "http://" + peer.said["admin"]
	drain := `document.querySelector('[data-act]').click(); document.querySelector('#ask .do').click()`
	for name, key := range map[string]string{"full": full, "read": look} {
		t.Run(name, func(t *testing.T) {
			p := b.openWith(t, origin+"/", key)
			p.until("the page is live", `document.body.classList.contains('live') && document.querySelector('#replica-rows [data-f=name]').textContent === 'r0'`)
			p.mu.Lock()
			if p.prompted == 0 {
				t.Error("nobody was asked for a key")
			}
			p.mu.Unlock()
			p.forgive() // the answer that asked for the key
			p.eval(drain, nil)
			if name == "read" {
				p.until("the page says that it may not", `document.querySelector('#events').textContent.includes('drain r0 failed: 403')`)
				p.forgive()
				return
			}
			p.until("r0 drains", `document.querySelector('#replica-rows [data-f=state]').textContent === 'drained'`)
			p.eval(drain, nil)
			p.until("r0 is back", `document.querySelector('#replica-rows [data-f=state]').textContent === 'up'`)
			p.judge(origin)
		})
	}
}

// rows are the texts of a table's cells by the name of its row.
func (p *tab) rows(table string) map[string][]string {
	p.t.Helper()
	var out map[string][]string
	p.eval(`Object.fromEntries([...document.querySelectorAll('#`+table+` > tr')].map(r =>
		[r.querySelector('th [data-f=name]').textContent, [...r.querySelectorAll(':scope > td')].map(c => c.textContent.trim())]))`, &out)
	return out
}

// The page of a real mesh under traffic, seen and used as people do: what is
// drawn, the keyboard, a drain, a peer that dies and comes back.
func TestConsoleOfAMeshInABrowser(t *testing.T) {
	b := startBrowser(t)
	axe := axeSource(t)
	replicas := []*process{replicaProcess(t, "r0"), replicaProcess(t, "r1"), replicaProcess(t, "r2")}
	tr := newTier(t, replicas)
	for slot := range 3 {
		tr.admin[slot] = freePort(t)
		tr.start(slot)
	}
	eventually(t, "all peers are ready", func() bool {
		for _, p := range tr.living {
			if st := p.status(); st == nil || !st.Ready || len(st.Peers) != 3 {
				return false
			}
		}
		return true
	})
	// The page is seen from a peer that hears of some stream from others alone:
	// of each stream one peer is no owner.
	seen := -1
	eventually(t, "a peer is told of a stream that it does not own", func() bool {
		for slot, p := range tr.living {
			if st := p.status(); st != nil && slices.ContainsFunc(st.Replicas, func(r console.Replica) bool {
				return len(r.Stream.Owners) == 2 && !slices.Contains(r.Stream.Owners, tr.names[slot])
			}) {
				seen = slot
				return true
			}
		}
		return false
	})
	r := &record{}
	talk := func(slot int) talkers {
		return talkers{
			set: fmt.Sprint(slot), url: "http://" + tr.ports[slot], clients: 4, output: [2]int{20, 60}, turns: 6,
			think: [2]time.Duration{100 * time.Millisecond, 400 * time.Millisecond},
		}
	}
	end := r.run(talk(0), talk(1), talk(2))
	defer end()

	origin := "http://" + tr.admin[seen]
	p := b.open(t, origin+"/")
	t.Run("drawn", func(t *testing.T) { p.drawsTheMesh(t) })
	t.Run("accessible", func(t *testing.T) {
		p.t = t
		for _, scheme := range []string{"light", "dark"} {
			p.view(1440, 900, scheme)
			p.shoot("mesh-laptop-" + scheme)
			if axe != "" {
				p.accessible("mesh "+scheme, axe)
			}
		}
		p.view(390, 844, "light")
		p.shoot("mesh-phone-light")
		p.view(1440, 900, "light")
	})
	t.Run("keyboard", func(t *testing.T) { p.obeysTheKeyboard(t) })
	p.t = t
	p.judge(origin)

	t.Run("peer lost and back", func(t *testing.T) {
		p.t = t
		_ = tr.living[seen].cmd.Process.Kill()
		<-tr.living[seen].done
		p.until("the page says that it is not live", `document.body.classList.contains('stale') && !document.getElementById('lost').hidden`)
		if said := p.text(`document.getElementById('lost').textContent`); !strings.Contains(said, "No news from "+tr.names[seen]+" since ") {
			t.Errorf("the page says %q", said)
		}
		p.shoot("mesh-lost")
		delete(tr.living, seen)
		tr.start(seen)
		p.until("the page is live again and shows the new peer", `document.body.classList.contains('live') &&
			document.getElementById('lost').hidden && document.querySelector('header [data-f=name]').textContent === 'p3'`)
		p.forgive() // refused connections
	})
	end()
	t.Run("without script", func(t *testing.T) {
		p.t = t
		p.do("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
		p.do("Page.navigate", map[string]any{"url": origin + "/?static"}, nil)
		p.do("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
		p.until("the page is another one", `location.search === '?static' && document.readyState === 'complete'`)
		if got := p.rows("replica-rows"); len(got) != 3 {
			t.Errorf("without script: %v", got)
		}
		p.shoot("mesh-noscript")
		p.judge(origin)
	})
}

// drawsTheMesh waits for each thing an operator looks for.
func (p *tab) drawsTheMesh(t *testing.T) {
	p.t = t
	p.until("the page is live", `document.body.classList.contains('live')`)
	p.until("the verdict", `document.getElementById('verdict').textContent.includes('3/3 peers, 3/3 replicas, 0 divergent')`)
	number := `(name => parseFloat(document.querySelector('.numbers [data-f=' + name + ']').textContent))`
	p.until("requests a second", number+`('rate') > 1`)
	p.until("a live share of cached tokens", number+`('cached') > 5`)
	p.until("a live time to first token", number+`('ttft') > 0`)
	p.until("lines of the last minutes", `document.querySelectorAll('.spark polyline[points]').length === 4`)
	p.until("a replica with load", `[...document.querySelectorAll('#replica-rows [data-f=inflight]')].some(e => +e.textContent > 0)`)
	p.until("cached shares and blocks of every replica", `[...document.querySelectorAll('#replica-rows > tr')].every(r =>
		/%$/.test(r.querySelector('[data-f=cached]').textContent) && parseFloat(r.querySelector('[data-f=blocks]').textContent) > 0)`)
	p.until("view ages between all peers", `document.querySelectorAll('#peer-rows .age').length === 9 &&
		[...document.querySelectorAll('#peer-rows .age')].filter(e => /^\d+!?$/.test(e.textContent)).length === 6`)
	p.until("how late the others know", `/know \d[\d.]* m?s later.* 0 streams differ/.test(document.querySelector('[data-f=meshNote]').textContent)`)
	p.until("the tree by hits", `document.querySelectorAll('#icicle [role=treeitem]').length > 3 &&
		document.querySelector('[data-f=treeNote]').textContent.includes('of the last prompts')`)
	label := p.text(`document.querySelector('#icicle [role=treeitem]').getAttribute('aria-label')`)
	if !regexp.MustCompile(`^m [\d,]+ tok \d/3: tokens .*, key [0-9a-f]{8}, held by r\d.*; \d+ % of the last prompts`).MatchString(label) {
		t.Errorf("the first branch says %q", label)
	}
	for name, cells := range p.rows("replica-rows") {
		if !strings.HasPrefix(name, "r") || len(cells) < 9 || !strings.Contains(cells[0], "up") {
			t.Errorf("%s: %q", name, cells)
		}
	}
	p.until("decisions with reasons", `[...document.querySelectorAll('#decisions > li')].filter(e =>
		/^(prefix|load|spill|session|stale|only)$/.test(e.querySelector('[data-f=reason]').textContent)).length >= 5`)
	p.until("events", `document.querySelectorAll('#events > li:not(.none)').length > 0`)
}

// focused describes what has the focus.
const focused = `(e => (e.id || e.className.baseVal || e.className || '') + ' ' + e.tagName.toLowerCase() + ' ' + (e.getAttribute('aria-label') || e.textContent).trim().slice(0, 40))(document.activeElement)`

func (p *tab) obeysTheKeyboard(t *testing.T) {
	p.t = t
	p.eval(`document.activeElement.blur(); window.scrollTo(0, 0)`, nil)
	p.press("Tab")
	if on := p.text(focused); !strings.HasPrefix(on, "skip a") {
		t.Errorf("the first stop is %q", on)
	}
	// Sorting.
	p.until("a heading has the focus", p.tabTo(`th[data-sort=inflight] button`))
	p.press("Enter")
	p.press("Enter")
	if sorted := p.text(`document.querySelector('th[data-sort=inflight]').getAttribute('aria-sort')`); sorted != "descending" && sorted != "ascending" {
		t.Errorf("sorted %q", sorted)
	}
	// The details of a replica, and a drain.
	p.until("a replica has the focus", p.tabTo(`#replica-rows summary`))
	p.press("Enter")
	p.until("its details are open", `document.activeElement.parentElement.open && /digest [0-9a-f]{16}/.test(document.activeElement.parentElement.textContent)`)
	p.press("Enter")
	p.until("the button has the focus", p.tabTo(`#replica-rows tr[data-key=r1] [data-act]`))
	p.press("Enter")
	p.until("it asks first", `document.getElementById('ask').open && document.getElementById('ask').textContent.includes('Every peer of the mesh stops sending new requests to r1')`)
	p.shoot("mesh-ask")
	p.press("Escape")
	p.until("nothing happened", `!document.getElementById('ask').open && document.activeElement.matches('[data-act]')`)
	for _, want := range []string{"drain", "up"} { // draining or drained: requests may be in flight
		p.press("Enter")
		p.until("it asks again", `document.getElementById('ask').open`)
		p.until("yes has the focus", p.tabTo(`#ask .do`))
		p.press("Enter")
		p.until("r1 is "+want, `document.querySelector('#replica-rows tr[data-key=r1] [data-f=state]').textContent.startsWith('`+want+`')`)
		p.eval(`document.querySelector('#replica-rows tr[data-key=r1] [data-act]').focus()`, nil)
	}
	// The tree.
	p.until("the tree has the focus", p.tabTo(`#icicle [role=treeitem]`))
	walk := func() (home, first, inner, last string) {
		p.press("Home")
		first = p.text(focused)
		p.press("ArrowRight")
		inner = p.text(focused)
		p.press("ArrowLeft")
		p.press("End")
		last = p.text(focused)
		p.press("Home")
		return p.text(focused), first, inner, last
	}
	for tries := 10; ; tries-- { // it may be drawn anew under the walk
		home, first, inner, last := walk()
		if home == first && inner != first && last != first {
			break
		}
		if tries == 0 {
			t.Fatalf("home is %q, was %q; right %q, end %q", home, first, inner, last)
		}
		time.Sleep(time.Second)
	}
	p.until("its holders are lit", `document.querySelectorAll('#replica-rows tr.lit').length > 0 && document.getElementById('told').textContent !== ''`)
	p.shoot("mesh-tree-focus")
	// A decision and its candidates.
	const told = `#decisions li:not(.stale):has(tbody tr:nth-child(3))` // one that weighed all three
	p.until("a decision among three", `document.querySelector('`+told+`') !== null`)
	p.until("a decision has the focus", p.tabTo(told+` summary`))
	p.press("Enter")
	p.until("it shows its candidates with scores", `(d => d.open && d.querySelectorAll('tbody tr').length === 3 && d.querySelectorAll('tr.chosen').length === 1 &&
		/\d/.test(d.querySelector('[data-f=score]').textContent))(document.querySelector('#decisions [open]'))`)
	p.until("the list holds still", `!document.getElementById('paused').hidden`)
	p.shoot("mesh-decision")
	p.press("Enter")
}

// tabTo presses Tab until an element has the focus and gives an expression that
// tells whether it does. What is in a table may be moved to before the focus
// meanwhile; so it goes back to the page's first stop, where need be.
func (p *tab) tabTo(selector string) (has string) {
	p.t.Helper()
	has = `document.activeElement.matches(` + "`" + selector + "`" + `)`
	for range 5 {
		for range 150 { // the list of decisions alone has up to 60 stops
			var there bool
			if p.eval(has, &there); there {
				return has
			}
			p.press("Tab")
		}
		p.eval(`document.querySelector('.skip').focus()`, nil)
	}
	return has
}
