package mesh

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/serf/serf"
)

// ErrNoKeyring is returned by the key operations of an insecure mesh.
var ErrNoKeyring = errors.New("mesh runs without a keyring")

// Keys says how many peers answered a key operation, and which keys they hold.
type Keys struct {
	Peers    int               // asked
	Answered int               // of them
	Failed   map[string]string // node name -> what went wrong, or a remark
	Have     map[string]int    // base64 key -> peers that hold it; ListKeys only
	Primary  map[string]int    // base64 key -> peers that encrypt with it; ListKeys only
}

// InstallKey adds a base64 key to every peer's ring. It begins a rotation:
// InstallKey the new key, UseKey it, RemoveKey the old one, each once the step
// before succeeded on all peers; and write the new ring into every peer's
// configuration, for its next start. Each call asks all peers and waits for
// their answers, some seconds at most.
func (m *Mesh) InstallKey(key string) (Keys, error) {
	return m.keys("install key", func(k *serf.KeyManager) (*serf.KeyResponse, error) { return k.InstallKey(key) }, key)
}

// UseKey makes an installed key the one that encrypts and proves peers.
func (m *Mesh) UseKey(key string) (Keys, error) {
	return m.keys("use key", func(k *serf.KeyManager) (*serf.KeyResponse, error) { return k.UseKey(key) }, key)
}

// RemoveKey takes a key out of every peer's ring; not the one in use. Peer
// streams opened under it end within two seconds and are opened anew.
func (m *Mesh) RemoveKey(key string) (Keys, error) {
	return m.keys("remove key", func(k *serf.KeyManager) (*serf.KeyResponse, error) { return k.RemoveKey(key) }, key)
}

// ListKeys asks every peer for the keys it holds.
func (m *Mesh) ListKeys() (Keys, error) {
	return m.keys("list keys", (*serf.KeyManager).ListKeys)
}

// SetKeys makes a keyring this peer's own: base64 keys, the first of which
// encrypts and proves. Nobody else is asked: it is what a changed keyring file
// means, and every peer reads its own. It returns whether anything changed; a
// ring with a malformed key changes nothing, nor does an empty one.
//
// A rotation is three rings, each given to every peer before the next: add (old
// first, then new), use (new first, then old), remove (new alone). A peer with
// the ring before or after understands all that is said in between. Peer
// streams proved by a key that left end within two seconds and are opened anew.
//
// It may be called at any time between New and Close, by one caller at a time.
func (m *Mesh) SetKeys(keyring []string) (changed bool, err error) {
	keys, err := decodeKeys(keyring)
	switch {
	case err != nil:
		return false, fmt.Errorf("set keys: %w", err)
	case m.ring == nil && len(keys) == 0:
		return false, nil
	case m.ring == nil:
		return false, fmt.Errorf("set keys: %w", ErrNoKeyring)
	case len(keys) == 0:
		return false, errors.New("set keys: a keyring must not become empty")
	}
	have := m.ring.GetKeys()
	for _, k := range keys {
		if !holds(have, k) {
			changed = true
			err = errors.Join(err, m.ring.AddKey(k))
		}
	}
	if string(m.ring.GetPrimaryKey()) != string(keys[0]) {
		changed = true
		err = errors.Join(err, m.ring.UseKey(keys[0]))
	}
	for _, k := range have {
		if !holds(keys, k) {
			changed = true
			err = errors.Join(err, m.ring.RemoveKey(k))
		}
	}
	if err != nil {
		return changed, fmt.Errorf("set keys: %w", err)
	}
	return changed, nil
}

func holds(keys [][]byte, key []byte) bool {
	return slices.ContainsFunc(keys, func(k []byte) bool { return string(k) == string(key) })
}

func (m *Mesh) keys(what string, ask func(*serf.KeyManager) (*serf.KeyResponse, error), key ...string) (Keys, error) {
	if m.ring == nil {
		return Keys{}, fmt.Errorf("%s: %w", what, ErrNoKeyring)
	}
	if _, err := decodeKeys(key); err != nil {
		return Keys{}, fmt.Errorf("%s: %w", what, err)
	}
	m.mu.Lock()
	s, open := m.serf, m.state == running
	m.mu.Unlock()
	if !open {
		return Keys{}, fmt.Errorf("%s: %w", what, ErrClosed)
	}
	r, err := ask(s.KeyManager())
	out := Keys{}
	if r != nil {
		out = Keys{Peers: r.NumNodes, Answered: r.NumResp, Failed: r.Messages, Have: r.Keys, Primary: r.PrimaryKeys}
	}
	if err != nil {
		return out, fmt.Errorf("%s: %w", what, err)
	}
	return out, nil
}
