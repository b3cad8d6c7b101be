package standin

import (
	"encoding/json"
	"errors"
	"net/http"
)

// errDead is what requests get whose engine was restarted under them.
var errDead = errors.New("engine died")

// apiError is an error with its HTTP form.
type apiError struct {
	status  int
	kind    string
	param   string
	message string
}

func (e *apiError) Error() string { return e.message }

func badRequest(message string) *apiError {
	return &apiError{status: http.StatusBadRequest, kind: "BadRequestError", message: message}
}

func badParam(param, message string) *apiError {
	e := badRequest(message)
	e.param = param
	return e
}

func notFound(message string) *apiError {
	return &apiError{status: http.StatusNotFound, kind: "NotFoundError", message: message}
}

// noRoute is what web frameworks say of a path they do not know; engines say
// notFound of a model.
func noRoute() *apiError {
	return &apiError{status: http.StatusNotFound, kind: http.StatusText(http.StatusNotFound), message: "Not Found"}
}

// errorBody is the error object; vLLM nests it under "error", SGLang and
// TensorRT-LLM do not.
type errorBody struct {
	Object  string  `json:"object,omitempty"`
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    int     `json:"code"`
}

// encode writes the error in the engine's shape.
func (e *apiError) encode(engine string) []byte {
	body := errorBody{Message: e.message, Type: e.kind, Code: e.status}
	if e.param != "" {
		body.Param = &e.param
	}
	var shape any = map[string]errorBody{"error": body}
	if engine != VLLM {
		body.Object = "error"
		shape = body
	}
	b, _ := json.Marshal(shape) // strings and ints only: cannot fail
	return b
}

// fail answers with an error.
func (s *Server) fail(w http.ResponseWriter, err error) {
	var e *apiError
	if !errors.As(err, &e) {
		e = &apiError{status: http.StatusInternalServerError, kind: "InternalServerError", message: err.Error()}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.status)
	_, _ = w.Write(e.encode(s.cfg.Engine))
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}
