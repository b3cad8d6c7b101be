package disagg

import "github.com/banyan-llm/banyan/router/openai"

// remoteDecode asks vLLM to keep the prompt's blocks for another engine.
const remoteDecode = `{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,` +
	`"remote_block_ids":null,"remote_host":null,"remote_port":null}`

// nixlPrefill is the body of the first leg.
func nixlPrefill(r *openai.Request) []byte {
	leg := one(r)
	leg.Set("kv_transfer_params", []byte(remoteDecode))
	return leg.Bytes()
}

// readNIXL reads the answer to it. Prompts shorter than a block, and answers
// that ended with their first token, have nothing to fetch.
func readNIXL(body []byte) (prefillAnswer, error) {
	w, a, err := readWire(body)
	if err == nil {
		a.Transfer = filled(w.Params)
	}
	return a, err
}

// nixlDecode is the body of the second leg: the client's, and where the blocks
// lie (I2). vLLM holds them for a lease of about 30 s from the first answer,
// so it must go out at once.
func nixlDecode(r *openai.Request, a prefillAnswer) []byte {
	if a.Transfer == nil {
		return r.Bytes()
	}
	leg := r.Clone()
	leg.Set("kv_transfer_params", a.Transfer)
	return leg.Bytes()
}

// one makes a request compute its prompt and one token, unstreamed.
func one(r *openai.Request) *openai.Request {
	leg := r.Clone()
	leg.Set("stream", []byte("false"))
	leg.Delete("stream_options")
	leg.Set("max_tokens", []byte("1"))
	if leg.Get("max_completion_tokens") != nil {
		leg.Set("max_completion_tokens", []byte("1"))
	}
	leg.Delete("min_tokens")
	leg.Delete("min_completion_tokens")
	return leg
}
