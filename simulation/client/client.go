package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"
)

// DefaultTimeout bounds one request, answer included.
const DefaultTimeout = 10 * time.Minute

const (
	retryPause   = 50 * time.Millisecond
	maxModels    = 1 << 20 // bytes of a model list
	modelTimeout = 10 * time.Second
)

// Client speaks the OpenAI API to one base URL. Safe for use by many
// goroutines.
type Client struct {
	URL     string        // without the /v1
	Key     string        // bearer key; "" sends none
	Timeout time.Duration // of one request; 0: DefaultTimeout
	HTTP    http.Client
}

// New returns a client. fresh opens a new connection for every request, so
// that a balancer chooses anew each time.
func New(url string, fresh bool) *Client {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: fresh, MaxIdleConnsPerHost: 4096}
	url = strings.TrimSuffix(strings.TrimRight(url, "/"), "/v1")
	return &Client{URL: url, HTTP: http.Client{Transport: transport}}
}

// Close ends idle connections.
func (c *Client) Close() { c.HTTP.CloseIdleConnections() }

// Ask sends one request and reads the whole stream. It tries once more if no
// byte of an answer had come.
func (c *Client) Ask(ctx context.Context, path string, body []byte, header http.Header) Answer {
	a := c.Once(ctx, path, body, header)
	if a.Err == nil || a.Began || ctx.Err() != nil {
		return a
	}
	time.Sleep(retryPause)
	again := c.Once(ctx, path, body, header)
	again.Retried = true
	return again
}

// Once sends one request and reads the whole stream.
func (c *Client) Once(ctx context.Context, path string, body []byte, header http.Header) (a Answer) {
	timeout := c.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	start := time.Now()
	res, err := c.send(ctx, http.MethodPost, path, bytes.NewReader(body), header)
	if err != nil {
		a.fail(ctx, CauseConnect, err)
		return a
	}
	defer res.Body.Close()
	a = Answer{
		Began: true, Status: res.StatusCode,
		Peer: res.Header.Get("X-Banyan-Peer"), Replica: res.Header.Get("X-Banyan-Replica"),
	}
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(res.Body, maxError))
		a.Began = false // an error answer before any content may be tried again
		a.fail(ctx, causeOf(res.StatusCode), fmt.Errorf("status %d: %s", res.StatusCode, bytes.TrimSpace(text)))
		return a
	}
	if cause, err := a.read(res.Body, start); err != nil {
		a.fail(ctx, cause, err)
	}
	return a
}

func causeOf(status int) Cause {
	switch status / 100 {
	case 4:
		return CauseClient
	case 5:
		return CauseServer
	}
	return CauseStatus
}

func (c *Client) send(ctx context.Context, method, path string, body io.Reader, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, body)
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, header)
	req.Header.Set("Content-Type", "application/json")
	if c.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.Key)
	}
	return c.HTTP.Do(req)
}

// Listed is a model that an endpoint serves.
type Listed struct {
	ID     string `json:"id"`
	MaxLen int    `json:"max_model_len"` // tokens of prompt and answer together; 0: not told
}

// ModelsStatus is the status of an endpoint that lists no models.
type ModelsStatus int

func (s ModelsStatus) Error() string { return fmt.Sprintf("status %d", int(s)) }

// Models asks what the endpoint serves; at least one, each with a name.
func (c *Client) Models(ctx context.Context) ([]Listed, error) {
	ctx, cancel := context.WithTimeout(ctx, modelTimeout)
	defer cancel()
	res, err := c.send(ctx, http.MethodGet, "/v1/models", nil, nil)
	if err != nil {
		return nil, fmt.Errorf("list models: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("list models: %w", ModelsStatus(res.StatusCode))
	}
	var list struct{ Data []Listed }
	if err := json.NewDecoder(io.LimitReader(res.Body, maxModels)).Decode(&list); err != nil {
		return nil, fmt.Errorf("list models: %w", err)
	}
	if len(list.Data) == 0 || list.Data[0].ID == "" {
		return nil, fmt.Errorf("list models: %s serves none", c.URL)
	}
	return list.Data, nil
}
