package router

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/gossip/mesh"
)

// A changed keyring is taken up without a restart; a broken one changes
// nothing and says so.
func TestAChangedKeyringIsTakenUp(t *testing.T) {
	var keys []string
	for range 2 {
		k, err := mesh.GenerateKey()
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, k)
	}
	file := filepath.Join(t.TempDir(), "ring")
	write := func(lines ...string) {
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(keys[0])
	p := quietPeer(t, func(c *Config) { c.Mesh.Insecure, c.Mesh.Keyring = false, file })
	taken := func() bool {
		t.Helper()
		changed, err := p.mesh.mesh.SetKeys([]string{keys[1], keys[0]}) // only to ask
		if err != nil {
			t.Fatal(err)
		}
		return !changed
	}
	write(keys[1], "broken")
	if p.rules.reload(true) == nil {
		t.Error("a broken keyring is no news")
	}
	write(keys[1], keys[0])
	if err := p.rules.reload(true); err != nil || !taken() {
		t.Errorf("the new ring was not taken up: %v", err)
	}
}
