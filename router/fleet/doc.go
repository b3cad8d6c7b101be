// Package fleet knows the replicas: which there are, what they serve, whether
// they answer, what engine they run, and what they last said of their own load.
//
// It owns discovery (the configuration, DNS, Kubernetes), active and passive
// health with a circuit breaker, slow start, the models a replica serves, the
// kind of its engine where nobody says it, and the reading of its load. It does
// not know policies, prompts or the mesh.
//
//	sources --Update--> list of replicas --watch--> health, models, Facts, scrapes
//
// I1: a replica's name and stream id never change while it is listed.
// I2: a replica receives no request while its breaker is open.
// I3: everything read from a replica is bounded before it is decoded.
// I4: List returns an immutable snapshot; readers take no lock.
// I5: nothing of /server_info but a few named fields is decoded, logged or
// kept: the page holds keys.
// I6: what discovery cannot reach does not empty the list: the last answer
// stands until there is another.
// I7: an engine that answers nothing useful is unknown, never idle.
package fleet
