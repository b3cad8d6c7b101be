package router

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/router/proxy"
	"github.com/banyan-llm/banyan/router/tracing"
)

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

// traceLegs makes the spans of legs; nil while tracing is off.
func traceLegs(t *tracing.Tracing) func(req *http.Request, leg, replica string) (*http.Request, func(status int, err error)) {
	if t == nil {
		return nil
	}
	return func(req *http.Request, leg, replica string) (*http.Request, func(status int, err error)) {
		ctx, span := t.Tracer().Start(req.Context(), leg, trace.WithSpanKind(trace.SpanKindClient),
			trace.WithAttributes(attribute.String("banyan.replica", replica)))
		req = req.WithContext(ctx)
		proxy.Inject(ctx, req.Header)
		return req, func(status int, err error) { endLeg(span, status, err) }
	}
}

// endLeg ends the span of a leg with the answer's status, or why there is none.
func endLeg(span trace.Span, status int, err error) {
	if status != 0 {
		span.SetAttributes(attribute.Int("http.response.status_code", status))
	}
	if err != nil || status >= 500 {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}
