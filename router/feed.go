package router

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/kvevents"
	"github.com/banyan-llm/banyan/router/kvevents/zmtp"
)

// source is what brings a stream's events: a Subscriber, or a Poller of an
// engine whose events are drained when read.
type source interface {
	Run(ctx context.Context) error
	Fetch(want []crdt.Span)
	Status() kvevents.Status
}

// fed says how a replica's events come.
type fed uint8

const (
	fedNot    fed = iota // no events
	fedDialed            // owners dial the engine's PUB socket
	fedPolled            // one owner polls
	fedHub               // the engine dials any peer: all are ready to take them
)

// feed is all that decides how a replica's events are read. A stream whose
// feed changes is followed anew.
type feed struct {
	how                           fed
	engine, events, replay, topic string
}

func (g *follower) fed(r *fleet.Replica) feed {
	f := r.Facts()
	switch {
	case r.Spec.Kind == fleet.KindPool && r.Spec.Events == "" || r.Spec.Kind == fleet.KindRender || f.Engine == "" || g.misfit(&f) != "":
		return feed{}
	case f.Engine == "trtllm":
		if f.Events == "" && !g.rules.config().Ingest.Poll || !g.polls(r) {
			return feed{}
		}
		return feed{how: fedPolled, engine: f.Engine}
	case f.Events != "" && f.Events != fleet.Poll:
		return feed{fedDialed, f.Engine, f.Events, f.Replay, f.Topic}
	case g.hub != nil:
		return feed{how: fedHub, engine: f.Engine, replay: f.Replay, topic: f.Topic}
	}
	return feed{}
}

// misfit says why the events of an SGLang replica cannot be used, before any
// came. Of the other engines a page is told for all cache groups together, so
// their events decide.
func (g *follower) misfit(f *fleet.Facts) string {
	cfg := kvevents.PackConfig{Engine: kvevents.SGLang, Grid: g.rules.config().Grid}
	if f.Engine != kvevents.SGLang.String() || f.BlockSize == 0 || cfg.Fits(f.BlockSize) {
		return ""
	}
	return cfg.Cure(f.BlockSize)
}

// polls reports whether a replica is the lowest listed rank of its URL: one
// poll drains the events of all ranks.
func (g *follower) polls(r *fleet.Replica) bool {
	return !slices.ContainsFunc(g.fleet.List(), func(o *fleet.Replica) bool {
		return o.Spec.URL == r.Spec.URL && o.Spec.Rank < r.Spec.Rank
	})
}

// source makes what brings a replica's events.
func (g *follower) source(r *fleet.Replica, way feed) (source, error) {
	logger := g.log.Named("kvevents").With("replica", r.Name())
	if way.how == fedPolled {
		cfg := kvevents.PollerConfig{URL: r.Spec.URL, Grid: g.rules.config().Grid, Hasher: g.hasher, Sink: g, Logger: logger}
		if r.Spec.Credentials != "" {
			cfg.Header = http.Header{"Authorization": {"Bearer " + r.Spec.Credentials}}
		}
		p, err := kvevents.NewPoller(cfg)
		if err != nil {
			return nil, err
		}
		return polled{p}, nil
	}
	engine, err := kvevents.ParseEngine(way.engine)
	if err != nil {
		return nil, err
	}
	return kvevents.NewSubscriber(kvevents.Config{
		Stream: r.Stream, Engine: engine, Events: way.events, Replay: way.replay, Topic: way.topic,
		Grid: g.rules.config().Grid, Hasher: g.hasher, Sink: g, Logger: logger, ZMTP: zmtp.Options{Room: g.room},
		Start: func(ctx context.Context) (uint64, error) { return g.fleet.Started(ctx, r) },
	})
}

// hostOf is how an engine that dials us names itself in its topic.
func hostOf(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return base
	}
	return u.Host
}

// polled makes a Poller a source: its engine has no replay, so there is
// nothing to fetch.
type polled struct{ *kvevents.Poller }

func (polled) Fetch([]crdt.Span) {}

func (p polled) Status() kvevents.Status {
	all := p.Poller.Status()
	if len(all) == 0 {
		return kvevents.Status{State: "polling"}
	}
	return all[0]
}
