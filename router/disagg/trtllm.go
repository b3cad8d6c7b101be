package disagg

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/banyan-llm/banyan/router/openai"
)

// trtllmContext is the body of the context leg. id names the request on both
// servers, the way a room does; 0 leaves it out, for releases before it
// existed (0.20, 1.0), which number requests themselves.
func trtllmContext(r *openai.Request, id uint64) []byte {
	leg := r.Clone()
	leg.Set("stream", []byte("false"))
	leg.Delete("stream_options")
	params := `{"request_type":"context_only"`
	if id != 0 {
		params += `,"disagg_request_id":` + strconv.FormatUint(id, 10)
	}
	leg.Set("disaggregated_params", []byte(params+"}"))
	return leg.Bytes()
}

// readTRTLLM reads the answer to it. Over is set when generation ended with
// the first token: the answer is the client's then.
func readTRTLLM(body []byte) (prefillAnswer, error) {
	w, a, err := readWire(body)
	if err != nil || len(w.Choices) == 0 {
		return a, err
	}
	a.Over = a.Finish != "" && a.Finish != "length" && a.Finish != "not_finished"
	params, prompt := filled(w.Choices[0].Disagg), filled(w.PromptIDs)
	if params == nil || prompt == nil {
		return a, nil // nothing to fetch by
	}
	o, err := openai.Parse(openai.Other, params)
	if err != nil {
		return a, errAnswer
	}
	o.Set("request_type", []byte(`"generation_only"`))
	a.Transfer, a.Prompt = o.Bytes(), prompt
	return a, nil
}

// trtllmGeneration is the body of the generation leg: the client's, with the
// prompt as the context server cut it into tokens.
func trtllmGeneration(r *openai.Request, a prefillAnswer) []byte {
	if a.Transfer == nil {
		return r.Bytes()
	}
	leg := r.Clone()
	leg.Set("disaggregated_params", a.Transfer)
	if leg.Endpoint == openai.Completions {
		leg.Set("prompt", a.Prompt)
	} else {
		leg.Set("prompt_token_ids", a.Prompt)
	}
	return leg.Bytes()
}

// trtllmWhole is the answer of a context leg as a client may read it: without
// what is for the other server only.
func trtllmWhole(body []byte) ([]byte, error) {
	o, err := openai.Parse(openai.Other, body)
	if err != nil {
		return nil, errAnswer
	}
	o.Delete("prompt_token_ids")
	var choices []json.RawMessage
	if err := json.Unmarshal(o.Get("choices"), &choices); err != nil {
		return nil, errAnswer
	}
	for i := range choices {
		c, err := openai.Parse(openai.Other, choices[i])
		if err != nil {
			return nil, errAnswer
		}
		c.Delete("disaggregated_params")
		choices[i] = c.Bytes()
	}
	raw, err := json.Marshal(choices)
	if err != nil {
		return nil, fmt.Errorf("write the context answer: %w", err)
	}
	o.Set("choices", raw)
	return o.Bytes(), nil
}
