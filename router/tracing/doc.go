// Package tracing sends spans to an OpenTelemetry collector, by the official
// SDK and OTLP over HTTP.
//
// It owns the exporter, its bounded queue and its end. It does not know what is
// traced: spans are made where the work is done, through the OpenTelemetry API.
// Nothing global is set.
//
// Invariants, each held by a test of the same number:
//
//	T1  At most Config.Queue spans wait; more are dropped and counted.
//	T2  Close sends what waits, within its context.
//	T3  A collector that fails or hangs costs spans, never a request.
package tracing
