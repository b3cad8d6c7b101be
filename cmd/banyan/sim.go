package main

import (
	"context"
	"io"
)

// runSim evaluates policies in virtual time; with --faults it plays faults
// against the mesh instead.
func runSim(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if wantsFaults(args) {
		return runSimFaults(ctx, args, stdout, stderr)
	}
	return runSimEval(ctx, args, stdout, stderr)
}
