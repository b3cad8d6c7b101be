package simulation

import (
	"math/rand/v2"
	"slices"
	"time"
)

// RandomFaults draws a schedule over d for a mesh of peers and replicas: one
// to three a second, of every kind, and some of faults_corners.go.
func RandomFaults(seed uint64, peers, replicas int, d time.Duration) []Fault {
	g := &faultDraw{rng: rand.New(rand.NewPCG(seed, 0xfa017)), peers: peers, replicas: replicas, span: d}
	var out []Fault
	for range (int(d/time.Second) + 1) * (1 + g.rng.IntN(3)) {
		out = append(out, g.draw())
	}
	out = append(out, g.forGood(rand.New(rand.NewPCG(seed, 0x5e7e8)))...)
	out = append(out, g.corners(rand.New(rand.NewPCG(seed, 0xc0e4)))...)
	out = append(out, g.outside(rand.New(rand.NewPCG(seed, 0x07516e)))...)
	slices.SortStableFunc(out, func(a, b Fault) int { return int(a.At - b.At) })
	return out
}

// forGood draws what is never healed: a peer that drains, a severed link, an
// engine's clock that is set, peers that start together.
func (g *faultDraw) forGood(rng *rand.Rand) (out []Fault) {
	g.rng = rng
	if g.peers >= 4 && rng.IntN(3) == 0 {
		f := Fault{At: g.within(g.span), Verb: "sever", Peer: g.peer(), OneWay: rng.IntN(2) == 0}
		f.Other = g.other(f.Peer)
		out = append(out, f)
	}
	if g.peers >= 3 && rng.IntN(3) == 0 {
		out = append(out, Fault{At: g.within(g.span), Verb: "drain", Peer: g.peer()})
	}
	for range rng.IntN(3) {
		out = append(out, Fault{At: g.within(g.span), Verb: "clock", Target: g.replica(), Skew: g.within(2*time.Minute) - time.Minute})
	}
	if rng.IntN(3) == 0 { // several start at once, as when a deployment grows
		f := Fault{At: g.within(g.span), Verb: "join"}
		for range 2 + rng.IntN(2) {
			out = append(out, f)
		}
	}
	return out
}

type faultDraw struct {
	rng             *rand.Rand
	peers, replicas int
	span            time.Duration
	restarted       map[string]int
	joined, killed  int
}

// within draws a time below d, in whole steps of 10 ms.
func (g *faultDraw) within(d time.Duration) time.Duration {
	return time.Duration(g.rng.Int64N(int64(max(d/(10*time.Millisecond), 1)))) * 10 * time.Millisecond
}

func (g *faultDraw) peer() string    { return peerName(g.rng.IntN(g.peers)) }
func (g *faultDraw) replica() string { return "r" + string(rune('0'+g.rng.IntN(min(g.replicas, 10)))) }

func (g *faultDraw) other(a string) string {
	for {
		if b := g.peer(); b != a {
			return b
		}
	}
}

func (g *faultDraw) draw() Fault {
	f := Fault{At: g.within(g.span), For: 100*time.Millisecond + g.within(g.span/3)}
	switch roll := g.rng.IntN(20); {
	case roll < 4 && g.peers > 1:
		f.Verb, f.Peer, f.OneWay = "cut", g.peer(), g.rng.IntN(2) == 0
		f.Other = g.other(f.Peer)
	case roll == 4:
		f.Verb, f.Peer, f.Other = "cut", g.peer(), g.replica()
	case roll == 5 && g.peers > 1:
		f.Verb, f.Peer, f.For = "break", g.peer(), 0
		f.Other = g.other(f.Peer)
	case roll == 6:
		f.Verb, f.Peer, f.Factor = "slow", g.peer(), float64(2+g.rng.IntN(100))
	case roll == 7:
		f.Verb, f.Peer = "stall", g.peer()
	case roll == 8 && g.killed < g.peers-1:
		g.killed++
		f.Verb, f.Peer = "kill", g.peer()
	case roll == 9 && g.joined < 2:
		g.joined++
		f.Verb, f.For = "join", 0
	case roll == 10 && g.peers > 1:
		f.Verb, f.Peer, f.OneWay = "suspect", g.peer(), true
		f.Other = g.other(f.Peer)
	case roll == 11:
		f.Verb, f.Peer, f.Skew = "skew", g.peer(), g.within(10*time.Second)-5*time.Second
	case roll == 12:
		return g.restart(f)
	case roll == 13:
		f.Verb, f.Target, f.For = "lose", g.replica(), 0
	case roll < 17:
		f.Verb, f.Target, f.Factor = "repeat-events", g.replica(), float64(1+g.rng.IntN(20))/100
	default:
		f.Verb, f.Target, f.Factor = "drop-events", g.replica(), float64(1+g.rng.IntN(60))/100
	}
	return f
}

func (g *faultDraw) restart(f Fault) Fault {
	f.Verb, f.Target = "restart", g.replica()
	if f.For = 0; g.rng.IntN(2) == 0 {
		f.For = g.within(3 * time.Second)
	}
	if g.restarted[f.Target] == 2 {
		f.Verb, f.Factor, f.For = "drop-events", 0.3, time.Second
		return f
	}
	if g.restarted == nil {
		g.restarted = map[string]int{}
	}
	g.restarted[f.Target]++
	return f
}
