package router

import (
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/kvevents/follow"
	"github.com/banyan-llm/banyan/router/report"
)

// feedOf is where a replica's events are read, and what came of it.
func feedOf(r *fleet.Replica, d crdt.Digest) (out report.Feed) {
	f := r.Facts()
	out = report.Feed{Topic: f.Topic, Tells: f.Tells, Started: follow.StartOf(d.Context.Epoch), Floor: d.Context.Floor, Facts: d.Base}
	if f.Events != fleet.Poll {
		out.Events = f.Events
	}
	out.Untrue, out.Checked = r.Untrue()
	return out
}

// listed is what is known of how replicas are found and listed.
func (rep *replicaReport) listed(now time.Time) *report.Fleet {
	replicas := rep.fleet.List()
	out := listOf(rep.rules, replicas)
	digests := rep.index.All()
	for i, r := range replicas {
		out.Listed[i].Feed = feedOf(r, digests[r.Stream])
		if st, ok := rep.ingest.told(r.Stream); ok {
			out.Listed[i].EventRank, out.Listed[i].Warning = st.Rank, st.Warning
		}
	}
	for _, f := range rep.census.discovery {
		out.Sources = append(out.Sources, report.Source{Name: f.source, Trouble: f.trouble()})
	}
	out.Strange, out.Topic = rep.ingest.strangers(now)
	return out
}
