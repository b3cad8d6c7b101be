package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
)

// hostile is one request as it stands on the wire, and what comes of it.
type hostile struct {
	name   string
	head   []string // header lines
	body   string
	line   string   // request line; "" is a chat completion
	length string   // instead of the body's Content-Length line; "-" is none
	status int      // the client's
	gone   []string // what the replica must not read, header or body, in any case
	kept   []string // what it must
}

const chatPost = "POST /v1/chat/completions HTTP/1.1"

// field is a chat body with one more field.
func field(more string) string { return `{"model":"m","messages":[],` + more + `}` }

// wide is a text in UTF-16 or UTF-32, with a mark of the byte order or without.
func wide(text string, size int, mark, big bool) string {
	units := []rune(text)
	if mark {
		units = append([]rune{0xfeff}, units...)
	}
	if size == 2 {
		pairs := utf16.Encode(units)
		units = units[:0]
		for _, u := range pairs {
			units = append(units, rune(u))
		}
	}
	var out []byte
	for _, u := range units {
		for i := range size {
			if big {
				i = size - 1 - i
			}
			out = append(out, byte(u>>(8*i)))
		}
	}
	return string(out)
}

const chunked = "Transfer-Encoding: chunked"

// inChunks is a body in chunks of up to 7 kB with trailer lines behind it.
func inChunks(body, trailers string) string {
	var out strings.Builder
	for part := range slices.Chunk([]byte(body), 7000) {
		fmt.Fprintf(&out, "%x\r\n%s\r\n", len(part), part)
	}
	return out.String() + "0\r\n" + trailers + "\r\n"
}

var hostiles = []hostile{
	{name: "plain", body: plainChat, status: 200, kept: []string{plainChat}},

	{name: "kv_transfer_params", body: field(`"kv_transfer_params":{"remote_host":"evil"}`), status: 200, gone: []string{"evil", "kv_transfer"}},
	{name: "the name escaped", body: field(`"kv_transfer\u005fparams":{"remote_host":"evil"}`), status: 200, gone: []string{"evil"}},
	{name: "bootstrap_*", body: field(`"bootstrap_host":"evil","bootstrap_port":1,"bootstrap_room":7`), status: 200, gone: []string{"evil", "bootstrap_"}},
	{name: "disaggregated_params", body: field(`"disaggregated_params":{"ctx_info_endpoint":"evil"}`), status: 200, gone: []string{"evil", "disagg"}},
	{name: "ec_transfer_params", body: field(`"ec_transfer_params":{"h":"evil"}`), status: 200, gone: []string{"evil"}},
	{name: "ranks", body: field(`"data_parallel_rank":3,"disagg_prefill_dp_rank":4,"routed_dp_rank":5`), status: 200, gone: []string{"rank"}},
	{name: "names of requests", body: field(`"request_id":"___prefill_addr_evil:1","rid":"evil"`), status: 200, gone: []string{"evil"}},
	{name: "inside vllm_xargs", body: field(`"vllm_xargs":{"kv_transfer_params":{"h":"evil"},"kept":1}`), status: 200, gone: []string{"evil"}, kept: []string{`"kept":1`}},
	{name: "a carrier given twice inside", body: field(`"extra_args":{"rid":"evil","rid":"evil"}`), status: 200, gone: []string{"evil"}},
	{name: "a field given twice", body: field(`"model":"other"`), status: 200, kept: []string{`"model":"other"`}, gone: []string{`"model":"m"`}},
	{name: "a carrier given twice", body: field(`"extra_args":{"rid":"evil"},"extra_args":{"kept":1}`), status: 200, gone: []string{"evil"}, kept: []string{"kept"}},
	{name: "hidden by one given twice", body: field(`"extra_args":{"kept":1},"extra\u005fargs":{"rid":"evil"}`), status: 200, gone: []string{"evil"}},
	{name: "UTF-16", body: wide(field(`"user":"ü😀","rid":"evil"`), 2, true, true), status: 200, gone: []string{"evil"}, kept: []string{`"user":"ü😀"`}},
	{name: "UTF-32 without a mark", body: wide(plainChat, 4, false, false), status: 200, kept: []string{plainChat}},
	{name: "UTF-16 within UTF-16", body: wide(wide(field(`"rid":"evil"`), 2, false, false), 2, true, false), line: "POST /v1/unheard/of HTTP/1.1", status: 400},
	{name: "half a character", body: wide(plainChat, 2, true, true) + "x", status: 400},
	{name: "half a pair", body: wide(plainChat, 2, false, false) + "\x00\xd8", status: 400},

	{name: "address as request id", head: []string{"X-Request-Id: ___prefill_addr_evil:1___decode_addr_evil:2_x"}, body: plainChat, status: 200, gone: []string{"evil"}},
	{name: "llm-d's routing headers", head: []string{"x-prefiller-host-port: evil:1", "X-Prefiller-Url: evil", "x-encoder-hosts-ports: evil", "x-data-parallel-host-port: evil", "x-decoder-host-port: evil", "x-llm-d-a: evil"}, body: plainChat, status: 200, gone: []string{"evil"}},
	{name: "ranks by header", head: []string{"X-Data-Parallel-Rank: 3", "X-Disagg-Prefill-Dp-Rank: 3"}, body: plainChat, status: 200, gone: []string{"rank"}},
	{name: "gateways' headers", head: []string{"X-Gateway-Destination-Endpoint: evil", "x-smg-target: evil", "x-bootstrap-host: evil", "x-kv-transfer-params: evil"}, body: plainChat, status: 200, gone: []string{"evil"}},
	{name: "our own headers", head: []string{"X-Banyan-Replica: evil", "X-Banyan-Timeout: NaN", "X-Banyan-Session: evil"}, body: plainChat, status: 200, gone: []string{"evil", "x-banyan"}},

	{name: "hop by hop", head: []string{"Keep-Alive: evil", "TE: evil", "Trailer: evil", "Upgrade: evil", "Proxy-Authorization: evil", "Proxy-Connection: evil"}, body: plainChat, status: 200, gone: []string{"evil"}},
	{name: "named by Connection", head: []string{"Connection: close, X-Hop, x-request-id", "X-Hop: evil"}, body: plainChat, status: 200, gone: []string{"evil", "x-hop"}, kept: []string{"x-request-id"}},
	{name: "another host", head: []string{"X-Forwarded-Host: fine"}, line: "POST http://evil/v1/chat/completions HTTP/1.1", body: plainChat, status: 200, gone: []string{"evil"}},
	{name: "the client's key", head: []string{"Authorization: Bearer evil"}, body: plainChat, status: 200, gone: []string{"evil"}},

	{name: "two lengths", length: "Content-Length: 5\r\nContent-Length: 6", body: plainChat, status: 400},
	{name: "a length that is none", length: "Content-Length: +5", body: plainChat, status: 400},
	{name: "length and chunks", length: "Content-Length: 3\r\nTransfer-Encoding: chunked", body: fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(plainChat), plainChat), status: 200, kept: []string{plainChat}, gone: []string{"chunked"}},
	{name: "an unknown coding", length: "Transfer-Encoding: xchunked", body: plainChat, status: 501},
	{name: "two codings", length: "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", body: plainChat, status: 501},
	{name: "a space before the colon", head: []string{"X-A : evil"}, body: plainChat, status: 400},
	{name: "a folded line", head: []string{"X-A: a", " evil: b"}, body: plainChat, status: 200},
	{name: "a bare LF in a value", head: []string{"X-A: a\nX-Prefiller-Url: evil"}, body: plainChat, status: 200, gone: []string{"evil"}},
	{name: "a NUL in a value", head: []string{"X-A: a\x00b"}, body: plainChat, status: 400},
	{name: "huge headers", head: []string{"X-A: " + strings.Repeat("a", 200<<10)}, body: plainChat, status: 431},
	{name: "an endless Expect", head: []string{"Expect: evil"}, body: plainChat, status: 417},

	{name: "Expect as meant", head: []string{"Expect: 100-continue"}, body: plainChat, status: 200, gone: []string{"expect", "continue"}, kept: []string{plainChat}},
	{name: "HTTP/1.0", line: "POST /v1/chat/completions HTTP/1.0", body: plainChat, status: 200, kept: []string{plainChat}},
	{name: "HTTP/1.0 in chunks", line: "POST /v1/chat/completions HTTP/1.0", length: chunked, body: inChunks(plainChat, ""), status: 400},
	{name: "a version that is none", line: "POST /v1/chat/completions HTTP/9.9", body: plainChat, status: 505},
	{name: "two hosts", head: []string{"Host: evil"}, body: plainChat, status: 400},
	{name: "an upgrade", head: []string{"Connection: Upgrade", "Upgrade: evil", "Sec-WebSocket-Key: x"}, body: plainChat, status: 200, gone: []string{"evil", "upgrade"}},
	{name: "HEAD of a chat", line: "HEAD /v1/chat/completions HTTP/1.1", status: 405},
	{name: "HEAD of what passes", line: "HEAD /v1/files HTTP/1.1", status: 200, kept: []string{"/v1/files"}},

	{name: "chunks", length: chunked, body: inChunks(plainChat, ""), status: 200, kept: []string{plainChat}, gone: []string{"chunked"}},
	{name: "chunks with trailers", length: chunked, head: []string{"Trailer: X-Prefiller-Url"}, body: inChunks(plainChat, "X-Prefiller-Url: evil\r\nX-A: evil\r\n"), status: 200, kept: []string{plainChat}, gone: []string{"evil", "trailer"}},
	{name: "chunks with extensions", length: chunked, body: strings.Replace(inChunks(plainChat, ""), "\r\n", ";evil=evil\r\n", 1), status: 200, kept: []string{plainChat}, gone: []string{"evil"}},
	{name: "a chunk longer than numbers go", length: chunked, body: "fffffffffffffffff\r\nevil", status: 400},
	{name: "a chunk without its size", length: chunked, body: "evil\r\n\r\n", status: 400},
	{name: "an oversize in chunks", length: chunked, body: inChunks(field(`"a":"`+strings.Repeat("a", 1<<20)+`"`), ""), status: 413},

	{name: "deep JSON", body: field(`"a":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)), status: 400},
	{name: "deep JSON, unclosed", body: strings.Repeat(`{"a":`, 100_000), status: 400},
	{name: "no UTF-8", body: "{\"model\":\"\xff\"}", status: 400},
	{name: "more behind the object", body: plainChat + plainChat, status: 400},
	{name: "an array", body: `[` + plainChat + `]`, status: 400},
	{name: "numbers out of range", body: field(`"max_tokens":-1`), status: 200},
	{name: "a length as a float", body: field(`"n":1e400`), status: 200},
	{name: "oversize", body: field(`"a":"` + strings.Repeat("a", 1<<20) + `"`), status: 413},
	{name: "an oversize announced", length: "Content-Length: 99999999999", status: 413},

	{name: "out of /v1", line: "POST /v1/../metrics HTTP/1.1", body: plainChat, status: 404},
	{name: "out of /v1, escaped", line: "POST /v1/%2e%2e/metrics HTTP/1.1", body: plainChat, status: 404},
	{name: "two slashes", line: "POST /v1//chat/completions HTTP/1.1", body: plainChat, status: 404},
	{name: "adapters", line: "POST /v1/load_lora_adapter HTTP/1.1", body: plainChat, status: 404},
	{name: "TRACE", line: "TRACE /v1/files HTTP/1.1", status: 405},
	{name: "CONNECT", line: "CONNECT evil:80 HTTP/1.1", status: 404},
	{name: "no such method", line: "EVIL /v1/chat/completions HTTP/1.1", status: 405},
}

// TestHostileRequests is the table: what a request that means harm gets, and
// that a replica reads none of it (I5, I6).
func TestHostileRequests(t *testing.T) {
	var seen strings.Builder
	reached := 0
	g := newRig(t, func(c *Config) { c.Limits.BodyBytes = 1 << 20 }, func(w http.ResponseWriter, r *http.Request) {
		reached++
		seen.Reset()
		fmt.Fprintln(&seen, r.Host, r.RequestURI, r.TransferEncoding, readAll(r))
		_ = r.Header.Write(&seen)
		ok(w, r)
	})
	front := httptest.NewUnstartedServer(g.handler)
	front.Config.MaxHeaderBytes = 64 << 10
	front.Start()
	defer front.Close()
	for _, c := range hostiles {
		before := reached
		status, header := onWire(t, front.Listener.Addr().String(), &c)
		t.Logf("%-30s %d, the replica was asked: %v", c.name, status, reached > before)
		if status != c.status {
			t.Errorf("%s: status %d, want %d", c.name, status, c.status)
		}
		if (reached > before) != (c.status == 200) {
			t.Errorf("%s: the replica was asked %d times", c.name, reached-before)
		}
		if reached == before {
			continue
		}
		text := strings.ToLower(seen.String())
		for _, word := range c.gone {
			if strings.Contains(text, strings.ToLower(word)) {
				t.Errorf("%s: the replica read %q in %s", c.name, word, text)
			}
		}
		for _, word := range c.kept {
			if !strings.Contains(text, strings.ToLower(word)) {
				t.Errorf("%s: the replica did not read %q in %s", c.name, word, text)
			}
		}
		if header.Get("X-Banyan-Replica") != "r0" {
			t.Errorf("%s: answered by %q", c.name, header.Get("X-Banyan-Replica"))
		}
	}
}

// onWire writes a request byte by byte as given, and reads the answer.
func onWire(t *testing.T, address string, c *hostile) (int, http.Header) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	line, length := c.line, c.length
	if line == "" {
		line = chatPost
	}
	if length == "" {
		length = fmt.Sprintf("Content-Length: %d", len(c.body))
	}
	go func() { // the answer may come before all is read
		_, _ = io.WriteString(conn, line+"\r\nHost: somewhere\r\nContent-Type: application/json\r\n"+length+"\r\n"+
			strings.Join(append(c.head, ""), "\r\n")+"\r\n"+c.body)
	}()
	in := bufio.NewReader(conn)
	method, _, _ := strings.Cut(line, " ")
	asked := &http.Request{Method: method} // what follows HEAD has no body
	res, err := http.ReadResponse(in, asked)
	for err == nil && res.StatusCode == http.StatusContinue { // "go on", before the answer
		res, err = http.ReadResponse(in, asked)
	}
	if err != nil {
		t.Errorf("%s: %v", c.name, err)
		return 0, nil
	}
	defer res.Body.Close()
	return res.StatusCode, res.Header
}

// TestHostileReplicas: what a replica says of itself does not pass for ours.
func TestHostileReplicas(t *testing.T) {
	g := newRig(t, nil, func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"X-Banyan-Replica": "evil", "X-Banyan-Peer": "evil", "X-Banyan-Matched-Tokens": "evil", "X-Request-Id": "evil",
			"X-Client-Request-Id": "evil", "Connection": "X-Hop", "X-Hop": "evil", "Keep-Alive": "evil", "Upgrade": "evil", "Proxy-Authenticate": "evil",
		} {
			w.Header().Set(name, value)
		}
		ok(w, r)
	})
	a := g.chat(plainChat)
	for name, values := range a.header {
		if strings.Contains(strings.Join(values, " "), "evil") {
			t.Errorf("%s: %v", name, values)
		}
	}
	if a.status != 200 || a.header.Get("X-Banyan-Replica") != "r0" {
		t.Errorf("%+v", a)
	}
}

// TestTheTenantsNameStaysHere: engines get the keyed hash of a tenant as
// cache_salt, and its name in no header.
func TestTheTenantsNameStaysHere(t *testing.T) {
	var got http.Header
	g := newRig(t, func(c *Config) { c.TenantHeader = "x-team" }, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		ok(w, r)
	})
	a := g.do(http.MethodPost, "/v1/chat/completions", plainChat, http.Header{"X-Team": {"acme"}, "X-Other": {"kept"}})
	if a.status != 200 || got.Get("X-Team") != "" || got.Get("X-Other") != "kept" || g.calls[0].Tenant != "acme" {
		t.Errorf("%d, tenant %q, the engine read %v", a.status, g.calls[0].Tenant, got)
	}
}
