package fleet

import (
	"errors"
	"fmt"
	"net"
	"strconv"
)

// checkP2P reports what is wrong with the address of a replica's P2P tier.
func (s *Spec) checkP2P() error {
	host, port, err := net.SplitHostPort(s.P2P)
	if err != nil || host == "" {
		return fmt.Errorf("%q is not host:port", s.P2P)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("port %q is not a number from 1 to 65535", port)
	}
	if s.Engine != "" && s.Engine != engineAuto && s.Engine != vllm {
		return errors.New("only vLLM fetches KV blocks from other engines")
	}
	return nil
}

// Fetches reports whether the replica's engine fetches KV blocks from others and
// hands its own to them.
func (r *Replica) Fetches() bool { return r.Spec.P2P != "" && r.Engine() == vllm }
