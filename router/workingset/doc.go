// Package workingset measures how many tokens of prompts were used lately, at
// which replicas, and says when a new conversation should wait for room.
//
// Caches that cannot hold what is in use collapse: a session whose blocks were
// evicted is computed anew, which evicts another session's. Every session then
// pays for every turn. Fewer sessions at a time are all faster, so the new ones
// have to wait, and no others.
//
// The measure is the working set (Denning 1968): the distinct blocks used
// within Window. It needs no sessions, tells who is in a tool pause, and knows
// what was evicted. Blocks are sampled by their hash, as SHARDS does
// (Waldspurger et al. 2015): a block is counted always or never, so what is
// counted is a fair share of all, and the memory is bounded.
//
// Time comes in as an argument. A peer tells its own requests and those it
// hears of from others, so all peers measure the same.
//
// Invariants, each held by a test of the same number:
//
//	W1  Tokens is what was used within the window, to a step of it: exactly
//	    while every block is sampled, else within what sampling leaves open.
//	W2  At most Samples blocks are kept, whatever is told.
//	W3  Telling the same use again, or an older one, changes nothing.
//	W4  Of all peers one lets waiting conversations in at a time.
package workingset
