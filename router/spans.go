package router

import (
	"context"
	"io"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/router/proxy"
)

// tracer makes the spans of legs; nil while tracing is off.
func (p *pairs) tracer() trace.Tracer {
	if p.tracing == nil {
		return nil
	}
	return p.tracing.Tracer()
}

// tracePick notes a decision on the span it is part of.
func tracePick(ctx context.Context, t *ticket, candidates int, view *policy.View) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	grid := max(1, t.keys.Grid)
	span.SetAttributes(
		attribute.String("banyan.policy", t.policyName), attribute.String("banyan.reason", string(t.reason)),
		attribute.String("banyan.replica", t.replica.Name()), attribute.String("gen_ai.provider.name", t.replica.Engine()),
		attribute.Int("banyan.candidates", candidates), attribute.Int("banyan.matched_tokens", t.matched),
		attribute.Int("banyan.matched_blocks", t.matched/grid), attribute.Int("banyan.prompt_tokens", t.keys.Tokens),
		attribute.String("banyan.keys", string(t.keys.Scheme)), attribute.Float64("banyan.predicted_ttft_ms", 1000*t.predicted),
		attribute.Float64("banyan.view_age_ms", view.AgeMs), attribute.Float64("banyan.index_age_ms", view.IndexAgeMs),
		attribute.Int("banyan.peers", view.Peers),
	)
	if t.lead != nil {
		span.SetAttributes(
			attribute.String("banyan.prefill_replica", t.lead.replica.Name()), attribute.Int("banyan.matched_tokens", t.lead.matched),
			attribute.Int("banyan.matched_blocks", t.lead.matched/grid),
		)
	}
}

// legSpan is the span of one leg of a try; nil while tracing is off, and then
// nothing is done.
type legSpan struct{ span trace.Span }

// traceLeg begins the span of a leg and names it to the replica.
func (p *pairs) traceLeg(req *http.Request, name, replica string) (*http.Request, *legSpan) {
	tracer := p.tracer()
	if tracer == nil {
		return req, nil
	}
	ctx, span := tracer.Start(req.Context(), name, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("banyan.replica", replica)))
	req = req.WithContext(ctx)
	proxy.Inject(ctx, req.Header)
	return req, &legSpan{span}
}

// end ends it with the answer's header, or why there is none.
func (l *legSpan) end(res *http.Response, err error) {
	if l == nil {
		return
	}
	if res != nil {
		l.span.SetAttributes(attribute.Int("http.response.status_code", res.StatusCode))
	}
	if err != nil || res != nil && res.StatusCode >= 500 {
		l.span.SetStatus(codes.Error, "")
	}
	l.span.End()
}

// with ends it when the answer's body is closed.
func (l *legSpan) with(res *http.Response, err error) (*http.Response, error) {
	if l == nil || err != nil {
		l.end(res, err)
		return res, err
	}
	res.Body = &spanBody{res.Body, l, res}
	return res, nil
}

type spanBody struct {
	io.ReadCloser
	leg *legSpan
	res *http.Response
}

func (b *spanBody) Close() error {
	err := b.ReadCloser.Close()
	b.leg.end(b.res, nil)
	return err
}
