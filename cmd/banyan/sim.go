package main

import (
	"context"
	"io"
)

// runSim evaluates policies in virtual time.
func runSim(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	return runSimEval(ctx, args, stdout, stderr)
}
