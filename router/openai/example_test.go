package openai_test

import (
	"fmt"

	"github.com/banyan-llm/banyan/router/openai"
)

// A router strips what only routers may set and asks for usage; every other
// byte of a value stays as the client wrote it.
func ExampleRequest() {
	body := `{"model":"m","messages":[],"stream":true,"temperature":1.0,"kv_transfer_params":{}}`
	r, err := openai.Parse(openai.Chat, []byte(body))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Model, r.Stream, r.StripInternal(), r.AskUsage())
	fmt.Println(string(r.Bytes()))
	// Output:
	// m true 1 true
	// {"model":"m","messages":[],"stream":true,"temperature":1.0,"stream_options":{"include_usage":true}}
}

// A Scanner cuts events out of a stream however it arrives.
func ExampleScanner() {
	var s openai.Scanner
	for _, piece := range []string{"data: {\"choices\":[{\"te", "xt\":\"a\"}]}\n", "\ndata: [DONE]\n\n"} {
		s.Feed([]byte(piece), func(e openai.Event) {
			chunk := openai.ParseChunk(e.Data)
			fmt.Println(string(e.Data), chunk.Token, chunk.Done)
		})
	}
	// Output:
	// {"choices":[{"text":"a"}]} true false
	// [DONE] false true
}
