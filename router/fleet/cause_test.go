package fleet

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
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
