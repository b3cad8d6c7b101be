package openai

import "strconv"

// cutOf says how vLLM shortens a prompt (0.32.0, renderers/params.py). With a
// truncation_side it cuts all tokens alike. Without one its tokenizer cuts from
// the left, of embeddings and classes from the right, and puts the special
// tokens around what is left.
func cutOf(o *object, endpoint Endpoint, engine string, ask []byte) (cut *Cut, why string) {
	if !o.given("truncate_prompt_tokens") {
		return nil, ""
	}
	if engine != "vllm" && engine != "" {
		if o.get("messages") != nil {
			return nil, "" // SGLang's chats do not know it; TensorRT-LLM's were refused
		}
		return nil, "it has the field truncate_prompt_tokens"
	}
	cut, sided, why := readCut(o, endpoint)
	if why != "" {
		return nil, why
	}
	if !sided {
		bare, err := parseObject(ask, 0)
		if err != nil {
			return nil, "it is no object"
		}
		special := bare.get("add_special_tokens")
		chat := bare.get("messages") != nil // which has them in its template
		if special != nil && laxBool(special) || special == nil && !chat {
			bare.set("add_special_tokens", []byte("false"))
			cut.Bare = bare.bytes()
		}
	}
	return cut, ""
}

// readCut reads the fields; sided says that the client told the side.
func readCut(o *object, endpoint Endpoint) (cut *Cut, sided bool, why string) {
	keep, err := strconv.Atoi(laxScalar(o.get("truncate_prompt_tokens")))
	if err != nil || keep < -1 || keep == 0 {
		return nil, false, "its truncate_prompt_tokens is no count"
	}
	cut = &Cut{Keep: keep}
	switch side := o.get("truncation_side"); {
	case side == nil || isNull(side):
		cut.First = endpoint.pools()
		return cut, false, ""
	case string(side) == `"right"`:
		cut.First = true
	case string(side) != `"left"`:
		return nil, false, "its truncation_side is not known"
	}
	return cut, true, ""
}

// KeptTokens is what vLLM leaves of a prompt of token ids: it puts no special
// tokens around them. What it refuses, and prompts that are to be cut to the
// model's length, of which few are longer, stay as they are.
func (r *Request) KeptTokens() []uint32 {
	tokens := r.Prompt.Tokens
	if !r.body.given("truncate_prompt_tokens") {
		return tokens
	}
	cut, _, why := readCut(&r.body, r.Endpoint)
	switch {
	case why != "" || cut.Keep < 0 || cut.Keep >= len(tokens):
		return tokens
	case cut.First:
		return tokens[:cut.Keep]
	}
	return tokens[len(tokens)-cut.Keep:]
}
