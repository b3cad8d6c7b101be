// Package simulation runs Banyan's decisions in virtual time: requests, peers
// with delayed views, replicas that compute and cache, and the real
// router/policy code between them.
//
// It owns no clock and no goroutine; equal configurations give equal reports,
// to the bit. Three simulations live here. Evaluate (eval*.go) judges policies:
// there the network between client, peer and replica takes no time, peers do
// not fail, and all peers see each other with one delay. RunFaults (faults*.go)
// judges replication: the real gossip core, index and trackers under cuts,
// crashes, slow peers, skewed clocks and restarting engines. EvaluateMesh
// (mesh*.go) is both at once, slower: a workload that goes through every peer's
// own request side (router/pick, router/load, and router/workingset with
// router/admission where conversations wait) over the real index and core, under
// faults if wanted. What package router does around these is written again
// (DECISIONS.md has a table of it and of how it differs). Replicas with host memory and the links between them are one
// model for both evaluations (links.go).
//
// Invariants, each held by a test:
//
//	E1  one configuration, one report
//	E2  every request is completed or counted as failed
//	E3  with one peer and no delay a view equals the truth
//	E4  a peer sees its own dispatches at once, others' after the delay,
//	    nothing twice
//	E5  the index holds exactly what the engines said, IndexDelay ago
//	E6  gossip is counted in the bytes of real frames; one peer sends none
//	E7  a request that two replicas share is over once and counted out at both
//	M1  in a whole mesh every request is over once, and those that fail are
//	    those whose peer or replica ended in mid-answer
//	M2  many peers find and answer what one peer does
//	M3  whole peers that let conversations wait, or fetch, gain what Evaluate says
//
// Many schedules at once, a line every 500 and one for each that fails; -fault-from
// is the seed of the first:
//
//	go test ./simulation -run TestFreshSchedules -timeout 0 -fault-fresh 5000 -fault-from 6000000
//
// Sources: ARCHITECTURE.md (properties), DECISIONS.md here and in router/policy
// and router/pick (decisions with their figures), simulation/replica (what a
// replica's times are fitted to).
package simulation
