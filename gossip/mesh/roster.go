package mesh

import (
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/serf/serf"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
)

// MemberState is what membership says of a peer.
type MemberState string

// The member states.
const (
	Alive  MemberState = "alive"
	Failed MemberState = "failed"
	Left   MemberState = "left"
)

// Member is one peer as membership sees it; with what the core knows of it.
type Member struct {
	ID       crdt.PeerID
	Name     string // for people
	Addr     string // of its mesh port
	HTTP     string // of its public listener
	Version  string // of its software
	Protocol int    // newest gossip protocol it speaks
	State    MemberState
	Ready    bool
	Draining bool
	Self     bool
	Since    time.Time // of State
	Settings string    // what it was configured with, in a form that only the caller of SetTags reads
	Settled  time.Time // when Settings last changed, as heard here

	back  [2]time.Time // when it was last heard of again after it had failed, latest first
	First time.Time    // when it was first heard of here

	Connected [gossip.Classes]bool
	// ViewAge is how old what this peer knows of it is, up to 100 ms too high;
	// 0 for Self and for peers that are not alive.
	ViewAge time.Duration
}

// flapWithin is how long a return counts.
const flapWithin = 10 * time.Minute

// Flaps reports whether the process was called failed and was heard of again
// twice in ten minutes: it lives, and is not reached well.
func (m *Member) Flaps(now time.Time) bool {
	return !m.back[1].IsZero() && now.Sub(m.back[1]) < flapWithin
}

// The tags every peer carries; together below serf's 512 bytes.
const (
	tagID       = "id"
	tagName     = "name"
	tagHTTP     = "http"
	tagVersion  = "version"
	tagProtocol = "proto"
	tagReady    = "ready"
	tagDraining = "draining"
	tagSettings = "settings" // peers that do not know it leave it alone
)

// word is what a peer says of itself by its tags, and changes.
type word struct {
	ready, draining bool
	settings        string
}

// tagsOf are the tags of this peer.
func tagsOf(cfg *Config, say *word) map[string]string {
	return map[string]string{
		tagID:       cfg.PeerID.String(),
		tagName:     cfg.Name,
		tagHTTP:     cfg.HTTP,
		tagVersion:  cfg.Version,
		tagProtocol: strconv.Itoa(gossip.Version),
		tagReady:    strconv.FormatBool(say.ready),
		tagDraining: strconv.FormatBool(say.draining),
		tagSettings: say.settings[:min(len(say.settings), maxSettings)],
	}
}

// nodeName is serf's name of this peer: the name for people does not survive a
// restart at once (serf would take the new process for a conflict), the id is
// new with each.
func nodeName(cfg *Config) string { return cfg.Name + "-" + cfg.PeerID.String()[:8] }

var errTags = errors.New("member without a peer id")

// memberOf reads a serf member's tags. Everything in them is from the network.
func memberOf(m serf.Member) (Member, error) {
	id, err := hex.DecodeString(m.Tags[tagID])
	if err != nil || len(id) != len(crdt.PeerID{}) {
		return Member{}, errTags
	}
	protocol, _ := strconv.Atoi(m.Tags[tagProtocol])
	out := Member{
		Name:     printable(m.Tags[tagName], maxNodeName),
		Addr:     net.JoinHostPort(m.Addr.String(), strconv.Itoa(int(m.Port))),
		HTTP:     printable(m.Tags[tagHTTP], maxHTTP),
		Version:  printable(m.Tags[tagVersion], maxVersion),
		Protocol: protocol,
		Ready:    m.Tags[tagReady] == "true",
		Draining: m.Tags[tagDraining] == "true",
		Settings: printable(m.Tags[tagSettings], maxSettings),
	}
	copy(out.ID[:], id)
	return out, nil
}

// printable cuts what a log or a page should not show.
func printable(s string, max int) string {
	s = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return -1
		}
		return r
	}, s)
	return s[:min(len(s), max)]
}

// roster is the membership as this peer last heard it.
type roster struct {
	self crdt.PeerID

	mu      sync.Mutex // guards below
	members map[string]Member
	sorted  []Member // of members; nil after a change, made when asked for
}

func newRoster(self crdt.PeerID) *roster {
	return &roster{self: self, members: make(map[string]Member)}
}

// rosterMax bounds the members remembered, the dead among them: serf forgets
// those by time (Timing.ReapAfter). memberlist and serf have no bound of their
// own, so a bouncer holds them to this one.
const rosterMax = 4096

// bouncer keeps names beyond rosterMax out of membership: who holds a ring key
// could otherwise fill every peer's memory with invented members.
type bouncer struct {
	roster  *roster
	refused func(error)
}

var errRosterFull = fmt.Errorf("%d members are known, the dead of the last hour among them: more are not taken; peers that restart all the time are the usual cause", rosterMax)

// NotifyMerge implements serf.MergeDelegate. An error refuses all of members:
// one that is heard of, or the list that another peer holds.
func (b bouncer) NotifyMerge(members []*serf.Member) error {
	if b.roster.takes(members) {
		return nil
	}
	b.refused(errRosterFull)
	return errRosterFull
}

// takes reports whether there is room for all of members.
func (r *roster) takes(members []*serf.Member) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	room := rosterMax - len(r.members)
	for _, m := range members {
		if _, known := r.members[m.Name]; !known {
			room--
		}
	}
	return room >= 0
}

// name is a member's name for people, "" if it is not known.
func (r *roster) name(id crdt.PeerID) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.members {
		if m.ID == id {
			return m.Name
		}
	}
	return ""
}

// apply notes a member's new state under its node name.
func (r *roster) apply(node string, m Member, state MemberState, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old, known := r.members[node]
	if !known && len(r.members) >= rosterMax {
		return
	}
	m.State, m.Since, m.First, m.Settled, m.Self = state, now, now, now, m.ID == r.self
	if known {
		m.First, m.back = old.First, old.back
	}
	if known && old.State == Failed && state == Alive {
		m.back = [2]time.Time{now, old.back[0]}
	}
	if known && old.State == state {
		m.Since = old.Since
	}
	if known && old.Settings == m.Settings {
		m.Settled = old.Settled
	}
	r.members[node] = m
	r.sorted = nil
}

// reap forgets a member.
func (r *roster) reap(node string) {
	r.mu.Lock()
	delete(r.members, node)
	r.sorted = nil
	r.mu.Unlock()
}

// list returns all members: this peer first, then by name and id.
func (r *roster) list() []Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sorted == nil {
		r.sortLocked()
	}
	return slices.Clone(r.sorted)
}

// sortLocked makes the list anew: changes are rare, readers are not.
func (r *roster) sortLocked() {
	r.sorted = slices.SortedFunc(maps.Values(r.members), func(a, b Member) int {
		switch {
		case a.Self != b.Self && a.Self:
			return -1
		case a.Self != b.Self:
			return 1
		case a.Name != b.Name:
			return strings.Compare(a.Name, b.Name)
		}
		return slices.Compare(a.ID[:], b.ID[:])
	})
}

// mourned counts the members that have not left: those alive, and those failed.
func (r *roster) mourned() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.members {
		if m.State != Left {
			n++
		}
	}
	return n
}

// address is where a peer that is alive can be dialed.
func (r *roster) address(id crdt.PeerID) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.members {
		if m.ID == id && m.State == Alive {
			return m.Addr, true
		}
	}
	return "", false
}

// live counts the peers alive, this one included, and tells whether one has
// the address.
func (r *roster) live(addr string) (n int, here bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.members {
		if m.State == Alive {
			n++
			here = here || m.Addr == addr
		}
	}
	return n, here
}
