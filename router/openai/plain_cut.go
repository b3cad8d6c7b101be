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
	keep, err := strconv.Atoi(laxScalar(o.get("truncate_prompt_tokens")))
	if err != nil || keep < -1 || keep == 0 {
		return nil, "its truncate_prompt_tokens is no count"
	}
	cut = &Cut{Keep: keep}
	switch side := o.get("truncation_side"); {
	case string(orNull(side)) == `"right"`:
		cut.First = true
	case string(orNull(side)) == `"left"`:
	case side != nil && !isNull(side):
		return nil, "its truncation_side is not known"
	default:
		cut.First = endpoint.pools()
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
