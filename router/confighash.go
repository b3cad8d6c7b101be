package router

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/banyan-llm/banyan/router/fleet"
)

// ownSettings are the settings, and sections of them, that each peer of a mesh
// may have for itself: where it listens, how it is named and reached, where its
// files lie, what it writes.
var ownSettings = []string{
	"http.listen", "http.tls", "admin", "mesh.bind", "mesh.advertise", "mesh.join", "mesh.name", "mesh.hash_secret", "mesh.keyring", "mesh.tls",
	"auth.keys_file", "log", "access_log", "tracing",
}

func isOwn(key string) bool {
	return slices.ContainsFunc(ownSettings, func(section string) bool {
		return key == section || strings.HasPrefix(key, section+".")
	})
}

// configHash is equal on peers that were told the same but for what is each
// peer's own, and for secrets; 32 bits, so that a float carries it. What
// discovery finds and engines tell is left out: peers learn it a moment apart.
// The order of the replicas does not matter.
func (c *inForce) configHash() uint32 {
	told := *c.Load().told
	h := sha256.New()
	for _, s := range Settings(&told) {
		if !s.Secret && !isOwn(s.Key) && s.Key != "replicas" {
			fmt.Fprintf(h, "%s=%v\n", s.Key, s.Value.Interface())
		}
	}
	replicas := map[string]string{}
	for _, r := range told.Replicas {
		r.Credentials, r.CredentialsFile, r.CredentialsEnv = "", "", ""
		replicas[fleet.NameOf(r)] = fmt.Sprintf("%+v", r)
	}
	for _, name := range slices.Sorted(maps.Keys(replicas)) {
		fmt.Fprintf(h, "%s=%s\n", name, replicas[name])
	}
	return binary.BigEndian.Uint32(h.Sum(nil))
}
