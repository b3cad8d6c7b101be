package router

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/openai"
	"github.com/banyan-llm/banyan/router/proxy"
)

// seal makes names and salts that all peers work out alike, from the secret of
// the mesh, and that nobody without it can aim for.
type seal struct{ key [sha256.Size]byte }

func newSeal(secret []byte) seal {
	return seal{sha256.Sum256(append([]byte("banyan seal\x00"), secret...))}
}

// tagBytes is the length of a tag: nobody guesses or collides 128 bits.
const tagBytes = 16

// tag is a keyed hash of parts, in 32 hex digits. Parts cannot run into each
// other.
func (s *seal) tag(parts ...string) string {
	mac := hmac.New(sha256.New, s.key[:])
	for _, part := range parts {
		var length [8]byte
		binary.LittleEndian.PutUint64(length[:], uint64(len(part)))
		mac.Write(length[:])
		mac.Write([]byte(part))
	}
	return hex.EncodeToString(mac.Sum(nil)[:tagBytes])
}

// salt is the cache_salt of a tenant's requests.
func (s *seal) salt(tenant, given string) string { return s.tag("salt", tenant, given) }

// responsePrefix begins every id of the responses API; vLLM refused others.
const responsePrefix = "resp_"

// response names an answer that a replica will store for a tenant: a random
// part, and a tag of it that names both. So every peer finds the replica by the
// id alone, and nothing has to be replicated, kept or forgotten.
func (s *seal) response(tenant, replica string) string {
	var random [tagBytes]byte
	_, _ = rand.Read(random[:]) // never fails since Go 1.24
	part := hex.EncodeToString(random[:])
	return responsePrefix + part + s.tag("response", tenant, replica, part)
}

// holds reports whether id names an answer that replica stored for tenant.
func (s *seal) holds(id, tenant, replica string) bool {
	part, ok := strings.CutPrefix(id, responsePrefix)
	if !ok || len(part) != 4*tagBytes {
		return false
	}
	return hmac.Equal([]byte(part[2*tagBytes:]), []byte(s.tag("response", tenant, replica, part[:2*tagBytes])))
}

// responseID is the id of the answer to a call, for engines that let routers
// choose it: vLLM, SGLang and TensorRT-LLM take request_id. Other servers refuse
// a field they do not know.
func (d *directory) responseID(call *proxy.Call, target *proxy.Target) string {
	t, ok := target.Token.(*ticket)
	if !ok || t.replica.Engine() == "" {
		return ""
	}
	t.response = d.seal.response(call.Tenant, t.replica.Name())
	return t.response
}

// holder finds the replica with the stored response that a call is about; nil
// if there is none among all that are listed.
func (d *directory) holder(call *proxy.Call) *fleet.Replica {
	for _, r := range d.fleet.List() {
		if d.seal.holds(call.Stored, call.Tenant, r.Name()) {
			return r
		}
	}
	return nil
}

// pin leaves only the replica that holds the stored response a call is about.
// An id that no replica of ours can have stored goes where any request goes, and
// the engine says that it has no such response; where tenants are kept apart it
// could be another tenant's, and is answered here. A holder that is down is
// told apart from that: the response is not lost.
func (d *directory) pin(s *scratch, call *proxy.Call) error {
	if call.Stored == "" {
		return nil
	}
	at := d.holder(call)
	switch {
	case at == nil && d.rules.config().IsolateBy == "":
		return nil
	case at == nil:
		return &openai.Error{
			Status: http.StatusNotFound, Type: openai.TypeInvalid, Param: "response_id", Code: "not_found",
			Message: "Response with id '" + call.Stored + "' not found.",
		}
	}
	for i, r := range s.replicas {
		if r == at {
			mark := s.Marks[i] // it may lie in left
			left := &s.left
			left.clear()
			left.add(at, mark)
			s.candidateSet, s.serving = *left, nil
			return nil
		}
	}
	return &openai.Error{
		Status: http.StatusServiceUnavailable, Type: openai.TypeServer, Param: "response_id", Code: "holder_unavailable",
		Message: "the replica that holds this response cannot be reached now; try again, or send the whole conversation",
	}
}
