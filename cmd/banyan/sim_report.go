package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/banyan-llm/banyan/simulation"
	"github.com/banyan-llm/banyan/simulation/matrix"
	"github.com/banyan-llm/banyan/simulation/workload"
)

// runMatrix runs the evaluation matrix and writes its page, plots and tables.
func (e *evaluation) runMatrix(ctx context.Context, stdout, stderr io.Writer) error {
	o := matrix.Options{Seed: e.source.seed, Seeds: e.seeds, Share: e.share, Given: e.given}
	if e.source.trace != "" {
		w, err := e.source.read()
		if err != nil {
			return err
		}
		o.Trace = w
	}
	fmt.Fprintln(stderr, "matrix: finding what the fleets can serve")
	cells, err := matrix.Plan(o)
	if err != nil {
		return err
	}
	reports, err := evaluateAll(ctx, cells, stderr)
	if err != nil {
		return err
	}
	book := matrix.NewBook(o.Seed, cells, reports)
	files, err := bookFiles(book)
	if err != nil {
		return err
	}
	dir := e.out
	if dir == "" {
		dir = "out"
	}
	if err := writeFiles(dir, files); err != nil {
		return err
	}
	if e.asJSON {
		_, err = io.WriteString(stdout, files["matrix.json"])
		return err
	}
	fmt.Fprint(stdout, files["matrix.txt"])
	fmt.Fprintf(stdout, "\nwrote %s and %d more files\n", filepath.Join(dir, "report.html"), len(files)-1)
	return nil
}

// runCells prints what must reproduce as one table.
func (e *evaluation) runCells(ctx context.Context, stdout, stderr io.Writer) error {
	cells, err := matrix.Plan(matrix.Options{Seed: e.source.seed, Seeds: e.seeds, Share: e.share, Given: e.given, Checked: true})
	if err != nil {
		return err
	}
	reports, err := evaluateAll(ctx, cells, stderr)
	if err != nil {
		return err
	}
	book := matrix.NewBook(e.source.seed, cells, reports)
	if err := e.print(stdout, book.Checks(), book.WriteCells); err != nil {
		return err
	}
	for _, c := range book.Checks() {
		if c.Ran && !c.Holds {
			return errCell
		}
	}
	return nil
}

// print writes v as JSON if asked for, else the table.
func (e *evaluation) print(stdout io.Writer, v any, table func(io.Writer) error) error {
	if !e.asJSON {
		return table(stdout)
	}
	enc := json.NewEncoder(stdout)
	enc.SetIndent("", " ")
	return enc.Encode(v)
}

// errCell says that a cell does not hold; the table shows which.
var errCell = errors.New("a cell does not hold")

// runAblation prints what each term of the default policy is worth.
func (e *evaluation) runAblation(ctx context.Context, stdout, stderr io.Writer) error {
	cells, err := matrix.PlanAblation(matrix.Options{Seed: e.source.seed, Seeds: e.seeds, Share: e.share, Given: e.given})
	if err != nil {
		return err
	}
	reports, err := evaluateAll(ctx, cells, stderr)
	if err != nil {
		return err
	}
	book := matrix.NewBook(e.source.seed, cells, reports)
	return e.print(stdout, book, book.WriteAblation)
}

// runAgents prints what coding agents and bursts meet under every policy.
func (e *evaluation) runAgents(ctx context.Context, stdout, stderr io.Writer) error {
	o := matrix.Options{Seed: e.source.seed, Seeds: e.seeds, Share: e.share}
	if e.source.trace != "" {
		w, err := e.source.read()
		if err != nil {
			return err
		}
		o.Trace = w
	}
	cells, err := matrix.PlanAgents(o)
	if err != nil {
		return err
	}
	reports, err := evaluateAll(ctx, cells, stderr)
	if err != nil {
		return err
	}
	book := matrix.NewBook(e.source.seed, cells, reports)
	var tables strings.Builder
	if err := book.WriteAgents(&tables, matrix.AgentSample(cells)); err != nil {
		return err
	}
	if e.out != "" {
		files := map[string]string{"agents.md": tables.String()}
		for _, f := range book.AgentFigures() {
			files[f.File+".svg"] = f.Plot.SVG()
		}
		if err := writeFiles(e.out, files); err != nil {
			return err
		}
	}
	return e.print(stdout, book, func(w io.Writer) error {
		_, err := io.WriteString(w, tables.String())
		return err
	})
}

// given reads a recorded trace of the folder of traces; nil if it is not there.
func (e *evaluation) given(name string, seed uint64) (*workload.Workload, error) {
	if e.traces == "" {
		return nil, nil //nolint:nilnil // nothing is there, and that is no fault
	}
	w, err := workload.ReadFile(filepath.Join(e.traces, name+".jsonl"), seed)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // as above
	}
	return w, err
}

// evaluateAll runs the cells, as many at a time as there are processors.
func evaluateAll(ctx context.Context, cells []matrix.Cell, stderr io.Writer) ([]simulation.Report, error) {
	reports := make([]simulation.Report, len(cells))
	tick := newTicker(stderr)
	defer tick.done()
	var mu sync.Mutex // guards tick and over
	over := 0
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range cells {
		group.Go(func() error {
			cfg := cells[i].Config
			cfg.Progress = func(int, int) bool { return ctx.Err() == nil }
			rep, err := simulation.Evaluate(cfg)
			if err != nil {
				return fmt.Errorf("%s: %w", cells[i].Name(), err)
			}
			reports[i] = rep
			mu.Lock()
			defer mu.Unlock()
			over++
			tick.tick("matrix: %d of %d runs, last %s", over, len(cells), cells[i].Name())
			return ctx.Err()
		})
	}
	return reports, group.Wait()
}

// bookFiles are the page, its plots and its data by file name.
func bookFiles(book *matrix.Book) (map[string]string, error) {
	var page, table strings.Builder
	if err := book.WriteHTML(&page); err != nil {
		return nil, err
	}
	if err := book.WriteText(&table); err != nil {
		return nil, err
	}
	data, err := json.MarshalIndent(book, "", " ")
	if err != nil {
		return nil, err
	}
	files := map[string]string{"report.html": page.String(), "matrix.txt": table.String(), "matrix.json": string(data) + "\n"}
	for _, f := range book.Figures() {
		files[f.File+".svg"] = f.Plot.SVG()
	}
	return files, nil
}
