package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/banyan-llm/banyan/crdt"
)

// Bounds of what is read from a replica.
const (
	maxModelsBytes  = 1 << 20
	maxMetricsBytes = 8 << 20
	maxModels       = 4096
	maxModelName    = 512 // bytes
)

// watch probes one replica until ctx ends.
func (f *Fleet) watch(ctx context.Context, r *Replica) {
	var models, scraped time.Time
	for {
		now := time.Now()
		if r.probeDue(now, f.cfg.Probe) {
			f.probe(ctx, r)
		}
		if r.Up() && (r.models.Load() == nil || now.Sub(models) >= f.cfg.Models) {
			models = now
			if list, err := f.readModels(ctx, r); err == nil {
				first := r.models.Swap(&list) == nil
				if first {
					f.changed()
				}
			} else if ctx.Err() == nil {
				f.cfg.Logger.Debug("models not read", "replica", r.Name(), "err", err)
			}
		}
		if r.Up() && now.Sub(scraped) >= f.cfg.Scrape && (f.cfg.Owned == nil || f.cfg.Owned(r.Stream)) {
			scraped = now
			if s, err := f.readLoad(ctx, r); err == nil && f.cfg.Scraped != nil {
				f.cfg.Scraped(r.Stream, s)
			}
		}
		wait := 50*time.Millisecond + time.Duration(rand.Int64N(int64(100*time.Millisecond)))
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// probe asks /health once.
func (f *Fleet) probe(ctx context.Context, r *Replica) {
	res, err := f.get(ctx, r, "/health")
	now := time.Now()
	if ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	r.probed = now
	r.mu.Unlock()
	if err == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10))
		res.Body.Close()
		if res.StatusCode < 500 {
			if r.OK(now) {
				f.cfg.Logger.Info("replica up", "replica", r.Name())
				f.changed()
			}
			return
		}
		err = fmt.Errorf("/health answered %d", res.StatusCode)
	}
	if r.Fail(now, Refused(err), Cause(err)) {
		f.cfg.Logger.Warn("replica down", "replica", r.Name(), "reason", Cause(err))
		f.changed()
	}
}

func (f *Fleet) get(ctx context.Context, r *Replica, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.Spec.URL+path, nil)
	if err != nil {
		return nil, err
	}
	if r.Spec.Credentials != "" {
		req.Header.Set("Authorization", "Bearer "+r.Spec.Credentials)
	}
	return f.cfg.Client.Do(req)
}

// read fetches at most limit bytes of a page; a longer page is an error.
func (f *Fleet) read(ctx context.Context, r *Replica, path string, limit int64) ([]byte, error) {
	res, err := f.get(ctx, r, path)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %d", path, res.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(body)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return body, nil
}

func (f *Fleet) readModels(ctx context.Context, r *Replica) ([]Model, error) {
	body, err := f.read(ctx, r, "/v1/models", maxModelsBytes)
	if err != nil {
		return nil, err
	}
	return parseModels(body)
}

func parseModels(body []byte) ([]Model, error) {
	var page struct {
		Data []struct {
			ID     string  `json:"id"`
			Root   string  `json:"root"`
			Parent *string `json:"parent"`
			MaxLen int     `json:"max_model_len"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &page); err != nil {
		return nil, fmt.Errorf("parse /v1/models: %w", err)
	}
	if len(page.Data) == 0 || len(page.Data) > maxModels {
		return nil, fmt.Errorf("parse /v1/models: %d models", len(page.Data))
	}
	models := make([]Model, 0, len(page.Data))
	for _, d := range page.Data {
		if d.ID == "" || len(d.ID) > maxModelName {
			continue
		}
		m := Model{ID: d.ID, Root: d.Root, MaxLen: d.MaxLen}
		if d.Parent != nil {
			m.Parent = *d.Parent
		}
		models = append(models, m)
	}
	return models, nil
}

func (f *Fleet) readLoad(ctx context.Context, r *Replica) (crdt.Scrape, error) {
	path := "/metrics"
	if r.Spec.Engine == "trtllm" {
		path = "/prometheus/metrics"
	}
	body, err := f.read(ctx, r, path, maxMetricsBytes)
	if err != nil {
		return crdt.Scrape{}, err
	}
	s, facts, err := parseMetrics(body, r.Spec.Rank)
	if err != nil {
		return crdt.Scrape{}, err
	}
	s.Version = uint64(time.Now().UnixMilli())
	r.mu.Lock()
	r.scrape, r.engine = s, facts
	r.mu.Unlock()
	return s, nil
}

// Refused reports whether an error means that nobody listens at the address.
func Refused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EHOSTUNREACH)
}

// Cause says in a few words why a replica could not be reached.
func Cause(err error) string {
	var ne net.Error
	switch {
	case err == nil:
		return ""
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET):
		return "connection reset"
	case errors.As(err, &ne) && ne.Timeout():
		return "time-out"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed"
	}
	msg := err.Error()
	if i := strings.LastIndex(msg, ": "); i >= 0 {
		msg = msg[i+2:]
	}
	return msg
}
