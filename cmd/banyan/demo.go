package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/banyan-llm/banyan/simulation/demo"
)

// runDemo plays the whole product on loopback with this very binary.
func runDemo(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	fs := flagSet("demo", stdout)
	cfg := demo.Config{Progress: stdout}
	fs.IntVar(&cfg.Peers, "peers", 3, "number of router peers")
	fs.IntVar(&cfg.Replicas, "replicas", 4, "number of mock replicas")
	fs.IntVar(&cfg.Requests, "requests", 2000, "number of requests in total, over all policies")
	fs.Uint64Var(&cfg.Seed, "seed", 1, "seed of the traffic")
	fs.StringVar(&cfg.KeepLogs, "logs", "", "folder to keep the processes' logs in")
	asJSON := fs.Bool("json", false, "print one JSON object")
	if err := parse(fs, args); err != nil {
		return err
	}
	if err := noArguments(fs); err != nil {
		return err
	}
	if err := cfg.Validate(); err != nil {
		return usageError{err}
	}
	if *asJSON {
		cfg.Progress = stderr
	}
	var err error
	if cfg.Binary, err = os.Executable(); err != nil {
		return fmt.Errorf("find our own binary: %w", err)
	}
	report, err := demo.Run(ctx, cfg)
	if err != nil && ctx.Err() != nil {
		fmt.Fprintln(stderr, "stopped; nothing was judged")
		return errCheck
	}
	if err != nil {
		return err
	}
	if *asJSON {
		enc := json.NewEncoder(stdout)
		enc.SetIndent("", "  ")
		if err := enc.Encode(report); err != nil {
			return err
		}
	} else {
		report.Write(stdout)
	}
	if !report.OK() {
		return errCheck
	}
	return nil
}
