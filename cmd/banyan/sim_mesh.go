package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/banyan-llm/banyan/simulation"
)

// meshPlay is `banyan sim --mesh`, and --faults beside a workload: requests
// through a whole mesh of real peers in virtual time.
type meshPlay struct {
	evaluation
	faults faultPlay
}

// wantsMesh reports whether a command line of sim sends a workload through a
// mesh: it says so, or names faults and what they are to disturb.
func wantsMesh(args []string) bool {
	return names(args, "mesh") || names(args, "faults") && (names(args, "workload") || names(args, "trace"))
}

func (m *meshPlay) register(fs *flag.FlagSet) {
	m.evaluation.register(fs)
	fs.StringVar(&m.faults.file, "faults", "", "`file` of faults, one a line (at=12s for=10s cut a b), - for stdin, or random: drawn from the seed.\nFaults: "+strings.Join(simulation.FaultVerbs(), ", "))
	fs.DurationVar(&m.faults.cfg.Bound, "bound", 90*time.Second, "virtual time within which a healed mesh must converge")
}

// runSimMesh plays a workload in a mesh and exits 1 if a property does not
// hold or a request fails that no fault cut in mid-answer.
func runSimMesh(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	fs := flagSet("sim", stdout)
	var m meshPlay
	m.register(fs)
	if err := parse(fs, args); err != nil {
		return err
	}
	m.source.replicas = m.cfg.Replicas
	if err := m.prepare(fs); err != nil {
		return err
	}
	reports, err := m.play(ctx, stderr)
	if err != nil {
		return err
	}
	if err := m.tell(reports, stdout); err != nil {
		return err
	}
	if slices.ContainsFunc(reports, func(r simulation.MeshReport) bool { return !r.OK() }) {
		return errCheck
	}
	return nil
}

// prepare completes both configurations.
func (m *meshPlay) prepare(fs *flag.FlagSet) error {
	if err := noArguments(fs); err != nil {
		return err
	}
	if m.matrix {
		return usageError{fmt.Errorf("--matrix and --mesh or --faults are two things: give one")}
	}
	if err := m.check(); err != nil {
		return usageError{err}
	}
	m.faults.cfg.Faults = []simulation.Fault{}
	if m.faults.file != "" {
		m.faults.cfg.Faults = nil // random, if read does not say otherwise
		return m.faults.read()
	}
	return nil
}

// play runs one policy after the other.
func (m *meshPlay) play(ctx context.Context, stderr io.Writer) ([]simulation.MeshReport, error) {
	var reports []simulation.MeshReport
	tick := newTicker(stderr)
	defer tick.done()
	chosen := slices.DeleteFunc(m.names(), func(name string) bool { return name == simulation.Pooled && m.policies == "all" })
	for i, name := range chosen {
		cfg := m.cfg
		cfg.Policy = name
		cfg.Progress = func(done, all int) bool {
			tick.tick("%s: policy %d of %d, %s: %d of %d requests", cfg.Workload.Name, i+1, len(chosen), name, done, all)
			return ctx.Err() == nil
		}
		rep, err := simulation.EvaluateMesh(cfg, m.faults.cfg)
		if err != nil {
			return nil, usageError{err}
		}
		reports = append(reports, rep)
		if m.cfg.Load > 0 {
			m.cfg.Load, m.cfg.Speedup = 0, rep.Speedup
		}
	}
	return reports, nil
}

// tell prints and, if asked to, files the reports.
func (m *meshPlay) tell(reports []simulation.MeshReport, stdout io.Writer) error {
	var table strings.Builder
	m.write(&table, reports)
	return tellReports(&m.evaluation, reports, table.String(), stdout)
}

// write prints the schedule and a line a policy.
func (m *meshPlay) write(w io.Writer, reports []simulation.MeshReport) {
	r := &reports[0]
	fmt.Fprintf(w, "%s: %d requests, %d replicas, %d router peers at the start, seed %d; no cache finds more than %.1f %%\n",
		r.Trace, r.Requests, r.Replicas, r.Peers, r.Seed, 100*r.IdealHitRatio)
	if r.Told != "" {
		fmt.Fprintf(w, "%s\n", r.Told)
	}
	fmt.Fprintf(w, "every peer runs the real code; frames take %.0f ms one way\n", 1000*max(m.cfg.DispatchDelay, 0.001))
	if r.Mesh.Schedule != "" {
		fmt.Fprintf(w, "\nfaults\n")
		for line := range strings.Lines(r.Mesh.Schedule) {
			fmt.Fprintf(w, "  %s", line)
		}
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "POLICY\tCACHED\tTTFT MEAN\tP50\tP99\tLOAD CV\tCUT\tFAILED\tRETRIED\tGOSSIP\tEQUAL AFTER\t")
	for _, r := range reports {
		equal := fmt.Sprintf("%.2f s", float64(r.Mesh.ConvergedMs)/1000)
		if !r.Mesh.Converged {
			equal = "never"
		}
		fmt.Fprintf(t, "%s\t%.1f %%\t%s\t%s\t%s\t%.2f\t%d\t%d\t%d\t%.1f MB\t%s\t\n", r.Policy, 100*r.HitRatio, span(r.TTFT.Mean), span(r.TTFT.P50),
			span(r.TTFT.P99), r.LoadCV, r.InFlightLost, r.Failed-r.InFlightLost, r.Retried, float64(r.GossipBytes)/1e6, equal)
	}
	_ = t.Flush()
	fmt.Fprintf(w, "\nCUT answers ended with their peer or replica in mid-stream; FAILED is all other failures, which must be\nnone; EQUAL AFTER counts from the last answer, when all faults are over.\n")
	for _, r := range reports {
		for _, v := range r.Mesh.Violations {
			fmt.Fprintf(w, "FAILED %s: %s\n", r.Policy, v)
		}
	}
	if !slices.ContainsFunc(reports, func(r simulation.MeshReport) bool { return !r.OK() }) {
		fmt.Fprintln(w, "every property held")
	}
}
