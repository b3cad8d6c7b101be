package mesh

import (
	"errors"
	"fmt"
	"slices"
)

// ErrNoKeyring is returned by SetKeys of an insecure mesh.
var ErrNoKeyring = errors.New("mesh runs without a keyring")

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
