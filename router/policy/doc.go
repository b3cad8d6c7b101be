// Package policy decides which replica serves a request, and says why. It is
// pure: the caller gives the time, the random source and everything the peer
// sees; a decision comes back.
package policy
