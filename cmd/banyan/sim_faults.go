package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/banyan-llm/banyan/simulation"
)

// randomSchedule is the name of the schedule drawn from the seed.
const randomSchedule = "random"

// faultPlay is `banyan sim --faults FILE`: the mesh under faults, judged.
type faultPlay struct {
	file   string
	asJSON bool
	trace  bool
	cfg    simulation.FaultConfig
}

// faultHelp has a word on each of simulation.FaultVerbs.
const faultHelp = `Faults, for a time with for=, at a time with at=:
  cut a b             no message passes between two peers, or a peer and a replica; cut a>b: from a to b
  sever a b           as cut, but for ever, if other peers link the two
  break a b           their connections end once; what was on its way is lost
  slow a 10x          delays from and to a
  stall a             a stops and does nothing
  kill a              a is gone at once; with for= it comes back empty
  drain a             a serves what it has, then leaves
  join                one more peer starts, cold
  suspect a>b         a takes b for dead
  skew a +3s          a's clock is off by this
  choke a>b           b reads slowly what a sends
  rotate              the mesh gets a new key, in three steps
  restart r0          an engine loses everything; with for= it is down that long
  clock r0 -30s       an engine's clock is set, for good
  drop-events r0 .1   share of its batches that each subscriber misses
  repeat-events r0 .1 share of its batches that come twice, late
  lose r0             an owner declares lost what is missing, asking nobody
  half r0             half of the mesh receives its events, the other half neither it nor them
  clears r0 1000      so many batches in a row that each clear its cache
  become r0 pages     it restarts as an engine with pages (or salts, same-handles, disk)
  twice r0 r1         r1 is one more URL of r0's process
  depart r0           it leaves for good
  relist r0           discovery lists it more than once`

func (f *faultPlay) register(fs *flag.FlagSet) {
	fs.StringVar(&f.file, "faults", "", "`file` of faults, one a line (at=12s for=10s cut a b), - for stdin, or random: drawn from the seed.\n"+faultHelp)
	fs.Uint64Var(&f.cfg.Seed, "seed", 1, "seed of everything")
	fs.IntVar(&f.cfg.Peers, "peers", 4, "router peers at the start, a, b, …")
	fs.IntVar(&f.cfg.Replicas, "replicas", 3, "engines, r0, r1, …")
	fs.DurationVar(&f.cfg.Duration, "duration", 20*time.Second, "virtual time with faults; then all is healed")
	fs.DurationVar(&f.cfg.Bound, "bound", 90*time.Second, "virtual time within which a healed mesh must converge")
	fs.IntVar(&f.cfg.RingBytes, "ring", 0, "bytes of recent slots a peer keeps; 0 = drawn from the seed, 1,000, 20,000 or 1 MiB")
	fs.BoolVar(&f.asJSON, "json", false, "print one JSON object")
	fs.BoolVar(&f.trace, "full-trace", false, "print the whole trace to stderr, not only its end after a failure")
}

// runSimFaults plays a schedule and exits 1 if a property does not hold.
func runSimFaults(_ context.Context, args []string, stdout, stderr io.Writer) error {
	fs := flagSet("sim", stdout)
	var f faultPlay
	f.register(fs)
	if err := parse(fs, args); err != nil {
		return err
	}
	if err := noArguments(fs); err != nil {
		return err
	}
	if err := f.read(); err != nil {
		return err
	}
	if f.trace {
		f.cfg.Trace = func(line string) { fmt.Fprintln(stderr, line) }
	}
	report, err := simulation.RunFaults(f.cfg)
	if err != nil {
		return usageError{err}
	}
	if f.asJSON {
		enc := json.NewEncoder(stdout)
		enc.SetIndent("", "  ")
		err = enc.Encode(report)
	} else {
		err = writeFaults(stdout, &report)
	}
	if err != nil {
		return err
	}
	if !report.OK() {
		f.tellEnd(stderr, &report)
		return errCheck
	}
	return nil
}

// read gets the schedule.
func (f *faultPlay) read() error {
	if f.file == randomSchedule {
		return nil
	}
	var in io.Reader = os.Stdin
	if f.file != "-" {
		file, err := os.Open(f.file)
		if err != nil {
			return usageError{err}
		}
		defer file.Close()
		in = file
	}
	faults, err := simulation.ParseFaults(in)
	if err != nil {
		return usageError{fmt.Errorf("%s: %w", f.file, err)}
	}
	f.cfg.Faults = append([]simulation.Fault{}, faults...) // empty is not random
	return nil
}

// writeFaults prints the schedule, what of it came about, and what came of it.
func writeFaults(w io.Writer, r *simulation.FaultReport) error {
	fmt.Fprintf(w, "faults\n")
	for line := range strings.Lines(r.Schedule) {
		fmt.Fprintf(w, "  %s", line)
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	row("seed", "%d", r.Seed)
	row("injected", "%s", injected(r))
	row("peers, replicas", "%d at the end, %d", r.Peers, r.Replicas)
	row("engine batches", "%d, %d lost for good, %d restarts", r.Batches, r.Lost, r.Restarts)
	row("snapshots", "%d", r.Snapshots)
	row("gossip", "%.1f MB", float64(r.GossipBytes)/1e6)
	if r.Converged {
		row("converged", "%.2f s after the faults ended", float64(r.ConvergedMs)/1000)
	} else {
		row("converged", "no")
	}
	row("trace hash", "%s", r.TraceHash)
	if err := t.Flush(); err != nil {
		return err
	}
	if err := writeProperties(w, r); err != nil {
		return err
	}
	for _, v := range r.Violations {
		fmt.Fprintf(w, "FAILED %s\n", v)
	}
	if r.OK() {
		fmt.Fprintln(w, "every property held")
	}
	return nil
}

// injected counts the faults that came about, by kind.
func injected(r *simulation.FaultReport) string {
	var out []string
	for _, verb := range simulation.FaultVerbs() {
		if n := r.Injected[verb]; n > 0 {
			out = append(out, fmt.Sprintf("%s %d", verb, n))
		}
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, ", ")
}

// writeProperties prints what was checked, how often, and whether it held.
func writeProperties(w io.Writer, r *simulation.FaultReport) error {
	says := map[string]string{}
	for _, p := range simulation.Properties() {
		says[p.Name] = p.Says
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\n#\tproperty\tchecks\theld\t\n")
	for _, h := range r.Properties {
		held := "yes"
		switch {
		case h.Violations > 0:
			held = fmt.Sprintf("%d times not", h.Violations)
		case h.Checks == 0:
			held = "-"
		}
		fmt.Fprintf(t, "%d\t%s\t%d\t%s\t%s\n", h.Number, h.Property, h.Checks, held, says[h.Property])
	}
	fmt.Fprintln(t)
	return t.Flush()
}

// tellEnd prints the end of the trace and how to see it all again.
func (f *faultPlay) tellEnd(w io.Writer, r *simulation.FaultReport) {
	if !f.trace {
		fmt.Fprintln(w, "the end of the trace:")
		for _, line := range r.Tail {
			fmt.Fprintln(w, line)
		}
	}
	fmt.Fprintf(w, "again: banyan sim --faults %s --seed %d --peers %d --replicas %d --duration %v --ring %d --full-trace\n",
		f.file, r.Seed, f.cfg.Peers, f.cfg.Replicas, f.cfg.Duration, f.cfg.RingBytes)
}
