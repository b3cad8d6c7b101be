package access

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxKeysBytes bounds a file of keys.
const maxKeysBytes = 4 << 20

// Attributes of a key, after its hash. Which of them count depends on the file.
const (
	TenantAttribute = "tenant" // auth.keys_file: whose requests these are; * = as the header says
	RoleAttribute   = "role"   // admin.keys_file: read or admin
)

// The roles of admin keys.
const (
	roleRead  = "read"  // look, not change
	roleAdmin = "admin" // everything; the default
)

// Key is one line of a key file: a name, the SHA-256 of a bearer key, and what
// the key stands for.
type Key struct {
	Name   string
	hash   [sha256.Size]byte
	Tenant string // "" if the line names none
	Role   string
}

// Keys are the bearer keys of one file. The file holds only hashes.
type Keys []Key

// NewKey draws a bearer key and the line of a key file that admits it.
// Attributes are words like tenant=a or role=read.
func NewKey(name string, attributes ...string) (bearer, line string) {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails since Go 1.24
	bearer = "bk-" + base64.RawURLEncoding.EncodeToString(b[:])
	hash := sha256.Sum256([]byte(bearer))
	return bearer, strings.Join(append([]string{name + ":" + hex.EncodeToString(hash[:])}, attributes...), " ")
}

// ReadKeys reads a key file whose lines may carry one kind of attribute.
func ReadKeys(path, attribute string) (Keys, error) {
	data, err := ReadFile(path, maxKeysBytes)
	if err != nil {
		return nil, err
	}
	list, err := parseKeys(data, attribute)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(list) == 0 { // a file that somebody empties, or has not finished
		return nil, fmt.Errorf("%s holds no key, so nobody could come in: add one with banyan keygen", path)
	}
	return list, nil
}

// parseKeys reads lines "name:64 hex digits [attribute=value]"; blank lines and
// # are comments. No fault quotes more than the name.
func parseKeys(data []byte, attribute string) (Keys, error) {
	list, seen := Keys{}, map[[sha256.Size]byte]string{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		i := strings.LastIndexByte(line, ':')
		if i <= 0 {
			return nil, fmt.Errorf("line %d: want name:sha256 (banyan keygen --client NAME)", n)
		}
		k := Key{Name: line[:i], Role: roleAdmin}
		words := strings.Fields(line[i+1:])
		hash, err := hex.DecodeString(strings.Join(words[:min(1, len(words))], ""))
		if err != nil || len(hash) != sha256.Size {
			return nil, fmt.Errorf("line %d: %q is not followed by 64 hex digits", n, k.Name)
		}
		k.hash = [sha256.Size]byte(hash)
		for _, word := range words[1:] {
			if err := k.attribute(word, attribute); err != nil {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
		}
		if other, ok := seen[k.hash]; ok {
			return nil, fmt.Errorf("line %d: %q has the key of %q", n, k.Name, other)
		}
		seen[k.hash] = k.Name
		list = append(list, k)
	}
	return list, lines.Err()
}

func (k *Key) attribute(word, allowed string) error {
	name, value, ok := strings.Cut(word, "=")
	switch {
	case !ok || name != allowed || value == "":
		return fmt.Errorf("%q: want %s=…", word, allowed)
	case name == TenantAttribute:
		k.Tenant = value
	case value != roleRead && value != roleAdmin:
		return fmt.Errorf("role %q is not %s or %s", value, roleRead, roleAdmin)
	default:
		k.Role = value
	}
	return nil
}

// Find tells whose key it is; nil if nobody's. All keys are compared, each in
// constant time.
func (list Keys) Find(bearer string) *Key {
	hash := sha256.Sum256([]byte(bearer))
	var found *Key
	for i := range list {
		if subtle.ConstantTimeCompare(hash[:], list[i].hash[:]) == 1 {
			found = &list[i]
		}
	}
	return found
}

// ReadFile reads a file of the operator's, at most limit bytes.
func ReadFile(path string, limit int64) ([]byte, error) {
	// A pipe or a device would be waited for, or never end.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(data)) > limit:
		return nil, fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return data, nil
}

// ReadSecret reads a file that holds one secret, without its last newline.
func ReadSecret(path string) (string, error) {
	data, err := ReadFile(path, 64<<10)
	if err != nil {
		return "", err
	}
	text := strings.TrimRight(string(data), "\r\n")
	if text == "" || strings.ContainsAny(text, "\r\n") {
		return "", fmt.Errorf("%s does not hold one line", path)
	}
	return text, nil
}
