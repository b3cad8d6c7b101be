package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/banyan-llm/banyan/simulation/workload"
)

// source is where a command's requests come from: a trace file or a named
// generator.
type source struct {
	trace    string
	name     string
	requests int
	replicas int // 0: the workload's
	seed     uint64
}

func (s *source) register(fs *flag.FlagSet, name string) {
	fs.StringVar(&s.trace, "trace", "", "replay this `file` of JSON lines (Mooncake, agent or sharegpt form)")
	fs.StringVar(&s.name, "workload", name, "generate: "+strings.Join(workload.Names(), ", "))
	fs.IntVar(&s.requests, "requests", 0, "how many requests; sessions run to their end; 0 = the workload's own number")
	fs.Uint64Var(&s.seed, "seed", 1, "seed of everything random")
}

// read makes the workload. Every fault is one of usage, and all are told.
func (s *source) read() (*workload.Workload, error) {
	var negative error
	if s.requests < 0 {
		negative = fmt.Errorf("requests: %d is negative", s.requests)
	}
	if s.trace == "" {
		w, err := workload.Generate(s.name, workload.Options{Seed: s.seed, Requests: max(s.requests, 0), Replicas: max(s.replicas, 0)})
		if err := errors.Join(negative, err); err != nil {
			return nil, usageError{err}
		}
		return w, nil
	}
	w, err := workload.ReadFile(s.trace, s.seed)
	if err := errors.Join(negative, err); err != nil {
		return nil, usageError{err}
	}
	if s.requests > 0 && s.requests < len(w.Requests) {
		w.Requests = w.Requests[:s.requests]
	}
	return w, nil
}

// ticker writes a line of progress: over and over on a terminal, else one
// every few seconds.
type ticker struct {
	w        io.Writer
	terminal bool
	last     time.Time
	wrote    bool
}

const (
	tickTerminal = 200 * time.Millisecond
	tickFile     = 5 * time.Second
)

func newTicker(w io.Writer) *ticker {
	return &ticker{w: w, terminal: terminalWidth(w) > 0, last: time.Now()}
}

func (t *ticker) tick(format string, args ...any) {
	every := tickFile
	if t.terminal {
		every = tickTerminal
	}
	if time.Since(t.last) < every {
		return
	}
	t.last = time.Now()
	line := fmt.Sprintf(format, args...)
	if t.terminal {
		fmt.Fprintf(t.w, "\r\033[K%s", line)
		t.wrote = true
		return
	}
	fmt.Fprintln(t.w, line)
}

// done takes the line away again.
func (t *ticker) done() {
	if t.wrote {
		fmt.Fprint(t.w, "\r\033[K")
	}
}
