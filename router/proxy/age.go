package proxy

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"time"
)

// bornKey finds the end of a connection's life in its context.
type bornKey struct{}

// ConnContext is for http.Server: connections end after about age (±20 %), by
// Connection: close on the next answer, never inside one, so that an L4
// balancer can give new peers a share. An age of 0 keeps them. It reads the
// clock itself, once a connection.
func ConnContext(age time.Duration) func(ctx context.Context, c net.Conn) context.Context {
	return func(ctx context.Context, _ net.Conn) context.Context {
		if age <= 0 {
			return ctx
		}
		jitter := 0.8 + 0.4*rand.Float64()
		return context.WithValue(ctx, bornKey{}, time.Now().Add(time.Duration(float64(age)*jitter)))
	}
}

// expired reports whether the connection of a request has reached its age.
func expired(ctx context.Context, now time.Time) bool {
	end, ok := ctx.Value(bornKey{}).(time.Time)
	return ok && !now.Before(end)
}

// Closing wraps handlers beside this package's (health checks, say) with the
// same rules: Connection: close while draining and after a connection's age.
func Closing(draining func() bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if draining != nil && draining() || expired(r.Context(), time.Now()) {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
