package disagg

import "github.com/banyan-llm/banyan/router/openai"

// remoteDecode asks vLLM to keep the prompt's blocks for another engine.
const remoteDecode = `{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,` +
	`"remote_block_ids":null,"remote_host":null,"remote_port":null}`

// NIXLPrefill is the body of the first leg.
func NIXLPrefill(r *openai.Request) []byte {
	leg := one(r)
	leg.Set("kv_transfer_params", []byte(remoteDecode))
	return leg.Bytes()
}

// ReadNIXL reads the answer to it. Prompts shorter than a block, and answers
// that ended with their first token, have nothing to fetch.
func ReadNIXL(body []byte) (Answer, error) {
	w, a, err := readWire(body)
	if err == nil {
		a.Transfer = filled(w.Params)
	}
	return a, err
}

// NIXLDecode is the body of the second leg: the client's, and where the blocks
// lie (I2). vLLM holds them for a lease of about 30 s from the first answer,
// so it must go out at once.
func NIXLDecode(r *openai.Request, a Answer) []byte {
	if a.Transfer == nil {
		return r.Bytes()
	}
	leg := r.Clone()
	leg.Set("kv_transfer_params", a.Transfer)
	return leg.Bytes()
}
