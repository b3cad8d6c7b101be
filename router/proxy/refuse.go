package proxy

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/banyan-llm/banyan/router/openai"
)

// retryAfterSeconds is what clients are told to wait when nothing can serve
// them now.
const retryAfterSeconds = 1

func refusal(status int, code, message string) *openai.Error {
	kind := openai.TypeInvalid
	switch {
	case status == http.StatusTooManyRequests:
		kind = openai.TypeRateLimit
	case status >= 500:
		kind = openai.TypeServer
	}
	return &openai.Error{Status: status, Message: message, Type: kind, Code: code}
}

// refuse answers with an error of our own.
func (x *exchange) refuse(fail *openai.Error) {
	if x.cfg.Refused != nil {
		x.cfg.Refused(fail.Status)
	}
	if x.end.Code = fail.Code; x.end.Code == "" {
		x.end.Code = fail.Type
	}
	x.answer(fail.Status)
	body := fail.BodyFor(x.call.Endpoint)
	header := x.w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	if fail.Status == http.StatusTooManyRequests || fail.Status == http.StatusServiceUnavailable {
		if header.Get("Retry-After") == "" {
			header.Set("Retry-After", strconv.Itoa(retryAfterSeconds))
		}
	}
	x.lastHeader()
	x.w.WriteHeader(fail.Status)
	if x.r.Method != http.MethodHead {
		_, _ = x.w.Write(body)
	}
}

// left notes that the client went away before its answer.
func (x *exchange) left() {
	x.end.Left = true
	x.disconnects.Add(1)
}

// refusePick answers what Pick said instead of a target.
func (x *exchange) refusePick(err error) {
	var own *openai.Error
	var late *shed
	switch {
	case x.r.Context().Err() != nil:
		x.left()
	case errors.As(err, &late):
		x.refuseShed(late)
	case errors.As(err, &own):
		x.refuse(own)
	case errors.Is(err, ErrUnknownModel):
		x.refuse(x.unknownModel(x.call.Body.Model))
	case errors.Is(err, ErrNoReplica):
		x.refuse(refusal(http.StatusServiceUnavailable, "no_replica", "no replica can take the request now"))
	case errors.Is(err, ErrDraining):
		x.w.Header().Set("Connection", "close")
		x.refuse(refusal(http.StatusServiceUnavailable, "draining", "this router is shutting down"))
	case errors.Is(err, context.DeadlineExceeded):
		x.refuse(refusal(http.StatusGatewayTimeout, "timeout", "choosing a replica took too long"))
	default:
		x.refuse(refusal(http.StatusInternalServerError, "internal_error", "choosing a replica failed"))
	}
}

// refuseTry answers when the last try gave no answer to pass on.
func (x *exchange) refuseTry(cause Cause) {
	if cause == CauseTimeout {
		x.refuse(refusal(http.StatusGatewayTimeout, "timeout", "the replica did not begin to answer in time"))
		return
	}
	x.refuse(refusal(http.StatusBadGateway, "replica_failed", "the connection to the replica failed"))
}

// refuseAnswer answers when the last try's answer was none of the API.
func (x *exchange) refuseAnswer(t *try) {
	x.w.Header().Set("X-Banyan-Replica", t.target.Replica)
	x.refuse(refusal(http.StatusBadGateway, "replica_failed", "the replica's answer is none of this API: "+string(t.result.Wrong)))
}
