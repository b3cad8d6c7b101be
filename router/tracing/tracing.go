package tracing

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Config says where spans go. Headers, certificates and compression are taken
// from the OTEL_EXPORTER_OTLP_… variables of the process.
type Config struct {
	Endpoint string        `yaml:"endpoint" doc:"OTLP over HTTP, as http://collector:4318; empty = off (traceparent is passed on unchanged)"`
	Sample   float64       `yaml:"sample" doc:"share of the traces started here that are sampled, 0-1; a client's traceparent keeps its own decision"`
	Queue    int           `yaml:"-"` // spans waiting to be sent; more are dropped and counted
	Timeout  time.Duration `yaml:"-"` // for one batch to be taken, and for the last ones at the end
}

// DefaultConfig returns the documented defaults.
func DefaultConfig() Config { return Config{Sample: 1, Queue: 4096, Timeout: 10 * time.Second} }

// Validate reports every fault at once, each beginning with its key.
func (c *Config) Validate() error {
	var errs []error
	if c.Endpoint != "" {
		if u, err := url.Parse(c.Endpoint); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
			errs = append(errs, fmt.Errorf("tracing.endpoint: %q is not a URL like http://collector:4318", c.Endpoint))
		}
	}
	if !(c.Sample >= 0 && c.Sample <= 1) {
		errs = append(errs, fmt.Errorf("tracing.sample: must be from 0 to 1, not %v", c.Sample))
	}
	if c.Queue < 1 || c.Queue > 1<<20 {
		errs = append(errs, fmt.Errorf("tracing.queue: %d is not from 1 to %d", c.Queue, 1<<20))
	}
	if c.Timeout <= 0 {
		errs = append(errs, errors.New("tracing.timeout: must be more than 0"))
	}
	return errors.Join(errs...)
}

// Origin names who sends the spans.
type Origin struct{ Name, ID, Version string }

// Tracing is a running exporter.
type Tracing struct {
	provider *sdk.TracerProvider
	bounded  *bounded
	timeout  time.Duration
}

// Stats counts spans since the start.
type Stats struct{ Exported, Failed, Dropped uint64 }

// New starts an exporter; cfg must be valid. It does not wait for the
// collector. failed is told why a batch was not taken; it must not block.
func New(cfg Config, origin Origin, failed func(error)) (*Tracing, error) {
	exporter, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(tracesURL(cfg.Endpoint)),
		otlptracehttp.WithTimeout(cfg.Timeout),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
			Enabled: true, InitialInterval: time.Second, MaxInterval: 5 * time.Second, MaxElapsedTime: cfg.Timeout,
		}))
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	b := &bounded{most: int64(cfg.Queue)}
	b.SpanProcessor = sdk.NewBatchSpanProcessor(&counted{SpanExporter: exporter, of: b, failed: failed},
		sdk.WithMaxQueueSize(cfg.Queue), sdk.WithMaxExportBatchSize(min(512, cfg.Queue)), sdk.WithBatchTimeout(time.Second), sdk.WithExportTimeout(cfg.Timeout))
	limits := sdk.NewSpanLimits()
	limits.AttributeValueLengthLimit, limits.EventCountLimit = maxValueBytes, maxEvents
	provider := sdk.NewTracerProvider(
		sdk.WithSpanProcessor(b),
		sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(cfg.Sample))),
		sdk.WithRawSpanLimits(limits),
		sdk.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "banyan"), attribute.String("service.version", origin.Version),
			attribute.String("service.instance.id", origin.ID), attribute.String("banyan.peer", origin.Name),
		)),
	)
	return &Tracing{provider: provider, bounded: b, timeout: cfg.Timeout}, nil
}

// Bounds of one span: names of models come from clients.
const (
	maxValueBytes = 256
	maxEvents     = 16
)

// tracesURL is where a collector takes spans, of what people write.
func tracesURL(endpoint string) string {
	if u, err := url.Parse(endpoint); err == nil && (u.Path == "" || u.Path == "/") {
		u.Path = "/v1/traces"
		return u.String()
	}
	return endpoint
}

// Tracer makes spans.
func (t *Tracing) Tracer() trace.Tracer {
	return t.provider.Tracer("github.com/banyan-llm/banyan/router")
}

// Stats returns the counters.
func (t *Tracing) Stats() Stats {
	b := t.bounded
	return Stats{Exported: b.exported.Load(), Failed: b.failed.Load(), Dropped: b.dropped.Load()}
}

// Close sends what waits (T2) and stops. Spans that end later are lost.
func (t *Tracing) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), t.timeout)
	defer cancel()
	return t.provider.Shutdown(ctx)
}

// bounded counts what goes into a batch processor, so that what it would drop
// is known.
type bounded struct {
	sdk.SpanProcessor
	most int64

	waiting                   atomic.Int64 // ended and not yet sent or given up; Invariant T1: at most most
	exported, failed, dropped atomic.Uint64
}

func (b *bounded) OnEnd(s sdk.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	if b.waiting.Add(1) > b.most {
		b.waiting.Add(-1)
		b.dropped.Add(1)
		return
	}
	b.SpanProcessor.OnEnd(s)
}

// counted tells a bounded what became of its spans.
type counted struct {
	sdk.SpanExporter
	of     *bounded
	failed func(error)
}

func (c *counted) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := c.SpanExporter.ExportSpans(ctx, spans)
	c.of.waiting.Add(-int64(len(spans)))
	if err != nil {
		c.of.failed.Add(uint64(len(spans)))
		if c.failed != nil {
			c.failed(err)
		}
		return nil //nolint:nilerr // told; the SDK would write to a global logger
	}
	c.of.exported.Add(uint64(len(spans)))
	return nil
}
