// Command banyan is one router peer, the tools around it, and a stand-in
// replica to try it with.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// version is set by the build.
var version = "dev"

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // a check failed or the run did
	exitUsage  = 2 // bad usage or configuration
)

// command is one subcommand.
type command struct {
	name string
	args string
	help string
	run  func(ctx context.Context, args []string, stdout, stderr io.Writer) error
}

// errCheck says that a check did not hold; it was already reported.
var errCheck = errors.New("check failed")

func commands() []command {
	return []command{
		{"serve", "--config banyan.yaml [flags]", "one router peer", serve},
		{"demo", "[--peers 3 --replicas 4 --requests 2000 --json]", "the whole product on loopback, judged", runDemo},
		{"replica", "[--listen ADDR --events ENDPOINT …]", "a stand-in inference replica", runReplica},
		{"sim", "[--workload NAME | --trace FILE] [--policy P|all] …", "policies on a workload, in virtual time", runSim},
		{"load", "--url URL [--workload NAME] [--rate R] …", "drive any OpenAI endpoint: TTFT, TPOT, cached tokens", runLoad},
		{"status", "[--peer ADDR] [--json] [--check] [--wait 60s] [--watch]", "peers, replicas, convergence, load", runStatus},
		{"drain", "REPLICA", "send no new requests to a replica, mesh-wide", func(ctx context.Context, args []string, stdout, stderr io.Writer) error {
			return setIntent(ctx, "drain", args, stdout, stderr)
		}},
		{"undrain", "REPLICA", "send requests to a drained replica again, mesh-wide", func(ctx context.Context, args []string, stdout, stderr io.Writer) error {
			return setIntent(ctx, "undrain", args, stdout, stderr)
		}},
		{"keygen", "[--mesh-certs DIR | --client NAME | --admin NAME]", "a gossip key; mesh certificates; a client's or operator's key", keygen},
		{"version", "", "the version", func(_ context.Context, _ []string, out, _ io.Writer) error {
			fmt.Fprintln(out, "banyan", version)
			return nil
		}},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run dispatches to a subcommand and turns its error into an exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 || args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		usage(stdout)
		if len(args) == 0 {
			return exitUsage
		}
		return exitOK
	}
	for _, c := range commands() {
		if c.name != args[0] {
			continue
		}
		err := c.run(ctx, args[1:], stdout, stderr)
		var bad usageError
		switch {
		case err == nil, errors.Is(err, flag.ErrHelp):
			return exitOK
		case errors.Is(err, errCheck):
			return exitFailed
		case errors.As(err, &bad):
			fmt.Fprintf(stderr, "banyan %s: not started, because of:\n", c.name)
			for line := range strings.SplitSeq(bad.Error(), "\n") {
				fmt.Fprintf(stderr, "  %s\n", line)
			}
			return exitUsage
		}
		fmt.Fprintf(stderr, "banyan %s: %v\n", c.name, err)
		return exitFailed
	}
	fmt.Fprintf(stderr, "banyan: no command %q\n\n", args[0])
	usage(stderr)
	return exitUsage
}

func usage(w io.Writer) {
	fmt.Fprintln(w, "banyan: a router mesh for LLM inference")
	fmt.Fprintln(w)
	for _, c := range commands() {
		fmt.Fprintf(w, "  banyan %-8s %-58s %s\n", c.name, c.args, c.help)
	}
	fmt.Fprintln(w, "\nbanyan COMMAND --help tells more.")
}

// flagSet makes a subcommand's flags, whose faults are usage errors.
func flagSet(name string, stderr io.Writer) *flag.FlagSet {
	fs := flag.NewFlagSet("banyan "+name, flag.ContinueOnError)
	fs.Usage = func() {
		for _, c := range commands() {
			if c.name == name {
				fmt.Fprintf(stderr, "usage: banyan %s %s\n\n%s\n\n", c.name, c.args, c.help)
			}
		}
		var flags strings.Builder
		fs.SetOutput(&flags)
		fs.PrintDefaults()
		fmt.Fprint(stderr, strings.TrimPrefix(strings.ReplaceAll("\n"+flags.String(), "\n  -", "\n  --"), "\n"))
	}
	return fs
}

// parse reads a command line. A fault is a usage error, told once by run; the
// whole help is for those who ask.
func parse(fs *flag.FlagSet, args []string) error {
	help := fs.Usage
	fs.Usage = func() {}
	fs.SetOutput(io.Discard)
	err := fs.Parse(args)
	fs.Usage = help
	switch {
	case errors.Is(err, flag.ErrHelp):
		help()
		return err
	case err != nil:
		return usageError{fmt.Errorf("%w: see %s --help", err, fs.Name())}
	}
	return nil
}

// noArguments refuses words that are no flag.
func noArguments(fs *flag.FlagSet) error {
	if fs.NArg() > 0 {
		return usageError{fmt.Errorf("unexpected argument %q: every setting is a flag, see %s --help", fs.Arg(0), fs.Name())}
	}
	return nil
}
