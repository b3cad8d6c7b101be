package router

import (
	"slices"

	"github.com/banyan-llm/banyan/gossip/mesh"
)

// present leaves out the members that are no news to an operator: those that
// left, and those whose place another process took. Membership remembers both
// for an hour. O(members^2), for a page and a script.
func present(members []mesh.Member) []mesh.Member {
	return slices.DeleteFunc(slices.Clone(members), func(m mesh.Member) bool {
		return m.State == mesh.Left || replaced(&m, members)
	})
}

// replaced reports whether another process has the address of this one, so that
// it cannot be there any more, or, if it failed, its name: a pod that was started
// again keeps its name and has a new address. Who was heard of first was there
// first, for a failure may be noticed after the successor came, or even left;
// who is alive yields to the living alone.
func replaced(gone *mesh.Member, members []mesh.Member) bool {
	failed := gone.State == mesh.Failed
	return slices.ContainsFunc(members, func(m mesh.Member) bool {
		if m.ID == gone.ID || m.Addr != gone.Addr && !(failed && m.Name == gone.Name) {
			return false
		}
		if failed && m.State == mesh.Alive {
			return true
		}
		return m.First.After(gone.First) && (failed || m.State == mesh.Alive)
	})
}
