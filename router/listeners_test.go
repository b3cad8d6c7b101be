package router

import (
	"strings"
	"testing"
)

func TestListenersHaveAPortEach(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"127.0.0.1:8081", "127.0.0.1:8081", true},
		{":8081", "127.0.0.1:8081", true},
		{"127.0.0.1:8081", "[::]:8081", true},
		{"127.0.0.1:8081", "127.0.0.2:8081", false},
		{"127.0.0.1:8080", "127.0.0.1:8081", false},
		{"localhost:0", "localhost:0", false},
		{"nothing", "nothing", false},
	} {
		if got := sameAddress(c.a, c.b); got != c.want {
			t.Errorf("%s and %s: %v", c.a, c.b, got)
		}
	}
	c := DefaultConfig()
	c.HTTP.Listen = c.Admin.Listen
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "admin.listen: \"127.0.0.1:8081\" is http.listen's address too") {
		t.Errorf("%v", err)
	}
}
