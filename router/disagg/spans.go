package disagg

import (
	"io"
	"net/http"
)

// prefillLeg names the span of a prefill leg.
const prefillLeg = "prefill leg"

// trace begins the span of a leg, if any are made.
func (l *Legs) trace(req *http.Request, leg, replica string) (*http.Request, func(status int, err error)) {
	if l.Trace == nil {
		return req, func(int, error) {}
	}
	return l.Trace(req, leg, replica)
}

// statusOf is the status of an answer, 0 if there is none.
func statusOf(res *http.Response) int {
	if res == nil {
		return 0
	}
	return res.StatusCode
}

// tracedBody ends a leg's span when its answer was read.
type tracedBody struct {
	io.ReadCloser
	end func()
}

func (b *tracedBody) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err
}
