// Package gossip is the replication protocol as a pure step function: events
// in, effects out. Time and randomness are arguments; sockets, goroutines and
// clocks live in gossip/mesh, and in simulation.
package gossip
