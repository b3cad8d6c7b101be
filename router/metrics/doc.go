// Package metrics holds the Prometheus series of a peer.
//
// It owns their names, helps, buckets and labels: the counters and histograms
// that the parts of a peer are handed (Metrics), those by replica, model and
// user (Usage), and the gauges that follow a peer's state (Collector), which is
// handed to it as a value at each scrape (State).
//
// It does not know a peer, its fleet or its mesh, nor when anything happens:
// whoever sees it happen counts it. The mesh's shell registers its own series.
//
// Invariants, each held by a test of the same number:
//
//	I1  No label grows with what clients say: names beyond a bound, and what is
//	    no label, are "other". What is gone leaves no series.
//	I2  A counter whose label is of a closed list has all its series from the
//	    start: one that appears with its first increase hides that increase.
//	I3  Each gauge that is described is told of a state that has it, with the
//	    labels described.
package metrics
