package router

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strings"

	"github.com/banyan-llm/banyan/gossip/mesh"
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

// sharedParts are the parts of the configuration that peers compare, in the
// order in which a print has them: the first ones are sections of settings.
var sharedParts = []string{
	"policy", "routing", "limits", "admission", "discovery", "ingest", "other settings",
	listOfReplicas, namesOfReplicas, otherOfReplicas,
}

const (
	otherSettings   = 6 // place in sharedParts
	listOfReplicas  = "list of replicas"
	namesOfReplicas = "names of replicas"
	otherOfReplicas = "settings of replicas"

	printDigits = 4 // of a print, for each part: one difference of 65,536 is not seen
)

// sharedHashes are hashes of the sharedParts of a configuration as it was given:
// equal on peers that were told the same but for what is each peer's own, and
// for secrets. What discovery finds and engines tell is left out: peers learn it
// a moment apart. The order of the replicas does not matter.
func sharedHashes(told Config) (out [][sha256.Size]byte) {
	hashes := make([]hash.Hash, len(sharedParts))
	for i := range hashes {
		hashes[i] = sha256.New()
	}
	for _, s := range Settings(&told) {
		if s.Secret || isOwn(s.Key) || s.Key == "replicas" {
			continue
		}
		section, _, _ := strings.Cut(s.Key, ".")
		at := slices.Index(sharedParts[:otherSettings], section)
		if at < 0 {
			at = otherSettings
		}
		fmt.Fprintf(hashes[at], "%s=%v\n", s.Key, s.Value.Interface())
	}
	var texts [3]map[string]bool // of the replicas: where, who is there, what else is said
	for i := range texts {
		texts[i] = map[string]bool{}
	}
	for _, r := range told.Replicas {
		where, name := fmt.Sprintf("%s %d", strings.TrimRight(r.URL, "/"), r.Rank), fleet.NameOf(r)
		r.Name, r.Credentials, r.CredentialsFile, r.CredentialsEnv = "", "", "", ""
		texts[0][where], texts[1][where+" "+name], texts[2][fmt.Sprintf("%+v", r)] = true, true, true
	}
	for i, text := range texts {
		for _, line := range slices.Sorted(maps.Keys(text)) {
			fmt.Fprintln(hashes[otherSettings+1+i], line)
		}
	}
	for _, h := range hashes {
		out = append(out, [sha256.Size]byte(h.Sum(nil)))
	}
	return out
}

// configHash is one number for all sharedParts; 32 bits, so that a float carries
// it.
func (c *inForce) configHash() uint32 {
	all := sha256.New()
	for _, h := range sharedHashes(*c.Load().told) {
		all.Write(h[:])
	}
	return binary.BigEndian.Uint32(all.Sum(nil))
}

// settingsPrint is what peers tell each other of their configuration: some hex
// digits for each of the sharedParts.
func settingsPrint(told *Config) string {
	var out strings.Builder
	for _, h := range sharedHashes(*told) {
		out.WriteString(hex.EncodeToString(h[:])[:printDigits])
	}
	return out.String()
}

// differences names the sharedParts in which the configuration of another peer
// differs. A peer of another version may have other settings, or other defaults,
// and is not compared. Of replicas only the first difference counts: another
// list has other names too.
func differences(own string, m *mesh.Member, version string) (out []string) {
	if m.Version != version || len(own) != len(m.Settings) {
		return nil
	}
	for i, part := range sharedParts {
		if at := i * printDigits; own[at:at+printDigits] != m.Settings[at:at+printDigits] {
			if out = append(out, part); i > otherSettings {
				break
			}
		}
	}
	return out
}
