// Package crdttest holds a map implementation of crdt.Blocks, plain enough to
// be believed, for the tests of packages that drive real streams.
//
// It owns no time and no randomness. Its block keys are chained with a mixing
// function of its own, not with the mesh's hasher.
package crdttest
