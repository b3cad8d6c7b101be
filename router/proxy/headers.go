package proxy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/banyan-llm/banyan/router/openai"
)

// maxClientID bounds the client's request id that is echoed, in bytes.
const maxClientID = 256

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// dropped are request headers that end here: hop by hop (RFC 9110 section
// 7.6.1), what the transport sets itself, and what only routers may tell an
// engine: ranks, addresses to connect to, names of requests.
var dropped = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Proxy-Connection": true, "Te": true, "Trailer": true,
	"Transfer-Encoding": true, "Upgrade": true, "Proxy-Authenticate": true, "Proxy-Authorization": true,

	"Host": true, "Content-Length": true, "Accept-Encoding": true, "Expect": true,

	"X-Request-Id": true, "X-Data-Parallel-Rank": true, "X-Data-Parallel-Host-Port": true,
	"X-Prefiller-Host-Port": true, "X-Prefiller-Url": true, "X-Encoder-Hosts-Ports": true,
	"X-Routed-Dp-Rank": true, "X-Dp-Rank": true, "X-Worker-Instance-Id": true, "X-Prefill-Instance-Id": true,
	"X-Decoder-Host-Port": true, "X-Disagg-Prefill-Dp-Rank": true,
}

// droppedPrefixes are families of such headers.
var droppedPrefixes = []string{"X-Banyan-", "X-Llm-D-", "X-Gateway-", "X-Smg-", "X-Sglang-", "X-Dynamo-", "X-Bootstrap-", "X-Prefiller-", "X-Kv-"}

// outbound is the header of a try: the client's without what ends here, and
// the target's.
func (x *exchange) outbound(target *Target) http.Header {
	header := make(http.Header, len(x.r.Header)+4)
	for name, values := range x.r.Header {
		if !endsHere(name) {
			header[name] = values
		}
	}
	dropListed(header, x.r.Header)
	if !x.cfg.KeepAuthorization {
		delete(header, "Authorization")
		delete(header, "X-Api-Key")
	}
	switch tenant := http.CanonicalHeaderKey(x.cfg.TenantHeader); tenant {
	case "Authorization", "X-Api-Key": // KeepAuthorization decides
	default:
		delete(header, tenant) // engines get a keyed hash of it: isolate
	}
	header["X-Request-Id"] = []string{x.call.ID}
	// No value: not sent, but tells the transport that the request may be
	// sent again when the replica closed an idle connection under it.
	if _, ok := header["X-Idempotency-Key"]; !ok {
		header["X-Idempotency-Key"] = nil
	}
	if _, ok := header["User-Agent"]; !ok {
		header["User-Agent"] = nil
	}
	if target.Priority != 0 {
		delete(header, "X-Vllm-Priority") // it would win over the body's
	}
	for name, values := range target.Header {
		header[http.CanonicalHeaderKey(name)] = values
	}
	return header
}

func endsHere(name string) bool {
	if dropped[name] {
		return true
	}
	if !strings.HasPrefix(name, "X-") {
		return false
	}
	for _, prefix := range droppedPrefixes {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// dropListed removes what a Connection header names.
func dropListed(header, from http.Header) {
	for _, value := range from["Connection"] {
		for name := range strings.SplitSeq(value, ",") {
			delete(header, http.CanonicalHeaderKey(strings.TrimSpace(name)))
		}
	}
}

// inbound copies the replica's header to the client's and adds ours.
func (x *exchange) inbound(from http.Header, target *Target) {
	header := x.w.Header()
	for name, values := range from {
		if name == "Location" || name == "Refresh" { // a replica does not send clients elsewhere
			continue
		}
		if strings.HasPrefix(name, "Access-Control-") { // which pages may read an answer is the router's to say
			continue
		}
		if name == "Vary" { // the router's own may be there
			header[name] = append(header[name], values...)
			continue
		}
		if name == "Content-Length" || !endsHere(name) && name != "X-Client-Request-Id" {
			header[name] = values
		}
	}
	dropListed(header, from)
	header["X-Banyan-Replica"] = []string{target.Replica}
	header["X-Banyan-Policy"] = []string{target.Policy}
	header["X-Banyan-Matched-Tokens"] = []string{strconv.Itoa(target.Matched)}
	x.lastHeader()
}

// isolate puts the tenant into the cache salt, so that tenants share neither
// the engine's blocks nor ours. A missing tenant is a tenant of its own. What
// goes out is a hash: vLLM refuses salts of more than 128 characters or with
// one of @ / \ and NUL, and tenants are named by others.
func (x *exchange) isolate() {
	call := x.call
	if !call.Endpoint.Salted() {
		return
	}
	field, given := "cache_salt", call.Body.CacheSalt
	if call.Endpoint == openai.SGLGenerate { // it knows a salt by this name only
		field, given = "extra_key", string(call.Body.Get("extra_key"))
	}
	salt := x.cfg.Salt(call.Tenant, given)
	raw, err := json.Marshal(salt)
	if err != nil {
		panic("invariant: a string marshals: " + err.Error())
	}
	call.Body.CacheSalt = salt
	call.Body.Set(field, raw)
}

// plainSalt is Config.Salt without a secret.
func plainSalt(tenant, given string) string {
	sum := sha256.Sum256([]byte(strconv.Itoa(len(tenant)) + ":" + tenant + given))
	return hex.EncodeToString(sum[:16])
}
