package zmtp

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// endpoint is where to dial or listen.
type endpoint struct {
	network string // tcp or unix
	address string
}

// parseEndpoint reads "tcp://host:port", "ipc:///path" or a bare "host:port".
// Host "*" means every interface and port "*" any free port, as in libzmq.
func parseEndpoint(s string) (endpoint, error) {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		scheme, rest = "tcp", s
	}
	switch scheme {
	case "tcp":
		return parseTCP(s, rest)
	case "ipc":
		if rest == "" || rest == "*" {
			return endpoint{}, fmt.Errorf("endpoint %q: no path", s)
		}
		return endpoint{network: "unix", address: rest}, nil
	}
	return endpoint{}, fmt.Errorf("endpoint %q: transport %q is neither tcp nor ipc", s, scheme)
}

// parseTCP splits host:port; rest is s without its scheme.
func parseTCP(s, rest string) (endpoint, error) {
	host, port, err := net.SplitHostPort(rest)
	if err != nil {
		return endpoint{}, fmt.Errorf("endpoint %q: %w", s, err)
	}
	if host == "*" {
		host = ""
	}
	if strings.ContainsAny(host, "/; ") {
		return endpoint{}, fmt.Errorf("endpoint %q: %q is not a host", s, host)
	}
	if port == "*" {
		port = "0"
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return endpoint{}, fmt.Errorf("endpoint %q: port %q is not a number from 0 to 65535", s, port)
	}
	return endpoint{network: "tcp", address: net.JoinHostPort(host, port)}, nil
}

// dialable refuses addresses that only make sense for listening.
func (e endpoint) dialable() error {
	if e.network != "tcp" {
		return nil
	}
	host, port, _ := net.SplitHostPort(e.address)
	if host == "" || port == "0" {
		return fmt.Errorf("endpoint %s: cannot dial a wildcard", e.address)
	}
	return nil
}

// ParseEndpoint checks that an endpoint can be dialed (or listened on), for
// configuration to be refused early.
func ParseEndpoint(s string, dial bool) error {
	e, err := parseEndpoint(s)
	if err != nil || !dial {
		return err
	}
	return e.dialable()
}
