package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/banyan-llm/banyan/router/console"
)

// admin asks children about themselves.
var admin = http.Client{Timeout: 3 * time.Second}

// writeConfig writes the configuration all peers share.
func (s *stage) writeConfig() error {
	var b strings.Builder
	b.WriteString("policy: ttft\nhttp: {policy_override: true}\nmesh: {insecure: true, label: demo}\n")
	b.WriteString("drain: {delay: 200ms, timeout: 5s}\nreplicas:\n")
	for _, c := range s.replicas {
		fmt.Fprintf(&b, "- {name: %s, url: %q, events: %q, replay: %q, engine: vllm}\n", c.name, "http://"+c.said["http"], c.said["events"], c.said["replay"])
	}
	return os.WriteFile(s.configPath(), []byte(b.String()), 0o600)
}

func (s *stage) configPath() string { return filepath.Join(s.dir, "banyan.yaml") }

// addPeer starts one more router peer, seeded with a living one, behind the
// balancer.
func (s *stage) addPeer(ctx context.Context) (*child, error) {
	s.mu.Lock()
	name := string(rune('a' + s.started))
	s.started++
	args := []string{
		"serve", "--config", s.configPath(), "--mesh.name", name,
		"--http.listen", "127.0.0.1:0", "--admin.listen", "127.0.0.1:0", "--mesh.bind", "127.0.0.1:0",
	}
	if len(s.peers) > 0 {
		args = append(args, "--mesh.join", s.peers[0].said["mesh"])
	}
	s.mu.Unlock()
	c, err := start(ctx, s.cfg.Binary, s.dir, "peer-"+name, args...)
	if err != nil {
		return nil, err
	}
	c.name = name
	s.mu.Lock()
	s.peers = append(s.peers, c)
	s.mu.Unlock()
	s.balancer.add(c.said["http"])
	return c, nil
}

// living lists the peers that were not killed.
func (s *stage) living() []*child {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.peers)
}

func (s *stage) status(ctx context.Context, c *child) (*console.Status, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.said["admin"]+"/v1/status", nil)
	if err != nil {
		return nil, err
	}
	res, err := admin.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var st console.Status
	if err := json.NewDecoder(res.Body).Decode(&st); err != nil {
		return nil, fmt.Errorf("status of %s: %w", c.name, err)
	}
	return &st, nil
}

// statuses asks every living peer that answers.
func (s *stage) statuses(ctx context.Context) []*console.Status {
	var out []*console.Status
	for _, c := range s.living() {
		if st, err := s.status(ctx, c); err == nil {
			out = append(out, st)
		}
	}
	return out
}

// agree says in what the living peers differ: nil when n of them are ready,
// see each other alive, and hold equal digests of every stream.
func (s *stage) agree(ctx context.Context, n int) error {
	sts := s.statuses(ctx)
	if len(sts) != n {
		return fmt.Errorf("%d of %d peers answer", len(sts), n)
	}
	for _, st := range sts {
		alive := 0
		for _, p := range st.Peers {
			if p.State == "alive" {
				alive++
			}
		}
		if !st.Ready || alive != n {
			return fmt.Errorf("peer %s sees %d peers alive, ready %v (%s)", st.Name, alive, st.Ready, st.Reason)
		}
		if len(st.Replicas) != len(sts[0].Replicas) {
			return fmt.Errorf("peers %s and %s list different replicas", st.Name, sts[0].Name)
		}
		for i, r := range st.Replicas {
			if r.Stream.Digest != sts[0].Replicas[i].Stream.Digest {
				return fmt.Errorf("peers %s and %s differ on %s", st.Name, sts[0].Name, r.Name)
			}
		}
	}
	return nil
}

// resetCaches empties every replica's prefix cache and waits until all peers
// heard of it.
func (s *stage) resetCaches(ctx context.Context) error {
	for _, c := range s.replicas {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.said["http"]+"/reset_prefix_cache", nil)
		if err != nil {
			return err
		}
		res, err := admin.Do(req)
		if err != nil {
			return err
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("reset the cache of %s: status %d", c.name, res.StatusCode)
		}
	}
	return s.waitFor(ctx, convergeTimeout, "all peers heard that the caches were emptied", func() bool {
		sts := s.statuses(ctx)
		for _, st := range sts {
			if st.Tree.Facts != 0 {
				return false
			}
		}
		return len(sts) == s.cfg.Peers
	})
}

// propagation adds up the peers' histograms of event delays.
func (s *stage) propagation(ctx context.Context) Quantiles {
	sum := map[float64]float64{}
	for _, c := range s.living() {
		_ = s.buckets(ctx, c, "banyan_mesh_propagation_seconds_bucket", sum)
	}
	bounds := make([]float64, 0, len(sum))
	for le := range sum {
		bounds = append(bounds, le)
	}
	slices.Sort(bounds)
	return Quantiles{P50: 1000 * fromBuckets(bounds, sum, .5), P99: 1000 * fromBuckets(bounds, sum, .99)}
}

// buckets adds one histogram's cumulative buckets to sum.
func (s *stage) buckets(ctx context.Context, c *child, name string, sum map[float64]float64) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.said["admin"]+"/metrics", nil)
	if err != nil {
		return err
	}
	res, err := admin.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), name+`{le="`)
		if !ok {
			continue
		}
		bound, value, ok := strings.Cut(rest, `"} `)
		le, err1 := strconv.ParseFloat(bound, 64)
		n, err2 := strconv.ParseFloat(value, 64)
		if !ok || err1 != nil || err2 != nil {
			return errors.New("histogram line not understood")
		}
		sum[le] += n
	}
	return lines.Err()
}

// fromBuckets interpolates a quantile linearly inside its bucket.
func fromBuckets(bounds []float64, cumulative map[float64]float64, q float64) float64 {
	if len(bounds) == 0 || cumulative[bounds[len(bounds)-1]] == 0 {
		return 0
	}
	want := q * cumulative[bounds[len(bounds)-1]]
	low, below := 0.0, 0.0
	for _, le := range bounds {
		n := cumulative[le]
		if n >= want {
			if n == below || le > 1e9 {
				return low
			}
			return low + (le-low)*(want-below)/(n-below)
		}
		low, below = le, n
	}
	return low
}
