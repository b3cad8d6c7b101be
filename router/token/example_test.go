package token_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/banyan-llm/banyan/radix"
	"github.com/banyan-llm/banyan/router/token"
)

// Token ids are exact; text is keyed by chunks of 512 bytes where no engine
// can be asked.
func ExampleTokenizer() {
	tokenizer, err := token.New(token.Config{Hasher: radix.NewHasher([]byte("secret")), Grid: 16, Mode: "auto"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer tokenizer.Close()
	ctx := context.Background()
	ids := tokenizer.Keys(ctx, &token.Query{Model: "m", Tokens: make([]uint32, 100)})
	fmt.Println(ids.Scheme, ids.Reason, len(ids.Keys), ids.Grid, ids.Tokens)
	text := tokenizer.Keys(ctx, &token.Query{
		Model: "m",
		Text:  func(dst []byte) []byte { return append(dst, strings.Repeat("word ", 300)...) },
		Body:  func() []byte { return []byte(`{"prompt":"..."}`) },
	})
	fmt.Println(text.Scheme, text.Reason, len(text.Keys), text.Grid, text.Tokens)
	// Output:
	// ids given 6 16 100
	// text no_engine 2 128 375
}
