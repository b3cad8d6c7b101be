// Package gossiptest is a gossip.State for tests: real streams over a plain
// map, and small tables so plain that they need no tests of their own.
package gossiptest
