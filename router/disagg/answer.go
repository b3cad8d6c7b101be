package disagg

import (
	"encoding/json"

	"github.com/banyan-llm/banyan/router/openai"
)

// maxAnswerBytes bounds the answer of a prefill leg. The
// block ids of a million-token prompt take under 1 MB; streams take more.
const maxAnswerBytes = 16 << 20

// Errors of prefill legs that may be told: nothing of them came from a replica.
const (
	errLarge  = plainError("the prefill answer is too large")
	errAnswer = plainError("the prefill answer is not what its engine sends")
)

// plainError is an error in this program's own words.
type plainError string

func (e plainError) Error() string { return string(e) }

// Plain is what may be told of the error.
func (e plainError) Plain() string { return string(e) }

// prefillAnswer is what a prefill leg's answer says for the decode leg.
type prefillAnswer struct {
	Transfer []byte // raw JSON for the decode leg; nil: nothing to fetch, it computes the prompt itself
	Prompt   []byte // raw JSON: the prompt's token ids, where the decode leg needs them
	Over     bool   // generation has ended: this answer is the client's
	Finish   string
	Usage    openai.Usage
}

// wire is an answer as far as it is read.
type wire struct {
	Params  json.RawMessage `json:"kv_transfer_params"`
	Choices []struct {
		Finish *string         `json:"finish_reason"`
		Disagg json.RawMessage `json:"disaggregated_params"`
	} `json:"choices"`
	PromptIDs json.RawMessage `json:"prompt_token_ids"`
}

func readWire(body []byte) (wire, prefillAnswer, error) {
	var w wire
	if err := json.Unmarshal(body, &w); err != nil {
		return w, prefillAnswer{}, errAnswer
	}
	a := prefillAnswer{Usage: openai.ParseUsage(body)}
	if len(w.Choices) > 0 && w.Choices[0].Finish != nil {
		a.Finish = *w.Choices[0].Finish
	}
	return w, a, nil
}

// filled returns raw JSON that says something: nil for null, {} and [].
func filled(raw json.RawMessage) []byte {
	switch string(raw) {
	case "", "null", "{}", "[]":
		return nil
	}
	return raw
}
