package fleet

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// maxRanks bounds the data-parallel ranks behind one URL.
const maxRanks = maxLoadRanks

// Bounds of ranks that nobody listed: an engine only says that it has them, and
// each costs memory and a subscription to its events. More can be configured. 128
// behind one URL are 16 nodes of 8 GPUs; with 512 in all a peer takes 87 MB.
const (
	maxToldRanks    = 128
	maxToldReplicas = 1024
)

// expand lists the ranks of a spec as specs of their own: rank i has the ports
// of rank 0 plus i, as vLLM and SGLang offset them, and the name with /i.
// Rank 0 keeps the spec as it is, so that ranks found out later change nothing
// about it (I1).
func (s *Spec) expand(ranks int) []Spec {
	out := []Spec{*s}
	for rank := 1; rank < min(ranks, maxRanks); rank++ {
		next := *s
		next.Rank = rank
		next.Name = s.Name + "/" + strconv.Itoa(rank)
		if s.Events != Poll {
			next.Events = offset(s.Events, rank)
		}
		next.Replay = offset(s.Replay, rank)
		next.P2P = strings.TrimPrefix(offset("tcp://"+s.P2P, rank), "tcp://")
		out = append(out, next)
	}
	return out
}

// offset is an endpoint n ports above; empty if there is no such port.
func offset(endpoint string, n int) string {
	address, ok := strings.CutPrefix(endpoint, "tcp://")
	host, port, err := net.SplitHostPort(address)
	at, numErr := strconv.Atoi(port)
	if !ok || err != nil || numErr != nil || at+n > 65535 {
		return ""
	}
	return "tcp://" + net.JoinHostPort(host, strconv.Itoa(at+n))
}

// checkRanks reports what is wrong with a spec's ranks.
func (s *Spec) checkRanks() error {
	switch {
	case s.Ranks < 0 || s.Ranks > maxRanks:
		return fmt.Errorf("%d is not from 0 to %d", s.Ranks, maxRanks)
	case s.Ranks < 2:
		return nil
	case s.Rank != 0:
		return errors.New("set rank or ranks, not both")
	case s.Engine == trtllm || s.Events == Poll:
		return errors.New("TensorRT-LLM picks the rank of a request itself")
	}
	for _, endpoint := range []string{s.Events, s.Replay} {
		if endpoint != "" && offset(endpoint, s.Ranks-1) == "" {
			return fmt.Errorf("%s plus %d ranks has no such port", endpoint, s.Ranks)
		}
	}
	for rank := 1; rank < s.Ranks; rank++ {
		if s.Events != "" && (offset(s.Events, rank) == s.Replay || offset(s.Replay, rank) == s.Events) {
			return fmt.Errorf("events and replay are less than %d ports apart: the ranks' ports collide", s.Ranks)
		}
	}
	return nil
}

// ranksLocked is how many replicas a spec becomes: as configured, else as its
// engine told, unless somebody lists single ranks of its URL.
func (f *Fleet) ranksLocked(spec *Spec, single map[string]bool) int {
	switch {
	case spec.Ranks > 0:
		return spec.Ranks
	case spec.Rank == 0 && spec.Kind == KindReplica && !single[spec.URL]:
		return min(f.told[spec.URL], maxToldRanks)
	}
	return 1
}

// tell notes how many ranks the engine behind a URL says it has.
func (f *Fleet) tell(url string, ranks int, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ranks < 2 {
		ranks = 0
	}
	if f.told[url] == ranks {
		return
	}
	f.told[url] = ranks
	f.rebuildLocked(now, false)
}

// Fail records a failed request of a replica. If nobody listened, the other
// ranks behind its URL are down as well: else a request could spend all its
// tries on one dead server. It reports whether the replica went down now.
func (f *Fleet) Fail(r *Replica, now time.Time, hard bool, reason string) bool {
	if hard && r.many.Load() {
		for _, o := range f.List() {
			if o != r && o.Spec.URL == r.Spec.URL {
				o.Fail(now, true, reason)
			}
		}
	}
	return r.Fail(now, hard, reason)
}

// RanksCut reports whether the engine tells of more ranks than become replicas
// without being listed.
func (r *Replica) RanksCut() bool { return r.cut.Load() }

// OneOfMany reports whether other ranks behind the replica's URL are listed:
// requests must then name their rank.
func (r *Replica) OneOfMany() bool { return r.Spec.Rank != 0 || r.many.Load() }
