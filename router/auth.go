package router

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/banyan-llm/banyan/router/openai"
	"github.com/banyan-llm/banyan/router/proxy"
)

// maxKeysBytes bounds the file of client keys.
const maxKeysBytes = 4 << 20

// clientKey is one line of auth.keys_file: a name and the SHA-256 of a key.
type clientKey struct {
	name string
	hash [sha256.Size]byte
}

// clientKeys are the bearer keys that may use the public listener. The file
// holds only hashes; it is read again when it changes.
type clientKeys struct {
	path string
	keys atomic.Pointer[[]clientKey]
	seen time.Time // modification time of what was read; keepHouse only
	size int64
}

// NewClientKey draws a key and the line of auth.keys_file that admits it.
func NewClientKey(name string) (key, line string) {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails since Go 1.24
	key = "bk-" + base64.RawURLEncoding.EncodeToString(b[:])
	hash := sha256.Sum256([]byte(key))
	return key, name + ":" + hex.EncodeToString(hash[:])
}

// openKeys reads the file for the first time.
func openKeys(path string) (*clientKeys, error) {
	k := &clientKeys{path: path}
	if _, err := k.reload(); err != nil {
		return nil, fmt.Errorf("auth.keys_file: %w", err)
	}
	return k, nil
}

// reload reads the file if it changed. After an error the old keys stay.
func (k *clientKeys) reload() (changed bool, err error) {
	info, err := os.Stat(k.path)
	if err != nil {
		return false, err
	}
	if k.keys.Load() != nil && info.ModTime().Equal(k.seen) && info.Size() == k.size {
		return false, nil
	}
	if info.Size() > maxKeysBytes {
		return false, fmt.Errorf("%s is larger than %d bytes", k.path, maxKeysBytes)
	}
	data, err := os.ReadFile(k.path)
	if err != nil {
		return false, err
	}
	keys, err := parseKeys(data)
	if err != nil {
		return false, fmt.Errorf("%s: %w", k.path, err)
	}
	k.keys.Store(&keys)
	k.seen, k.size = info.ModTime(), info.Size()
	return true, nil
}

// parseKeys reads lines "name:64 hex digits"; blank lines and # are comments.
func parseKeys(data []byte) ([]clientKey, error) {
	keys := []clientKey{}
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
		hash, err := hex.DecodeString(line[i+1:])
		if err != nil || len(hash) != sha256.Size {
			return nil, fmt.Errorf("line %d: %q is not followed by 64 hex digits", n, line[:i])
		}
		keys = append(keys, clientKey{name: line[:i], hash: [sha256.Size]byte(hash)})
	}
	return keys, lines.Err()
}

// name tells whose key it is; "" if nobody's. All keys are compared, each in
// constant time.
func (k *clientKeys) name(key string) string {
	hash := sha256.Sum256([]byte(key))
	found := ""
	for _, c := range *k.keys.Load() {
		if subtle.ConstantTimeCompare(hash[:], c.hash[:]) == 1 {
			found = c.name
		}
	}
	return found
}

// guard lets only requests with a known key through. The router's key is not
// for the replicas: it is taken off.
func (k *clientKeys) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		name := ""
		if ok {
			name = k.name(strings.TrimSpace(key))
		}
		if name == "" {
			e := openai.Error{
				Status: http.StatusUnauthorized, Type: "invalid_request_error", Code: "invalid_api_key",
				Message: "no valid API key was given; send it as Authorization: Bearer KEY",
			}
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.WriteHeader(e.Status)
			_, _ = w.Write(e.Body())
			return
		}
		r.Header.Del("Authorization")
		next.ServeHTTP(w, proxy.WithClient(r, name))
	})
}
