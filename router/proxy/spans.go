package proxy

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/banyan-llm/banyan/router/openai"
)

// Names are those of OpenTelemetry's HTTP conventions and, as of their state
// "Development" in 2026, the GenAI ones. Nothing of a prompt, an answer's
// content, a key, a tenant or a session is ever an attribute.

// wire is W3C trace context: traceparent and tracestate.
var wire propagation.TraceContext

// off is the tracer while Config.Tracer is nil.
var off = noop.NewTracerProvider().Tracer("")

// unseen is the span of everything while tracing is off.
var unseen = trace.SpanFromContext(context.Background())

// traced begins the span of a request, child of the client's if it sent one.
func (x *exchange) traced() {
	x.span = unseen
	if x.cfg.Tracer == nil {
		return
	}
	ctx := wire.Extract(x.r.Context(), propagation.HeaderCarrier(x.r.Header))
	route := x.call.Endpoint.Path()
	switch {
	case route != "":
	case x.isModels():
		route = modelsPath
	default:
		route = "/v1/{path}"
	}
	ctx, x.span = x.tracer().Start(ctx, x.method()+" "+route, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("http.request.method", x.method()), attribute.String("http.route", route),
		attribute.String("banyan.peer", x.cfg.Peer), attribute.String("banyan.request_id", x.call.ID)))
	x.r = x.r.WithContext(ctx)
}

// traceID is the one of the span, else of the client's traceparent.
func (x *exchange) traceID() [16]byte {
	if sc := x.span.SpanContext(); sc.HasTraceID() {
		return sc.TraceID()
	}
	parent := x.r.Header.Get("Traceparent")
	if len(parent) < 55 || parent[2] != '-' || parent[35] != '-' {
		return [16]byte{}
	}
	id, err := trace.TraceIDFromHex(parent[3:35])
	if err != nil {
		return [16]byte{}
	}
	return id
}

// method is the request's, of the known ones: clients may send any word.
func (x *exchange) method() string {
	switch x.r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return x.r.Method
	}
	return "_OTHER"
}

func (x *exchange) tracer() trace.Tracer {
	if x.cfg.Tracer == nil {
		return off
	}
	return x.cfg.Tracer
}

// begin starts a span within another; unseen while tracing is off.
func (x *exchange) begin(ctx context.Context, name string) (context.Context, trace.Span) {
	if x.cfg.Tracer == nil {
		return ctx, unseen
	}
	return x.cfg.Tracer.Start(ctx, name)
}

// answer notes the status that the client is given.
func (x *exchange) answer(status int) {
	x.end.Status = status
	if !x.span.IsRecording() {
		return
	}
	x.span.SetAttributes(attribute.Int("http.response.status_code", status))
	if status >= 500 {
		x.span.SetStatus(codes.Error, "")
	}
}

// operation is GenAI's name of an endpoint.
func operation(e openai.Endpoint) string {
	switch e {
	case openai.Chat, openai.ChatBatch, openai.Responses, openai.Messages:
		return "chat"
	case openai.Completions, openai.Generate, openai.SGLGenerate:
		return "text_completion"
	case openai.Embeddings:
		return "embeddings"
	case openai.Tokenize, openai.CountTokens:
		return "tokenize"
	}
	return "other"
}

// traceTry begins the span of one try. Its context is what the replica gets
// as traceparent.
func (x *exchange) traceTry(ctx context.Context, t *try) context.Context {
	t.span = unseen
	if x.cfg.Tracer == nil {
		return ctx
	}
	body, name := x.call.Body, operation(x.call.Endpoint)
	attrs := []attribute.KeyValue{
		attribute.String("gen_ai.operation.name", name), attribute.String("gen_ai.request.model", body.Model),
		attribute.Int("banyan.attempt", x.call.Attempt), attribute.String("banyan.replica", t.target.Replica),
		attribute.String("banyan.policy", t.target.Policy), attribute.String("banyan.reason", t.target.Reason),
		attribute.Int("banyan.matched_tokens", t.target.Matched), attribute.Bool("banyan.hedge", t.hedge),
	}
	if body.MaxTokens > 0 {
		attrs = append(attrs, attribute.Int("gen_ai.request.max_tokens", body.MaxTokens))
	}
	if u, err := url.Parse(t.target.URL); err == nil {
		attrs = append(attrs, attribute.String("server.address", u.Hostname()))
		if port, err := strconv.Atoi(u.Port()); err == nil {
			attrs = append(attrs, attribute.Int("server.port", port))
		}
	}
	ctx, t.span = x.cfg.Tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attrs...))
	return ctx
}

// endTry ends it with what is known of the answer.
func (t *try) endTry() {
	defer t.span.End()
	if !t.span.IsRecording() {
		return
	}
	r := &t.result
	if r.Status > 0 {
		t.span.SetAttributes(attribute.Int("http.response.status_code", r.Status))
	}
	if r.Finish != "" {
		t.span.SetAttributes(attribute.StringSlice("gen_ai.response.finish_reasons", []string{r.Finish}))
	}
	if r.Usage.Known {
		t.span.SetAttributes(attribute.Int("gen_ai.usage.input_tokens", r.Usage.Prompt), attribute.Int("gen_ai.usage.output_tokens", r.Usage.Completion))
	}
	if r.Usage.CachedKnown {
		t.span.SetAttributes(attribute.Int("gen_ai.usage.cache_read.input_tokens", r.Usage.Cached))
	}
	kind := string(r.Cause)
	switch {
	case r.ClientGone:
		kind = "client_gone"
	case r.Lost:
		kind = "lost"
	case r.Failed:
		kind = "in_stream"
	case kind == "" && r.Status >= 500:
		kind = strconv.Itoa(r.Status)
	}
	if kind != "" {
		t.span.SetAttributes(attribute.String("error.type", kind))
	}
	if kind != "" && !r.Lost {
		t.span.SetStatus(codes.Error, "")
	}
}

// Inject tells a replica of the span in ctx, if there is one.
func Inject(ctx context.Context, header http.Header) {
	wire.Inject(ctx, propagation.HeaderCarrier(header))
}
