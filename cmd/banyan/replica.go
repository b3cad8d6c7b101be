package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/banyan-llm/banyan/simulation/replica"
	"github.com/banyan-llm/banyan/simulation/standin"
)

// runReplica serves one mock replica until it is told to stop.
func runReplica(ctx context.Context, args []string, stdout, _ io.Writer) error {
	fs := flagSet("replica", stdout)
	var cfg standin.Config
	fs.StringVar(&cfg.Name, "name", "r0", "name; also seeds its block hashes")
	fs.StringVar(&cfg.Listen, "listen", "127.0.0.1:8000", "address of its OpenAI API")
	fs.StringVar(&cfg.Events, "events", "tcp://127.0.0.1:5557", "ZeroMQ address where it publishes KV events (PUB); empty = no events")
	fs.BoolVar(&cfg.EventsDial, "events-dial", false, "connect to the address of --events instead of listening on it")
	fs.StringVar(&cfg.Replay, "replay", "tcp://127.0.0.1:5558", "ZeroMQ address where it replays KV events (ROUTER); empty = no replay")
	fs.StringVar(&cfg.Topic, "topic", "", "ZeroMQ topic: first frame of every event batch")
	layout := fs.String("layout", "map", "event layout: map (vLLM since mid-2026, SGLang) or array (older vLLM)")
	fs.IntVar(&cfg.ReplayFrames, "replay-frames", 5, "frames of a replay message: 5 (with topic) or 4")
	fs.IntVar(&cfg.BufferSteps, "replay-steps", 0, "batches kept for replay; 0 = 10,000, as engines do")
	fs.BoolVar(&cfg.HashBytes, "hash-bytes", false, "block hashes as 32 bytes instead of integers")
	fs.StringVar(&cfg.Engine, "engine", "vllm", "behave like vllm, sglang or trtllm")
	fs.StringVar(&cfg.Model, "model", "banyan-standin", "served model name")
	loras := fs.String("loras", "", "LoRA adapters, by comma")
	fs.StringVar(&cfg.Profile, "profile", "demo", "timing profile: "+strings.Join(replica.ProfileNames(), ", "))
	fs.Float64Var(&cfg.TimeScale, "time-scale", 1, "how much faster than real time it computes")
	fs.IntVar(&cfg.Page, "block-size", 16, "tokens per KV block")
	fs.IntVar(&cfg.Blocks, "blocks", 0, "number of KV blocks; 0 = the profile's")
	fs.IntVar(&cfg.MaxSeqs, "max-num-seqs", 0, "most running requests; 0 = the profile's")
	fs.IntVar(&cfg.Rank, "rank", 0, "data-parallel rank that its events report")
	fs.IntVar(&cfg.Ranks, "ranks", 1, "data-parallel ranks, picked by X-data-parallel-rank; rank i publishes i ports above the first")
	fs.BoolVar(&cfg.HideCached, "hide-cached-tokens", false, "leave cached_tokens out of usage, like vLLM without --enable-prompt-tokens-details")
	fs.BoolVar(&cfg.DropLast, "drop-last-page", false, "report a page less as cached, like vLLM with EAGLE or MTP")
	fs.BoolVar(&cfg.HideSources, "hide-event-sources", false, "answer no /kv_event_sources, like vLLM before 0.32")
	fs.BoolVar(&cfg.NoScaleOut, "no-scale-out", false, "answer render with 403, like vLLM from 0.30 on without --enable-scale-out")
	fs.Uint64Var(&cfg.Seed, "seed", 0, "seed of noise and faults")
	if err := parse(fs, args); err != nil {
		return err
	}
	if err := noArguments(fs); err != nil {
		return err
	}
	cfg.Layout = standin.Layout(*layout)
	if *loras != "" {
		cfg.Loras = strings.Split(*loras, ",")
	}
	s, err := standin.New(cfg)
	if err != nil {
		return usageError{err}
	}
	fmt.Fprintf(stdout, "banyan replica %s http=%s events=%s replay=%s\n", cfg.Name, s.Addr(), endpointOf(s.EventsAddr()), endpointOf(s.ReplayAddr()))
	return s.Run(ctx)
}

// endpointOf writes a listener's address as an endpoint, "-" for none.
func endpointOf(address string) string {
	switch {
	case address == "":
		return "-"
	case strings.Contains(address, "://"):
		return address
	}
	return "tcp://" + address
}
