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
	"time"
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
	more string // what only the command's own help says
	run  func(ctx context.Context, args []string, stdout, stderr io.Writer) error
}

// errCheck says that a check did not hold; it was already reported.
var errCheck = errors.New("check failed")

const drainHelp = "\n\nREPLICA is a name in `banyan status`, not a URL. The replica keeps its requests in flight. A drain survives restarts of single" +
	"\npeers: the others know it. It is forgotten if all peers stop at one time, and when the replica has left the list for ten minutes."

func commands() []command {
	return []command{
		{"serve", "--config banyan.yaml [flags]", "run one router peer", "", serve},
		{"validate", "FILE [flags]", "check a configuration and its files without starting a peer; takes every setting of `banyan serve --help` as a flag", "", validate},
		{"demo", "[--peers 3 --replicas 4 --requests 2000 --json]", "start peers and mock replicas on loopback, send traffic, check the results", "", runDemo},
		{"replica", "[--listen ADDR --events ENDPOINT …]", "run a mock replica: an inference server for tests that runs no model", "", runReplica},
		{"sim", "[--workload NAME | --trace FILE] [--policy P|all] …", "simulate routing policies on a workload, for developers of policies", "", runSim},
		{"load", "--url URL [--workload NAME] [--rate R] …", "load-test an OpenAI endpoint; print time to first token, time per output token and cached tokens", "", runLoad},
		{"status", "[--peer ADDR] [--json] [--check] [--wait 60s] [--watch] …", "show peers, replicas, load and what is wrong", "", runStatus},
		{"why", "[--peer ADDR] [--json] [ID]", "show what happened to a request and why its replica was chosen; without ID, list the last failed, slow or retried requests", "", runWhy},
		{"drain", "[--peer ADDR] [--wait 60s] [--force] REPLICA", "send no new requests to a replica, from any peer, until `banyan undrain REPLICA`", drainHelp, func(ctx context.Context, args []string, stdout, _ io.Writer) error {
			return setIntent(ctx, "drain", args, stdout)
		}},
		{"undrain", "[--peer ADDR] REPLICA", "send requests to a drained replica again, from all peers", "", func(ctx context.Context, args []string, stdout, _ io.Writer) error {
			return setIntent(ctx, "undrain", args, stdout)
		}},
		{"keygen", "[--mesh-certs DIR | --client NAME | --admin NAME]", "make a gossip key, mesh certificates, or a client's or operator's API key", "", keygen},
		{"completion", "bash|zsh|fish", "print a completion script for the shell: source <(banyan completion bash)", "", completion},
		{"version", "", "print the version", "", func(_ context.Context, args []string, stdout, _ io.Writer) error {
			fs := flagSet("version", stdout)
			if err := errors.Join(parse(fs, args), noArguments(fs)); err != nil {
				return err
			}
			fmt.Fprintln(stdout, "banyan", version)
			return nil
		}},
	}
}

func main() {
	os.Exit(run(untilSignal(os.Stderr), os.Args[1:], os.Stdout, os.Stderr))
}

// untilSignal is a context that ends at the first signal to stop. A second one
// ends the process at once, as it would have without this, with a word.
func untilSignal(stderr io.Writer) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		again := <-signals
		fmt.Fprintf(stderr, "banyan: ended by a second signal (%v): requests that still ran are cut\n", again)
		signal.Reset()
		if p, err := os.FindProcess(os.Getpid()); err == nil && p.Signal(again) == nil {
			time.Sleep(time.Second) // it is on its way
		}
		os.Exit(exitFailed)
	}()
	return ctx
}

// run dispatches to a subcommand and turns its error into an exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 1 && args[0] == "help" {
		args = []string{args[1], "--help"}
	}
	if len(args) > 0 && args[0] == "--version" {
		args = []string{"version"}
	}
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
			what := "wrong arguments:"
			switch c.name {
			case "serve":
				what = "not started, because of:"
			case "validate":
				if what = "1 error:"; strings.Contains(bad.Error(), "\n") {
					what = fmt.Sprintf("%d errors:", 1+strings.Count(bad.Error(), "\n"))
				}
			}
			fmt.Fprintf(stderr, "banyan %s: %s\n", c.name, what)
			for line := range strings.SplitSeq(bad.Error(), "\n") {
				fmt.Fprintf(stderr, "  %s\n", line)
			}
			return exitUsage
		}
		fmt.Fprintf(stderr, "banyan %s: %v\n", c.name, err)
		return exitFailed
	}
	names := map[string]bool{}
	for _, c := range commands() {
		names[c.name] = true
	}
	fmt.Fprintf(stderr, "banyan: no command %q%s\n\n", args[0], nearest(args[0], names, 1))
	usage(stderr)
	return exitUsage
}

func usage(w io.Writer) {
	fmt.Fprintln(w, "banyan: a router mesh for LLM inference")
	fmt.Fprintln(w, "peer = one `banyan serve` process; replica = one inference server (vLLM, SGLang, TensorRT-LLM)")
	fmt.Fprintln(w)
	for _, c := range commands() {
		fmt.Fprintf(w, "  banyan %-10s %-58s %s\n", c.name, c.args, c.help)
	}
	fmt.Fprintln(w, "\nbanyan COMMAND --help shows its flags.")
	fmt.Fprintln(w, "\nexit codes: 0 success; 1 the command or the check failed; 2 wrong flags or configuration.")
}

// flagSet makes a subcommand's flags, whose faults are usage errors. Its help,
// if it is asked for, is what the command prints.
func flagSet(name string, stdout io.Writer) *flag.FlagSet {
	fs := flag.NewFlagSet("banyan "+name, flag.ContinueOnError)
	fs.Usage = func() {
		for _, c := range commands() {
			if c.name == name {
				fmt.Fprintf(stdout, "usage: banyan %s\n\n%s\n\n", strings.TrimSpace(c.name+" "+c.args), c.help+c.more)
			}
		}
		var flags strings.Builder
		fs.SetOutput(&flags)
		fs.PrintDefaults()
		fmt.Fprint(stdout, strings.TrimPrefix(strings.ReplaceAll("\n"+flags.String(), "\n  -", "\n  --"), "\n"))
	}
	return fs
}

// parse reads a command line. Its faults are one usage error, told once by run;
// the whole help is for those who ask.
func parse(fs *flag.FlagSet, args []string) error {
	help := fs.Usage
	fs.Usage = func() {}
	fs.SetOutput(io.Discard)
	defer func() { fs.Usage = help }()
	var faults []error
	for {
		err := fs.Parse(args)
		switch {
		case errors.Is(err, flag.ErrHelp):
			help()
			return err
		case err == nil && faults == nil:
			return nil
		case err == nil:
			return usageError{errors.Join(append(faults, fmt.Errorf("see %s --help", fs.Name()))...)}
		}
		faults = append(faults, errors.New(twoDashes.Replace(err.Error())+meantFlag(fs, err)))
		args = behindFault(fs, args)
	}
}

// meantFlag suggests a flag in place of one that does not exist: the one setting
// that it is the last word of, else the one that begins like half of it.
func meantFlag(fs *flag.FlagSet, err error) string {
	_, name, unknown := strings.Cut(err.Error(), "provided but not defined: -")
	if !unknown {
		return ""
	}
	known, settings := map[string]bool{}, []string{}
	fs.VisitAll(func(f *flag.Flag) {
		known["--"+f.Name] = true
		if strings.HasSuffix(f.Name, "."+name) {
			settings = append(settings, f.Name)
		}
	})
	if len(settings) == 1 {
		return ", did you mean --" + settings[0] + "?"
	}
	return nearest("--"+name, known, len("--")+(len(name)-1)/2)
}

// twoDashes makes the flag package write flags as people are told to.
var twoDashes = strings.NewReplacer("flag provided but not defined: -", "no such flag: --", "flag -", "flag --", "argument: -", "argument: --")

// behindFault is what of args is left to read after a fault, so that all are
// told at once: behind the flag, and the value of one that does not exist.
func behindFault(fs *flag.FlagSet, args []string) []string {
	rest := fs.Args()
	if len(rest) == len(args) { // no flag at all, as ---x
		return rest[1:]
	}
	name, _, valued := strings.Cut(strings.TrimLeft(args[len(args)-len(rest)-1], "-"), "=")
	if fs.Lookup(name) == nil && !valued && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return rest[1:]
	}
	return rest
}

// noArguments refuses words that are no flag.
func noArguments(fs *flag.FlagSet) error {
	switch {
	case fs.NArg() == 0:
		return nil
	case fs.Lookup("peer") != nil && strings.Contains(fs.Arg(0), ":"):
		return usageError{fmt.Errorf("unexpected argument %q: did you mean --peer %s?", fs.Arg(0), fs.Arg(0))}
	}
	return usageError{fmt.Errorf("unexpected argument %q: every setting is a flag, see %s --help", fs.Arg(0), fs.Name())}
}
