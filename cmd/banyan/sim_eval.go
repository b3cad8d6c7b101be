package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/simulation"
	"github.com/banyan-llm/banyan/simulation/replica"
	"github.com/banyan-llm/banyan/simulation/workload"
)

// evaluation is `banyan sim` without faults: a workload under some policies.
type evaluation struct {
	source   source
	policies string
	rate     float64
	profile  string
	delays   struct{ load, dispatch, index time.Duration }
	cfg      simulation.Config
	asJSON   bool
	out      string
	matrix   bool
	ablation bool
	cells    bool
	agents   bool
	mesh     bool // read by wantsMesh
	share    float64
	seeds    int
	traces   string
}

func (e *evaluation) register(fs *flag.FlagSet) {
	e.source.register(fs, "multi_turn")
	fs.StringVar(&e.policies, "policy", policy.Default, "by comma, or all: "+strings.Join(policy.Names(), ", ")+", "+simulation.Pooled+" and "+simulation.PooledCaches+" (the references)")
	fs.IntVar(&e.cfg.Replicas, "replicas", 0, "inference replicas, at most 64; 0 = the workload's, else 16")
	fs.IntVar(&e.cfg.Peers, "peers", 1, "router peers")
	fs.DurationVar(&e.delays.load, "load-delay", 10*time.Millisecond, "age of first tokens and finishes at the other peers")
	fs.DurationVar(&e.delays.dispatch, "dispatch-delay", time.Millisecond, "age of dispatches at the other peers; at most load-delay")
	fs.DurationVar(&e.delays.index, "index-delay", 50*time.Millisecond, "age of the engines' events at every peer")
	fs.Float64Var(&e.rate, "rate", 0, "requests a second; 0 = as recorded")
	fs.Float64Var(&e.cfg.Load, "load", 0, "instead of --rate: share of the rate that the pooled reference can serve")
	fs.StringVar(&e.profile, "profile", "", "timing of a replica: "+strings.Join(replica.ProfileNames(), ", ")+"; default: the workload's, else q32")
	fs.IntVar(&e.cfg.KVTokens, "kv-tokens", 0, "KV cache of a replica, in tokens; 0 = the profile's")
	fs.IntVar(&e.cfg.Page, "page", 0, "tokens per KV page; 0 = a block of the trace, else 16")
	fs.BoolVar(&e.cfg.Prefill, "prefill", false, "a prefill pool: every answer is one token")
	fs.BoolVar(&e.asJSON, "json", false, "print one JSON object: a report, or {runs: [...]} for several policies")
	fs.StringVar(&e.out, "out", "", "also write sim.json and sim.txt into this `folder`; with --matrix where all goes, default out")
	fs.BoolVar(&e.matrix, "matrix", false, "run the evaluation matrix: many workloads, policies and delays; writes a page with plots. Heeds only --trace, --traces, --seed, --seeds, --share, --json and --out")
	fs.BoolVar(&e.mesh, "mesh", false, "play the workload in a whole mesh of real peers instead of a model of their views; --faults FILE beside it, or\nbeside --workload or --trace, disturbs it. Links take --dispatch-delay; the other delays are what the code makes them")
	fs.Float64Var(&e.share, "share", 1, "with --matrix, --cells, --ablation or --agents: share of the requests of each workload, for a rougher but quicker look")
	fs.BoolVar(&e.cells, "cells", false, "run what must reproduce and print it as one table: cell, expected, ours, tolerance, holds; heeds what --ablation does.\nExits 1 if a cell does not hold")
	fs.BoolVar(&e.agents, "agents", false, "run coding agents and bursts against every rival and print the tables, published figures beside ours; with --trace the\nsessions of a file (agentx-harness, dataset.jsonl). Heeds --trace, --requests, --seed, --seeds, --share and --out (tables and plots)")
	fs.BoolVar(&e.ablation, "ablation", false, "take the default policy apart, term by term; heeds what --matrix does but --trace and --out")
	fs.IntVar(&e.seeds, "seeds", 3, "with --matrix, --cells, --ablation or --agents: runs of everything, each from the next seed")
	fs.StringVar(&e.traces, "traces", "", "with --matrix, --cells or --ablation: `folder` with recorded traces by their published names (mooncake_conversation.jsonl, ...)")
}

// config turns flags into a configuration without a policy.
func (e *evaluation) config() error {
	w, err := e.source.read()
	faults := []error{err}
	if w == nil { // what is wrong beside it is told as well
		w = &workload.Workload{Requests: make([]workload.Request, 1)}
	}
	e.cfg.Workload, e.cfg.From, e.cfg.Seed = w, w.Warm, e.source.seed
	e.cfg.LoadDelay = e.delays.load.Seconds()
	e.cfg.DispatchDelay = min(e.delays.dispatch, e.delays.load).Seconds()
	e.cfg.IndexDelay = e.delays.index.Seconds()
	if e.profile != "" {
		p, err := replica.ProfileByName(e.profile)
		if err != nil {
			faults = append(faults, fmt.Errorf("profile: %w", err))
		} else {
			e.cfg.Profile = &p
		}
	}
	if e.rate != 0 {
		own := w.Rate()
		switch {
		case !(e.rate > 0) || math.IsInf(e.rate, 0):
			faults = append(faults, fmt.Errorf("rate: %v is out of range", e.rate))
		case err == nil && (math.IsInf(own, 0) || math.IsNaN(own)):
			faults = append(faults, fmt.Errorf("rate: all requests of %s arrive at once", w.Name))
		case e.cfg.Load != 0:
			faults = append(faults, errors.New("rate: give either --rate or --load"))
		}
		if e.cfg.Speedup = e.rate / own; err != nil {
			e.cfg.Speedup = 1
		}
	}
	if err := errors.Join(faults...); err != nil {
		return usageError{err}
	}
	return nil
}

// check reports every fault of the configuration and of each policy, once.
func (e *evaluation) check() error {
	var faults []error
	told := map[string]bool{}
	note := func(err error) {
		if err == nil {
			return
		}
		for line := range strings.SplitSeq(err.Error(), "\n") {
			if !told[line] {
				told[line] = true
				faults = append(faults, errors.New(line))
			}
		}
	}
	note(e.config())
	for _, name := range e.names() {
		cfg := e.cfg
		cfg.Policy = name
		note(cfg.Validate())
	}
	return errors.Join(faults...)
}

// checkMany reports every fault of what runs of many workloads heed.
func (e *evaluation) checkMany() error {
	var faults []error
	if !(e.share > 0 && e.share <= 1) {
		faults = append(faults, fmt.Errorf("share: %v is not above 0 and at most 1", e.share))
	}
	if e.seeds < 1 {
		faults = append(faults, fmt.Errorf("seeds: %d is not at least 1", e.seeds))
	}
	return errors.Join(faults...)
}

// names lists the chosen policies.
func (e *evaluation) names() []string {
	if e.policies == "all" {
		return append(policy.Names(), simulation.Pooled)
	}
	return strings.Split(e.policies, ",")
}

// runSimEval evaluates policies on one workload.
func runSimEval(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	fs := flagSet("sim", stdout)
	fs.String("faults", "", "`file` of faults for a mesh, alone or beside a workload: see banyan sim --faults FILE --help") // read by runSim
	var e evaluation
	e.register(fs)
	if err := parse(fs, args); err != nil {
		return err
	}
	if e.matrix || e.ablation || e.cells || e.agents {
		if err := errors.Join(noArguments(fs), e.checkMany()); err != nil {
			return usageError{err}
		}
		switch {
		case e.ablation:
			return e.runAblation(ctx, stdout, stderr)
		case e.cells:
			return e.runCells(ctx, stdout, stderr)
		case e.agents:
			return e.runAgents(ctx, stdout, stderr)
		}
		return e.runMatrix(ctx, stdout, stderr)
	}
	e.source.replicas = e.cfg.Replicas
	if err := errors.Join(noArguments(fs), e.check()); err != nil {
		return usageError{err}
	}
	reports, err := e.run(ctx, stderr)
	if err != nil {
		return err
	}
	return e.tell(reports, stdout)
}

// run evaluates one policy after the other.
func (e *evaluation) run(ctx context.Context, stderr io.Writer) ([]simulation.Report, error) {
	var reports []simulation.Report
	tick := newTicker(stderr)
	defer tick.done()
	names := e.names()
	for i, name := range names {
		cfg := e.cfg
		cfg.Policy = name
		cfg.Progress = func(done, all int) bool {
			tick.tick("%s: policy %d of %d, %s: %d of %d requests", cfg.Workload.Name, i+1, len(names), name, done, all)
			return ctx.Err() == nil
		}
		rep, err := simulation.Evaluate(cfg)
		if err != nil {
			return nil, err
		}
		reports = append(reports, rep)
		if e.cfg.Load > 0 { // the same rate for all; finding it takes a run
			e.cfg.Load, e.cfg.Speedup = 0, rep.Speedup
		}
	}
	return reports, nil
}

// tell prints and, if asked to, files the reports.
func (e *evaluation) tell(reports []simulation.Report, stdout io.Writer) error {
	var table strings.Builder
	writeEvaluations(&table, e.cfg, reports)
	return tellReports(e, reports, table.String(), stdout)
}

// tellReports prints reports, as JSON or as their table, and files both if
// asked to.
func tellReports[R any](e *evaluation, reports []R, table string, stdout io.Writer) error {
	var document any = reports[0]
	if len(reports) > 1 {
		document = map[string]any{"runs": reports}
	}
	text, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if e.out != "" {
		if err := writeFiles(e.out, map[string]string{"sim.json": string(text), "sim.txt": table}); err != nil {
			return err
		}
	}
	if e.asJSON {
		_, err = stdout.Write(text)
		return err
	}
	_, err = io.WriteString(stdout, table)
	return err
}

// writeFiles writes files into a folder that it makes.
func writeFiles(dir string, files map[string]string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// writeEvaluations prints a table, one policy a line.
func writeEvaluations(w io.Writer, cfg simulation.Config, reports []simulation.Report) {
	r := reports[0]
	fmt.Fprintf(w, "%s: %d requests, %d replicas, %d router peers, seed %d; no cache finds more than %.1f %%\n",
		r.Trace, r.Requests, r.Replicas, cfg.Peers, r.Seed, 100*r.IdealHitRatio)
	if r.Told != "" {
		fmt.Fprintf(w, "%s\n", r.Told)
	}
	if rate := cfg.Workload.Rate() * r.Speedup; !math.IsInf(rate, 0) {
		fmt.Fprintf(w, "%.4g requests a second; ", rate)
	}
	fmt.Fprintf(w, "peers see each other's dispatches after %.0f ms, the rest after %.0f ms, engines' events after %.0f ms\n\n",
		1000*cfg.DispatchDelay, 1000*cfg.LoadDelay, 1000*cfg.IndexDelay)
	fmt.Fprintf(w, "  %-15s %7s %9s %9s %9s %9s %8s %9s %8s %10s\n",
		"POLICY", "CACHED", "TTFT MEAN", "P50", "P90", "P99", "TPOT P50", "TOKENS/S", "LOAD CV", "COMPLETED")
	for _, r := range reports {
		fmt.Fprintf(w, "  %-15s %5.1f %% %9s %9s %9s %9s %8s %9.0f %8.2f %10d\n", r.Policy, 100*r.HitRatio,
			span(r.TTFT.Mean), span(r.TTFT.P50), span(r.TTFT.P90), span(r.TTFT.P99), span(r.TPOT.P50), r.OutputPerSecond, r.LoadCV, r.Completed)
	}
	fmt.Fprintf(w, "\n  CACHED is the share of prompt tokens found in the replicas' caches; LOAD CV how unevenly prefill\n  work fell on them (0 is even).\n")
	if slices.ContainsFunc(reports, func(r simulation.Report) bool { return r.Policy == simulation.Pooled }) {
		fmt.Fprintf(w, "  %s is the reference: one endless cache shared by all replicas, one queue, nothing late.\n", simulation.Pooled)
	}
	if slices.ContainsFunc(reports, func(r simulation.Report) bool { return r.Completed < r.Requests }) {
		fmt.Fprintf(w, "  Requests that no replica's cache can hold are not completed.\n")
	}
}

// span writes milliseconds for people.
func span(ms float64) string {
	switch {
	case ms >= 10_000:
		return fmt.Sprintf("%.1f s", ms/1000)
	case ms >= 1000:
		return fmt.Sprintf("%.2f s", ms/1000)
	}
	return fmt.Sprintf("%.3g ms", ms)
}
