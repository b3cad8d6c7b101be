// Package load drives an OpenAI endpoint with a workload, open loop (requests
// come when they are due) or closed loop (a fixed number is in flight), and
// sums up what its user would have felt.
//
// Invariants, each held by a test:
//
//	B1  at most Config.InFlight requests are open; in an open loop what would
//	    exceed it is counted as overrun and not sent
//	B2  sent + overrun + unsent = the workload's requests; sent = completed +
//	    failed
//	B3  a later turn is never sent before the one before it has ended
//	B4  Run returns only when every request it sent has ended
//
// With Config.Steady a workload of sessions is met on its way instead of at
// its first turns, so that short runs measure what long ones would.
package load
