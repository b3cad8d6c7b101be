package router

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/gossip/mesh"
	"github.com/banyan-llm/banyan/router/access"
	"github.com/banyan-llm/banyan/router/index"
	"github.com/banyan-llm/banyan/router/ingest"
	"github.com/banyan-llm/banyan/router/metrics"
)

// maxJobs bounds the snapshot jobs waiting for the worker.
const maxJobs = 64

// link is the peer's connection to the mesh: it posts what happened here and
// carries out what the core wants done here.
type link struct {
	id        crdt.PeerID
	clock     clock
	index     *index.Index
	census    *census
	readiness *readiness
	ingest    *follower // set before the mesh starts
	metrics   *metrics.Metrics
	log       hclog.Logger

	core *gossip.Core
	mesh *mesh.Mesh
	jobs chan gossip.Effect // snapshots to cut and join, off the mesh's loop
	wg   sync.WaitGroup
	quit chan struct{}
}

// newLink binds the mesh's address; start does the rest.
func newLink(p *Peer, core *gossip.Core) (*link, error) {
	l := &link{
		id: p.id, clock: p.clock, index: p.index, census: p.census, readiness: p.readiness, metrics: p.metrics, log: p.log,
		core: core, jobs: make(chan gossip.Effect, maxJobs), quit: make(chan struct{}),
	}
	m := p.rules.config().Mesh
	var err error
	l.mesh, err = mesh.New(mesh.Config{
		Name: p.name, PeerID: p.id, Bind: m.Bind, Advertise: m.Advertise, Join: m.Join, Label: m.Label, Keyring: p.rules.Load().ring,
		Insecure: m.Insecure, TLS: meshFiles(&m), Version: p.version,
		HTTP: p.front.public.Addr().String(), Core: core, Now: func() time.Time { return p.clock.at(time.Now()) }, Local: l.local, OnChange: func() { l.ingest.wake() },
		Logger: p.log.Named("mesh"), Registerer: p.metrics.Registry,
	})
	return l, err
}

func meshFiles(m *MeshConfig) mesh.TLSFiles {
	return mesh.TLSFiles{Cert: m.TLS.Cert, Key: m.TLS.Key, CA: m.TLS.CA}
}

// keyring reads the gossip keys; the first one encrypts.
func keyring(m MeshConfig) ([]string, error) {
	var keys []string
	if m.Key != "" {
		keys = append(keys, m.Key)
	}
	if m.Keyring == "" {
		return keys, nil
	}
	data, err := access.ReadFile(m.Keyring, 64<<10)
	if err != nil {
		return nil, fmt.Errorf("mesh.keyring: %w", err)
	}
	var faults []error
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") || line == m.Key {
			continue
		}
		if err := mesh.CheckKey(line); err != nil {
			faults = append(faults, fmt.Errorf("mesh.keyring: %s line %d: %w; `banyan keygen` makes a key", m.Keyring, number, err))
		}
		keys = append(keys, line)
	}
	if faults != nil {
		return nil, errors.Join(faults...)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("mesh.keyring: %s holds no key", m.Keyring)
	}
	return keys, nil
}

// setKeys makes ring this peer's gossip keys, without a restart.
func (l *link) setKeys(ring []string) error {
	changed, err := l.mesh.SetKeys(ring)
	if changed && err == nil {
		l.log.Info("mesh keys applied", "keys", len(ring))
	}
	return err
}

func (l *link) start() error {
	if err := l.mesh.Start(); err != nil {
		return err
	}
	l.wg.Go(l.work)
	return nil
}

// stop leaves the mesh and ends its goroutines.
func (l *link) stop() {
	if err := l.mesh.Leave(); err != nil {
		l.log.Warn("could not announce the shutdown: the other peers will list this one as failed", "err", err)
	}
	if err := l.mesh.Close(); err != nil {
		l.log.Warn("mesh closed with an error; harmless, this peer ends anyway", "err", err)
	}
	close(l.quit)
	l.wg.Wait()
}

// local takes the effects that the mesh does not handle. It runs in the mesh's
// loop and must not block.
func (l *link) local(e gossip.Effect) {
	switch e := e.(type) {
	case gossip.CutSnapshot:
		l.queue(e, gossip.SnapshotCut{Stream: e.Stream})
	case gossip.JoinSnapshot:
		l.queue(e, gossip.SnapshotJoined{Stream: e.Snapshot.Stream, Err: errBusy})
	case gossip.Observed:
		l.metrics.Propagation.Observe(max(0, e.DelayMs) / 1000)
	case gossip.Missing:
		l.ingest.missing(e.Stream, e.Spans)
	case gossip.Caught:
		l.readiness.caught.Store(&e)
		if e.Ready && !l.readiness.joined.Swap(true) {
			l.ingest.wake() // it may own streams from now on
		}
		l.log.Debug("state of the mesh", "caught_up", e.Ready, "reason", e.Reason) // readiness is more: see tellReady
	}
}

var errBusy = fmt.Errorf("more than %d snapshot jobs wait", maxJobs)

var errUnwanted = errors.New("its replica is not listed any more")

// queue gives a job to the worker; when too many wait, the core hears no.
func (l *link) queue(job gossip.Effect, refusal gossip.Event) {
	select {
	case l.jobs <- job:
	default:
		l.wg.Go(func() { l.mesh.Post(refusal) })
	}
}

// work cuts and joins snapshots in small steps, one job at a time.
func (l *link) work() {
	for {
		select {
		case <-l.quit:
			return
		case job := <-l.jobs:
			now := l.clock.ms(time.Now())
			switch e := job.(type) {
			case gossip.CutSnapshot:
				l.mesh.Post(gossip.SnapshotCut{Stream: e.Stream, Snapshot: l.index.Cut(e.Stream)})
			case gossip.JoinSnapshot:
				err := errUnwanted
				if l.census.wants(e.Snapshot.Stream) { // still
					err = l.index.Join(e.Snapshot, now)
				}
				l.mesh.Post(gossip.SnapshotJoined{Stream: e.Snapshot.Stream, Err: err})
			}
		}
	}
}

func (l *link) loadChanged(urgent bool) { l.mesh.Post(gossip.LoadChanged{Urgent: urgent}) }
func (l *link) predicted()              { l.mesh.Post(gossip.Predicted{}) }
func (l *link) intentChanged()          { l.mesh.Post(gossip.IntentChanged{}) }

func (l *link) ingested(ev gossip.Ingested) { l.mesh.Post(ev) }

func (l *link) address() string { return l.mesh.Addr() }

func (l *link) setTags(ready, draining bool, settings string) {
	l.mesh.SetTags(ready, draining, settings)
}

// everybody lists all members, this peer among them.
func (l *link) everybody() []mesh.Member { return l.mesh.Members() }

// members lists the other peers.
func (l *link) members() []mesh.Member {
	var out []mesh.Member
	for _, m := range l.everybody() {
		if m.ID != l.id {
			out = append(out, m)
		}
	}
	return out
}

// udpLost reports whether other peers answer over TCP and not over UDP.
func (l *link) udpLost() bool { return l.mesh.UDPLost() }

// unjoined says why no seed could be joined, while no other peer was met.
func (l *link) unjoined() (out []string) {
	for _, f := range l.mesh.Alone() {
		out = append(out, f.Seed+": "+strings.TrimPrefix(f.Reason, f.Seed+": "))
	}
	return out
}

// inspect runs f with the core in the mesh's loop and waits for it, until ctx
// ends.
func (l *link) inspect(ctx context.Context, f func(*gossip.Core)) {
	_ = l.mesh.Do(ctx, func() { f(l.core) })
}

// eligible lists the peers that may own streams now, this one among them if it
// may. Who ranks the owners of many streams asks once for all of them.
func (l *link) eligible() []crdt.PeerID {
	var peers []crdt.PeerID
	for _, m := range l.members() {
		if m.State == mesh.Alive && ingest.Counts(m.Ready, m.Draining, m.ViewAge.Milliseconds()) {
			peers = append(peers, m.ID)
		}
	}
	return ingest.Eligible(peers, ingest.Self{ID: l.id, Joined: l.readiness.joined.Load(), Draining: l.readiness.draining.Load()})
}
