// Package policy decides which replica serves a request, and says why.
//
// It is pure: the caller gives the time, the random source and everything
// this peer sees of the fleet; a Decision comes back. It opens nothing, reads
// no clock and starts no goroutine. It knows neither how prefixes are matched
// nor how load is shared between peers.
//
// The default policy is ttft: the earliest predicted first token. The others
// are baselines, each as its source has it, so that claims can be checked.
//
//	random, round_robin, least_loaded, power_of_two  see no cache
//	consistent_hash  session or prefix key, bounded load
//	cache_aware      SGLang's router: 0.3 / 64 / 1.5
//	prefix           longest match wins; shown because it fails
//	cost             NVIDIA Dynamo's logit
//	weighted         llm-d's scorers
//	sticky           llm-d's affinity filter with release
//	ttft             the default
//
// Invariants, each with a test that names it:
//
//	I1  Pos is a position in the candidates, or -1 exactly if there are none.
//	I2  A candidate of weight 0 is picked only if all have weight 0.
//	I3  Equal inputs, random source included, give equal decisions
//	    (round_robin: and an equal counter).
//	I4  No input makes a policy panic or allocate per candidate; rates that
//	    are not usable numbers are replaced by the defaults.
//	I5  ttft's score equals the formula as written in score_test.go, term by
//	    term; the pick differs from its minimum only by the guard, the holder's
//	    and the session's slack, the spread and the fallback.
//	I6  Only the minimum of the waiting counts is shared between candidates:
//	    a mean or median locks a hot prefix to its first holders.
//	I7  A Calibrator's factor stays inside its clamp whatever it is fed.
package policy
