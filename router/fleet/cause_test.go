package fleet

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// An https url of a server that speaks http is told with its cure.
func TestAnHTTPServerAskedByTLSIsTold(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	res, err := http.Get(strings.Replace(s.URL, "http:", "https:", 1))
	if err == nil {
		res.Body.Close()
		t.Fatal("it was answered")
	}
	if cause := Cause(err); cause != "it speaks http: write http:// in url" {
		t.Errorf("%v: %s", err, cause)
	}
}

// What a server writes instead of HTTP is not told: net/http quotes it.
func TestNoWordOfAnAnswerIsACause(t *testing.T) {
	for _, answer := range []string{
		"MARK\r\n\r\n", "HTTP/MARK 200 OK\r\n\r\n", "HTTP/1.1 MARK\r\n\r\n", "HTTP/1.1 200 OK\r\nMARK\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: MARK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: MARK\r\n\r\n", "HTTP/1.1 302 Found\r\nLocation: http://%MARK\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 32\r\n\r\n{\"loads\":[{\"dp_rank\":\"MARK\"}]}",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, answer)
				conn.Close()
			}
		}))
		f := New(Config{})
		f.Set([]Spec{{URL: s.URL, Engine: sglang}}, time.Now())
		r := f.List()[0]
		_, loadErr := readLoad(t.Context(), f.pagesOf(r), r, false)
		_, listErr := readModels(t.Context(), f.pagesOf(r))
		for _, err := range []error{loadErr, listErr} {
			if cause := Cause(err); err == nil || cause == "" || strings.Contains(cause, "MARK") {
				t.Errorf("%q: %v is told as %q", answer, err, cause)
			}
		}
		s.Close()
	}
}
