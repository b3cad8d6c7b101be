package gossip

import (
	"errors"
	"math/rand/v2"

	"github.com/banyan-llm/banyan/crdt"
)

// Version is the protocol version this code speaks; MinVersion the oldest it
// still understands. Up to 3 peers inferred restarts and joined, revived and
// relabelled incarnations; since 4 an epoch is the start of an engine's process,
// and a higher one wins whole. A mesh of both would call one process by two names
// for ever, so they refuse each other.
const (
	Version    = 4
	MinVersion = 4
)

// Limits bound what a Core holds and sends. Zero values take the defaults.
type Limits struct {
	UnackedBytes  int // sent and unacknowledged, per connection; default 8 MiB
	BurstBytes    int // sent on a bulk connection since it was last writable or acknowledged; default 1 MiB
	SnapshotBytes int // of BurstBytes and UnackedBytes, what snapshots may take, per peer; default 1 MiB
	SlotsBytes    int // slot bodies cut into one frame (at least one slot); default 256 KiB
	FragmentBytes int // payload of one frame; longer ones are sent in pieces; default 256 KiB
	MessageBytes  int // one payload put together from pieces; default 16 MiB
	StagedBytes   int // snapshots being received, all together; default 512 MiB
	Streams       int // streams accepted from the network; default 65,536
	Peers         int // peers known at a time; default 1,024
	Wants         int // wants outstanding at one donor; default 32
	Cuts          int // snapshots being cut or sent at a time, all together; default 4
	Spans         int // spans owed to one peer per stream; beyond, its digest repairs; default 64
}

// DefaultLimits are the limits of the protocol.
func DefaultLimits() Limits {
	return Limits{
		UnackedBytes:  8 << 20,
		BurstBytes:    1 << 20,
		SnapshotBytes: 1 << 20,
		SlotsBytes:    256 << 10,
		FragmentBytes: 256 << 10,
		MessageBytes:  16 << 20,
		StagedBytes:   512 << 20,
		Streams:       1 << 16,
		Peers:         1 << 10,
		Wants:         32,
		Cuts:          4,
		Spans:         64,
	}
}

// withDefaults fills what is zero.
func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	for _, f := range []struct{ have, def *int }{
		{&l.UnackedBytes, &d.UnackedBytes},
		{&l.BurstBytes, &d.BurstBytes},
		{&l.SnapshotBytes, &d.SnapshotBytes},
		{&l.SlotsBytes, &d.SlotsBytes},
		{&l.FragmentBytes, &d.FragmentBytes},
		{&l.MessageBytes, &d.MessageBytes},
		{&l.StagedBytes, &d.StagedBytes},
		{&l.Streams, &d.Streams},
		{&l.Peers, &d.Peers},
		{&l.Wants, &d.Wants},
		{&l.Cuts, &d.Cuts},
		{&l.Spans, &d.Spans},
	} {
		if *f.have == 0 {
			*f.have = *f.def
		}
	}
	return l
}

// Config is what a Core is made from.
type Config struct {
	Self  crdt.PeerID // 128 random bits per process start
	Name  string      // for people, at most 255 bytes
	Label string      // cluster label, at most 255 bytes: foreign clusters are refused
	// Fingerprint hashes what all peers of a mesh must agree on: hash id, grid,
	// id of the hash secret. Another fingerprint is refused.
	Fingerprint uint64
	// Differs says for people what another fingerprint differs in, and what to
	// do; nil: nobody can tell.
	Differs func(theirs uint64) string
	State   State      // the replicated state; called from Step only
	Rand    *rand.Rand // jitter and choice of peers; owned by the Core
	// Wants reports whether this peer wants to know a stream; nil: all. What it
	// does not want is neither pulled nor joined, whatever others hold: else a
	// replica that left lives on in whoever heard of it last. Called from Step
	// only; it must not wait.
	Wants func(crdt.StreamID) bool
	// Fits reports whether this peer can hold what another one tells of a stream;
	// nil: always. What does not fit is not pulled. Called from Step only.
	Fits func(crdt.StreamID, *crdt.Digest) bool

	// JoinGrace is how long a peer that sees no other member, or only such that
	// join too, waits before it calls itself ready, ms; default 2,000. JoinBound
	// is how long a peer waits for its donors at most, ms; default 30,000.
	JoinGrace int64
	JoinBound int64

	Limits Limits

	// MinVersion and MaxVersion override the protocol versions offered; zero
	// means MinVersion and Version. For tests of mixed meshes.
	MinVersion, MaxVersion uint8
}

const maxNameBytes = 255

// validate joins all faults.
func (c *Config) validate() error {
	var errs []error
	fault := func(bad bool, what string) {
		if bad {
			errs = append(errs, errors.New("gossip: "+what))
		}
	}
	fault(c.Self == crdt.PeerID{}, "no peer id")
	fault(c.State == nil, "no state")
	fault(c.Rand == nil, "no source of randomness")
	fault(len(c.Name) > maxNameBytes, "name longer than 255 bytes")
	fault(len(c.Label) > maxNameBytes, "label longer than 255 bytes")
	fault(c.MinVersion > c.MaxVersion, "min version above max version")
	return errors.Join(errs...)
}

// withDefaults fills what is zero.
func (c Config) withDefaults() Config {
	if c.JoinGrace == 0 {
		c.JoinGrace = 2_000
	}
	if c.JoinBound == 0 {
		c.JoinBound = 30_000
	}
	if c.MaxVersion == 0 {
		c.MinVersion, c.MaxVersion = MinVersion, Version
	}
	c.Limits = c.Limits.withDefaults()
	return c
}
