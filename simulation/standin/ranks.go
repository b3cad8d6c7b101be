package standin

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// maxRanks bounds the data-parallel ranks of one server.
const maxRanks = 64

// portTries is how many free ports are tried for several ranks, whose ports
// must follow each other.
const portTries = 32

// incarnation is one run of the engine process: an engine and a publisher for
// every data-parallel rank.
type incarnation struct {
	engines []*engine
	stop    func() // ends the engines' loops and waits for them
}

// newIncarnation starts the engines of all ranks. Rank i publishes on the
// ports of rank 0 plus i, as engines do.
func (s *Server) newIncarnation(events, replay string) (*incarnation, error) {
	var inc *incarnation
	var err error
	for range portTries {
		if inc, err = s.tryIncarnation(events, replay); err == nil || !freePort(events) && !freePort(replay) {
			break // with ports given there is nothing else to try
		}
	}
	return inc, err
}

func (s *Server) tryIncarnation(events, replay string) (_ *incarnation, err error) {
	inc := &incarnation{stop: func() {}}
	defer func() {
		if err != nil {
			inc.close()
		}
	}()
	for i := range s.cfg.Ranks {
		cfg := s.cfg
		cfg.Rank += i
		at, again := events, replay
		if i > 0 {
			first, firstReplay := inc.engines[0].pub.addrs()
			if !cfg.EventsDial {
				at = first
			}
			if at, err = offsetPort(at, i); err != nil {
				return nil, err
			}
			if again, err = offsetPort(firstReplay, i); err != nil {
				return nil, err
			}
		}
		pub, err := newPublisher(&cfg, at, again)
		if err != nil {
			return nil, err
		}
		eng, err := newEngine(&cfg, s.faults, pub)
		if err != nil {
			pub.close()
			return nil, err
		}
		inc.engines = append(inc.engines, eng)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{}, len(inc.engines))
	for _, eng := range inc.engines {
		s.wg.Go(func() {
			eng.run(ctx)
			done <- struct{}{}
		})
	}
	inc.stop = func() {
		cancel()
		for range inc.engines {
			<-done
		}
	}
	return inc, nil
}

// close ends everything of an incarnation.
func (inc *incarnation) close() {
	inc.stop()
	for _, eng := range inc.engines {
		eng.pub.close()
	}
}

// freePort reports whether an endpoint leaves its port to the system.
func freePort(endpoint string) bool {
	return strings.HasSuffix(endpoint, ":0") || strings.HasSuffix(endpoint, ":*")
}

// offsetPort is the endpoint i ports above; "" stays.
func offsetPort(endpoint string, i int) (string, error) {
	address, ok := strings.CutPrefix(endpoint, "tcp://")
	if endpoint == "" {
		return "", nil
	}
	host, port, err := net.SplitHostPort(address)
	n, numErr := strconv.Atoi(port)
	if !ok || err != nil || numErr != nil || n+i > 65535 {
		return "", fmt.Errorf("endpoint %q cannot be offset by rank %d", endpoint, i)
	}
	return "tcp://" + net.JoinHostPort(host, strconv.Itoa(n+i)), nil
}

// all are the engines of all ranks, nil between two incarnations.
func (s *Server) all() []*engine {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inc == nil {
		return nil
	}
	return s.inc.engines
}

// rankless are the endpoints at which vLLM picks the rank itself.
var rankless = []string{"/v1/responses", "/v1/embeddings"}

// rankOf is the engine a request asks for by header; without one the least
// busy. vLLM ignores what is no number, and any rank at some endpoints; SGLang
// refuses a rank it has not.
func (s *Server) rankOf(r *http.Request) (*engine, error) {
	engines := s.all()
	if len(engines) == 0 {
		return nil, errDead
	}
	text := r.Header.Get("X-Data-Parallel-Rank")
	if s.cfg.Engine == VLLM && slices.Contains(rankless, r.URL.Path) {
		text = ""
	}
	if rank, err := strconv.Atoi(text); err == nil && s.cfg.Engine != TRTLLM && len(engines) > 1 {
		if rank < 0 || rank >= len(engines) {
			return nil, badParam("data_parallel_rank", fmt.Sprintf("data_parallel_rank %d is out of range [0, %d)", rank, len(engines)))
		}
		return engines[rank], nil
	}
	best := engines[0]
	if len(engines) == 1 {
		return best, nil
	}
	least := -1
	for _, eng := range engines {
		st := eng.stats()
		if busy := st.Running + st.Waiting; least < 0 || busy < least {
			best, least = eng, busy
		}
	}
	return best, nil
}
