// Package router composes one peer and owns its life: listeners, mesh, ingest
// of KV events, the index, the fleet, and the request path. It reads live parts
// and hands values on: how a pair of replicas shares a request is router/disagg's,
// in what words a peer is described router/report's, how series are named
// router/metrics'.
//
// Request path, in one function (requestPath.Pick, pick.go):
//
//	body -> prompt keys -> index.Match -> policy.Decide -> proxy -> first byte -> done
//
// Event path, in one function (ingest.Deliver, ingest.go):
//
//	engine's bytes -> slots -> index.Apply -> gossip core -> other peers: the same Apply
//
// R1: a request that was counted in is counted out exactly once, whatever
// became of it.
// R2: the peer says ready only when its mesh core does, a replica is listed
// and it is not draining.
// R3: Run returns only when every goroutine it started has ended.
package router
