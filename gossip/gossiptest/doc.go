// Package gossiptest drives real gossip.Cores over an in-memory network with
// a virtual clock: delays, bandwidth, cuts in one or both directions, broken
// connections, dead peers. One seed, one transcript.
//
// Invariants of the network:
//
// I1: the frames of one connection arrive in order and unchanged or not at
// all; between connections there is no order.
// I2: time only moves forward, and all randomness comes from Config.Seed.
package gossiptest
