// Package router composes one peer and owns its life: listeners, mesh, ingest
// of KV events, the index, the fleet, and the request path. It reads live parts
// and hands values on: how a pair of replicas shares a request is router/disagg's,
// in what words a peer is described router/report's, how series are named
// router/metrics'.
//
// Request path: router/proxy reads the body (Handler.ServeHTTP), asks
// requestPath.Pick (pick.go) for a target, sends and streams, and tells of it
// by requestPath.FirstToken and requestPath.Done:
//
//	body -> Pick: block keys -> index.Match -> policy.Decide -> count in -> look again
//	     -> proxy -> FirstToken -> Done
//
// Event path: kvevents.Subscriber reads the engine, follower.Deliver (ingest.go)
// takes the slots:
//
//	engine's bytes -> slots -> Deliver: index.Apply -> gossip core -> other peers: the same Apply
//
// R1: a request that was counted in is counted out exactly once, whatever
// became of it.
// R2: the peer says ready only when its mesh core does, a replica is listed
// and it is not draining.
// R3: Run returns only when every goroutine it started has ended.
package router
