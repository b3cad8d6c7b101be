package router

import (
	"time"

	"github.com/banyan-llm/banyan/router/report"
)

// listed is what is known of how replicas are found and listed.
func (rep *replicaReport) listed(now time.Time) *report.Fleet {
	replicas := rep.fleet.List()
	out := listOf(rep.rules, replicas)
	for i, r := range replicas {
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
