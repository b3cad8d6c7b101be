package router

import (
	"slices"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip/mesh"
)

// present lists the other peers. It leaves out the members that are no news to
// an operator: those that left, and those whose place another process took.
// Membership remembers both for an hour. O(members^2), for a page and a script.
func present(members []mesh.Member, self crdt.PeerID) []mesh.Member {
	return slices.DeleteFunc(slices.Clone(members), func(m mesh.Member) bool {
		return m.ID == self || m.State == mesh.Left || replaced(&m, members, self)
	})
}

// replaced reports whether another process has the address of this one, so that
// it cannot be there any more, or, if it failed, its name: a pod that was started
// again keeps its name and has a new address. Who was heard of first was there
// first, for a failure may be noticed after the successor came, or even left;
// who is alive yields to the living alone. A process that was started again at
// once hears of its former self after its own start: nobody else can be where it
// listens.
func replaced(gone *mesh.Member, members []mesh.Member, self crdt.PeerID) bool {
	failed := gone.State == mesh.Failed
	return slices.ContainsFunc(members, func(m mesh.Member) bool {
		if m.ID == gone.ID || m.Addr != gone.Addr && !(failed && m.Name == gone.Name) {
			return false
		}
		if m.ID == self || failed && m.State == mesh.Alive {
			return true
		}
		return m.First.After(gone.First) && (failed || m.State == mesh.Alive)
	})
}
