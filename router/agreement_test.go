package router

import (
	"strings"
	"testing"
)

func TestWhoRefusesAnotherPeerSaysWhatDiffers(t *testing.T) {
	secret := fileOf(t, strings.Repeat("s", 32))
	print := func(change func(*Config)) uint64 {
		p := quietPeer(t, change)
		return fingerprint(p.rules.config(), p.path.directory.hasher)
	}
	own := print(func(*Config) {})
	if differs(own, print(func(c *Config) { c.Policy = "random" })) != "" {
		t.Error("the policy is no matter of the mesh")
	}
	for want, change := range map[string]func(*Config){
		"a different mesh.hash_secret":         func(c *Config) { c.Mesh.HashSecret = secret },
		"its grid is 1024, here it is 16":      func(c *Config) { c.Grid = 1024 },
		"its grid is 1, here it is 16":         func(c *Config) { c.Grid = 1 },
		"a different limits.predictions":       func(c *Config) { c.Limits.Predictions++ },
		"here it is 16; it has a different li": func(c *Config) { c.Grid, c.Limits.Predictions = 32, 1 },
	} {
		if got := differs(own, print(change)); !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
