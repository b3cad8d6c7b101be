package simulation

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
	"github.com/banyan-llm/banyan/router/load"
	"github.com/banyan-llm/banyan/router/pick"
	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/simulation/replica"
)

// views are the request sides of all peers: the load table and the picker of a
// router, each its own, with the frames between them in place of the gossip
// core. The index is modelled (eval_index.go): 64 peers with one each would need
// 64 times the memory to know, all of them, the same. So candidates are gathered
// here and not by the picker, and the age of the view is what the run says
// (DECISIONS.md, "What is written again").
type views struct {
	peers   []view
	names   []crdt.StreamID // of the replicas
	blind   bool            // load is known from the engines' figures alone
	delay   [2]float64      // seconds: of dispatches, of other changes
	pending [2]fifo[frame]  // on their way
	figures map[crdt.StreamID]crdt.Scrape
	scraped int64 // when the engines' figures were read, ms
	nowMs   int64 // of the frames that arrive
	prompt  pick.Prompt
}

// view is one peer's.
type view struct {
	loads   *load.Table
	picker  *pick.Picker
	entries []*load.Entry // per replica
	here    []*load.Entry // of the candidates
	scratch pick.Scratch
	scraped int64 // the figures it has, ms
}

// frame is what a peer tells all others of its load.
type frame struct {
	at    float64
	peer  int
	loads []crdt.LoadEntry
}

func newViews(cfg *Config) *views {
	v := &views{
		peers: make([]view, cfg.Peers), blind: cfg.ScrapedOnly, delay: [2]float64{cfg.DispatchDelay, cfg.LoadDelay},
		figures: make(map[crdt.StreamID]crdt.Scrape, cfg.Replicas),
	}
	for k := range cfg.Replicas {
		v.names = append(v.names, crdt.StreamID(fmt.Sprintf("http://10.0.0.%d:8000", k+1)))
	}
	for p := range v.peers {
		e := &v.peers[p]
		e.loads = load.New(peerNumber(p), func() int64 { return v.nowMs })
		e.picker = pick.New(pick.Config{Loads: e.loads})
		for _, name := range v.names {
			e.entries = append(e.entries, e.loads.Entry(name))
		}
	}
	return v
}

func peerNumber(p int) crdt.PeerID { return crdt.PeerID{byte(p + 1), byte((p + 1) >> 8)} }

// believe sets what a peer thinks of the replicas' speed.
func (v *views) believe(peer int, rates []policy.Rates) {
	for k, r := range rates {
		v.peers[peer].loads.Believe(v.names[k], r)
	}
}

// dispatch counts a job in at its replica, the second of two if it is.
func (v *views) dispatch(now float64, j *job, second bool) {
	if v.blind {
		return
	}
	j.cost = load.Cost{Replica: v.names[j.replica], Prefill: j.prefill, Tokens: j.tokens, Blocks: j.blocks}
	if second {
		v.peers[j.peer].loads.Add(&j.cost, millis(now))
	} else {
		v.peers[j.peer].loads.Dispatch(&j.cost, millis(now))
	}
	v.tell(now, j.peer, 0)
}

// firstToken moves a job from waiting to streaming.
func (v *views) firstToken(now float64, j *job) {
	if v.blind {
		return
	}
	v.peers[j.peer].loads.FirstToken(&j.cost, millis(now))
	v.tell(now, j.peer, 1)
}

// finish takes a job out.
func (v *views) finish(now float64, j *job) {
	if v.blind {
		return
	}
	v.peers[j.peer].loads.Done(&j.cost, time.Duration((now-j.arrived)*float64(time.Second)), 0, 0)
	v.tell(now, j.peer, 1)
}

// tell sends what changed to the other peers.
func (v *views) tell(now float64, peer, kind int) {
	if len(v.peers) == 1 {
		return
	}
	if loads := v.peers[peer].loads.OwnLoads(nil, true); len(loads) > 0 {
		v.pending[kind].push(frame{at: now, peer: peer, loads: loads})
	}
}

// advance lets arrive what has been under way for its delay.
func (v *views) advance(now float64) {
	v.nowMs = millis(now)
	for kind := range v.pending {
		for q := &v.pending[kind]; q.len() > 0 && q.front().at+v.delay[kind] <= now; {
			f := q.pop()
			from := peerNumber(f.peer)
			for p := range v.peers {
				if p != f.peer {
					v.peers[p].loads.JoinLoads(from, f.loads)
				}
			}
		}
	}
}

// scrape reads the engines' own figures again if that was at least so many
// seconds ago, and gives them to the peer that decides.
func (v *views) scrape(nowMs int64, peer int, cfg *Config, engines []*replica.Replica) {
	if v.scraped == 0 || float64(nowMs-v.scraped) >= 1000*cfg.Scrape {
		v.scraped = nowMs
		for k, e := range engines {
			st := e.Stats()
			v.figures[v.names[k]] = crdt.Scrape{
				Version: uint64(nowMs), Running: int32(st.Running), Waiting: int32(st.Waiting), KVUse: float32(st.KVUse()),
				Capacity: int64(st.Blocks * cfg.Page),
			}
		}
	}
	if e := &v.peers[peer]; e.scraped != v.scraped {
		e.scraped = v.scraped
		e.loads.JoinScrapes(v.figures)
	}
}

// look begins a peer's decision: its view, with the ages that the run says.
func (v *views) look(now float64, peer int, cfg *Config, rnd *rand.Rand) *policy.View {
	ages := pick.Ages{Load: 1000 * cfg.ViewAge, Index: 1000 * cfg.IndexDelay, Peers: cfg.Peers}
	e := &v.peers[peer]
	return e.picker.Look(&e.scratch, ages, millis(now), rnd)
}

// fill completes candidates with the load that a peer knows of.
func (v *views) fill(now float64, peer int, cfg *Config, cands []policy.Candidate) {
	e := &v.peers[peer]
	e.here = e.here[:0]
	for i := range cands {
		e.here = append(e.here, e.entries[cands[i].Index])
	}
	e.loads.Snapshot(cands, e.here, millis(now), 1000*cfg.ViewAge)
}

// ask is a prompt as policies see it. The view says then what share of the
// peer's requests begin like it.
func (v *views) ask(peer, tokens, page int, keys []uint64, session uint64) *policy.Request {
	e := &v.peers[peer]
	return e.picker.Ask(&e.scratch, v.read(tokens, page, keys), session)
}

// askAgain is the same for a prompt that was counted before.
func (v *views) askAgain(peer, tokens, page int, keys []uint64, session uint64) {
	v.read(tokens, page, keys).Request(session, &v.peers[peer].scratch.Request)
}

func (v *views) read(tokens, page int, keys []uint64) *pick.Prompt {
	p := &v.prompt
	p.Tokens, p.Grid, p.Chain.Keys = tokens, page, p.Chain.Keys[:0]
	for _, key := range keys {
		p.Chain.Keys = append(p.Chain.Keys, radix.Key(key))
	}
	return p
}

// learn feeds a job's first token to the rates that its peer believes in.
func (v *views) learn(now float64, j *job) {
	v.peers[j.peer].loads.Learn(v.names[j.replica], policy.Sample{Predicted: j.predicted, Prefill: j.prefill, Seen: now - j.arrived})
}

// learnRun feeds a job's answer.
func (v *views) learnRun(now float64, j *job) {
	v.peers[j.peer].loads.LearnRun(v.names[j.replica], now-j.first, j.req.Output-1)
}

// epochMillis is virtual time 0 on the peers' clocks: a first token at second
// 0 must not look like none.
const epochMillis = 1_000_000

func millis(seconds float64) int64 { return epochMillis + int64(math.Round(seconds*1000)) }
