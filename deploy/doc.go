// Package deploy holds what a peer needs to run, and the runbook, which every
// peer serves.
package deploy
