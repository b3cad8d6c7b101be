// The official OpenAI client for Go, unchanged, against a router.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("go client ok")
}

func run(ctx context.Context) error {
	client := openai.NewClient(option.WithBaseURL(os.Getenv("BASE_URL")), option.WithAPIKey(os.Getenv("API_KEY")), option.WithMaxRetries(0))
	params := openai.ChatCompletionNewParams{
		Model: "m", MaxTokens: openai.Int(8),
		Messages: []openai.ChatCompletionMessageParamUnion{
			openai.SystemMessage(strings.Repeat("You are careful. ", 60)), openai.UserMessage("Hello."),
		},
	}
	whole, err := client.Chat.Completions.New(ctx, params)
	if err != nil {
		return fmt.Errorf("chat: %w", err)
	}
	stream := client.Chat.Completions.NewStreaming(ctx, params)
	var acc openai.ChatCompletionAccumulator
	for stream.Next() {
		if !acc.AddChunk(stream.Current()) {
			return errors.New("a chunk does not fit the others")
		}
	}
	if err := stream.Err(); err != nil {
		return fmt.Errorf("stream: %w", err)
	}
	if got, want := acc.Choices[0].Message.Content, whole.Choices[0].Message.Content; got != want || got == "" {
		return fmt.Errorf("streamed %q, whole %q", got, want)
	}
	params.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
	stream = client.Chat.Completions.NewStreaming(ctx, params)
	cached := int64(0)
	for stream.Next() {
		cached = max(cached, stream.Current().Usage.PromptTokensDetails.CachedTokens)
	}
	if cached == 0 {
		return errors.New("no cached tokens in the usage that was asked for")
	}
	params.Model = "nope"
	_, err = client.Chat.Completions.New(ctx, params)
	var apiErr *openai.Error
	if !errors.As(err, &apiErr) || apiErr.StatusCode != 404 || apiErr.Message == "" {
		return fmt.Errorf("an unknown model gives %w", err)
	}
	return nil
}
