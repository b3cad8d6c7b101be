package main

import (
	"context"
	"io"
	"strings"
)

// runSim evaluates policies in virtual time: with a model of the routers'
// view, or with --mesh (or --faults beside a workload) in a whole mesh. With
// --faults alone it plays them against replication, checked after every batch.
func runSim(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	switch {
	case wantsMesh(args):
		return runSimMesh(ctx, args, stdout, stderr)
	case names(args, "faults"):
		return runSimFaults(ctx, args, stdout, stderr)
	}
	return runSimEval(ctx, args, stdout, stderr)
}

// names reports whether a command line gives a flag.
func names(args []string, flag string) bool {
	for _, a := range args {
		name, _, _ := strings.Cut(strings.TrimLeft(a, "-"), "=")
		if strings.HasPrefix(a, "-") && name == flag {
			return true
		}
	}
	return false
}
