package router

import (
	"slices"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip/mesh"
)

// A crash that healed is no trouble, and who left is no row: membership
// remembers both for an hour.
func TestAReplacedPeerIsNoTrouble(t *testing.T) {
	id := func(n byte) crdt.PeerID { return crdt.PeerID{n} }
	own := id(9)
	for name, c := range map[string]struct {
		members []mesh.Member
		want    []string
	}{
		"same address": {[]mesh.Member{
			{ID: id(1), Name: "b", Addr: "10.0.0.2:7946", State: mesh.Failed},
			{ID: id(2), Name: "c", Addr: "10.0.0.2:7946", State: mesh.Alive},
		}, []string{"c"}},
		"same name, another address": {[]mesh.Member{
			{ID: id(1), Name: "banyan-0", Addr: "10.0.0.2:7946", State: mesh.Failed},
			{ID: id(2), Name: "banyan-0", Addr: "10.0.0.9:7946", State: mesh.Alive},
		}, []string{"banyan-0"}},
		"a crash that did not heal": {[]mesh.Member{
			{ID: id(1), Name: "b", Addr: "10.0.0.2:7946", State: mesh.Failed},
			{ID: id(2), Name: "c", Addr: "10.0.0.3:7946", State: mesh.Alive},
		}, []string{"b", "c"}},
		"the replacement failed as well": {[]mesh.Member{
			{ID: id(1), Name: "b", Addr: "10.0.0.2:7946", State: mesh.Failed},
			{ID: id(2), Name: "c", Addr: "10.0.0.2:7946", State: mesh.Failed, First: time.Unix(1, 0)},
		}, []string{"c"}},
		"not yet known to have failed": {[]mesh.Member{
			{ID: id(1), Name: "b", Addr: "10.0.0.2:7946", State: mesh.Alive},
			{ID: id(2), Name: "c", Addr: "10.0.0.2:7946", State: mesh.Alive, First: time.Unix(1, 0)},
			{ID: id(3), Name: "c", Addr: "10.0.0.3:7946", State: mesh.Alive, First: time.Unix(2, 0)},
		}, []string{"c", "c"}},
		"known to have failed after it was replaced": {[]mesh.Member{
			{ID: id(1), Name: "b", Addr: "10.0.0.2:7946", State: mesh.Failed, Since: time.Unix(5, 0)},
			{ID: id(2), Name: "c", Addr: "10.0.0.2:7946", State: mesh.Alive, First: time.Unix(1, 0)},
		}, []string{"c"}},
		"the replacement left": {[]mesh.Member{
			{ID: id(1), Name: "b", Addr: "10.0.0.2:7946", State: mesh.Failed},
			{ID: id(2), Name: "b", Addr: "10.0.0.2:7946", State: mesh.Left, First: time.Unix(1, 0)},
		}, nil},
		"one that left there before": {[]mesh.Member{
			{ID: id(1), Name: "b", Addr: "10.0.0.2:7946", State: mesh.Failed, First: time.Unix(1, 0)},
			{ID: id(2), Name: "b", Addr: "10.0.0.2:7946", State: mesh.Left},
		}, []string{"b"}},
		"this peer's own former process, known to have failed": {[]mesh.Member{
			{ID: id(1), Name: "b", Addr: "10.0.0.2:7946", State: mesh.Failed, First: time.Unix(1, 0)},
			{ID: own, Name: "b", Addr: "10.0.0.2:7946", State: mesh.Alive},
		}, nil},
		"not yet known to have failed, and heard of after this one's start": {[]mesh.Member{
			{ID: id(1), Name: "b", Addr: "10.0.0.2:7946", State: mesh.Alive, First: time.Unix(1, 0)},
			{ID: own, Name: "c", Addr: "10.0.0.2:7946", State: mesh.Alive},
		}, nil},
		"its former pod, at another address": {[]mesh.Member{
			{ID: id(1), Name: "banyan-0", Addr: "10.0.0.2:7946", State: mesh.Failed, First: time.Unix(1, 0)},
			{ID: own, Name: "banyan-0", Addr: "10.0.0.9:7946", State: mesh.Alive},
		}, nil},
		"left": {[]mesh.Member{
			{ID: id(1), Name: "b", Addr: "10.0.0.2:7946", State: mesh.Left},
			{ID: id(2), Name: "c", Addr: "10.0.0.3:7946", State: mesh.Alive, Draining: true},
		}, []string{"c"}},
	} {
		var got []string
		for _, m := range present(c.members, own) {
			got = append(got, m.Name)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
