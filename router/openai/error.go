package openai

import (
	"encoding/json"
	"net/http"
)

// Error is an error answer in the OpenAI shape. It is a Go error too, so that
// a parser can say what the client will read.
type Error struct {
	Status  int    // HTTP status
	Message string // a sentence for people
	Type    string // "invalid_request_error", "server_error", ...
	Param   string // the field at fault; "" is null on the wire
	Code    string // for programs; "" is null on the wire
}

// Types of errors, as OpenAI names them.
const (
	TypeInvalid   = "invalid_request_error"
	TypeRateLimit = "rate_limit_error"
	TypeServer    = "server_error"
)

// Invalid is a 400 about one field; an empty param is about the whole body.
func Invalid(param, message string) *Error {
	return &Error{Status: http.StatusBadRequest, Message: message, Type: TypeInvalid, Param: param, Code: "invalid_request"}
}

// Error returns the message, with the field it is about.
func (e *Error) Error() string {
	if e.Param == "" {
		return e.Message
	}
	return e.Param + ": " + e.Message
}

// Body renders {"error":{"message","type","param","code"}} and a newline.
func (e *Error) Body() []byte {
	type inner struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	}
	body, err := json.Marshal(struct {
		Error inner `json:"error"`
	}{inner{e.Message, e.Type, nullable(e.Param), nullable(e.Code)}})
	if err != nil {
		panic("invariant: an error of strings marshals: " + err.Error())
	}
	return append(body, '\n')
}

// BodyFor is Body in the shape that clients of the endpoint read: Anthropic's
// is {"type":"error","error":{"type","message"}}.
func (e *Error) BodyFor(endpoint Endpoint) []byte {
	if !endpoint.Anthropic() {
		return e.Body()
	}
	type inner struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	}
	body, err := json.Marshal(struct {
		Type  string `json:"type"`
		Error inner  `json:"error"`
	}{"error", inner{anthropicType(e.Status), e.Error()}})
	if err != nil {
		panic("invariant: an error of strings marshals: " + err.Error())
	}
	return append(body, '\n')
}

// anthropicType is how Anthropic names what a status means.
func anthropicType(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusServiceUnavailable:
		return "overloaded_error"
	case http.StatusGatewayTimeout:
		return "timeout_error"
	}
	if status >= http.StatusInternalServerError {
		return "api_error"
	}
	return TypeInvalid
}

func nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
