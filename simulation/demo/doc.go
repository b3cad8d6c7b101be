// Package demo runs the whole product on loopback and judges it: router peers
// and stand-in replicas as child processes of one binary, a small L4 balancer
// in front, the same traffic under several policies, a peer killed and a fresh
// one joined while traffic runs.
//
// It owns the children, the client and the verdict. It knows the product only
// through its command line and HTTP, as a user does.
//
// D1: every child is dead and waited for when Run returns.
// D2: a request counts as failed unless it ended with a complete answer, or
// its stream was cut after the first byte by the peer that was killed.
// D3: every number in the report was measured in this run.
package demo
