// Package fleet knows the replicas: which there are, what they serve, whether
// they answer, and what they last said of their own load.
//
// It owns discovery, active and passive health with a circuit breaker, the
// models a replica serves and the reading of its metrics. It does not know
// policies, prompts or the mesh.
//
// I1: a replica's name and stream id never change while it is listed.
// I2: a replica receives no request while its breaker is open.
// I3: everything read from a replica is bounded before it is decoded.
// I4: List returns an immutable snapshot; readers take no lock.
package fleet
