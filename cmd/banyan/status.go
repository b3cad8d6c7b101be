package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/banyan-llm/banyan/router/console"
)

// runStatus prints what one peer knows of the mesh.
func runStatus(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	fs := flagSet("status", stdout)
	var admin adminClient
	admin.flags(fs)
	var show statusView
	fs.BoolVar(&show.json, "json", false, "print GET /v1/status as JSON")
	fs.BoolVar(&show.check, "check", false, "print one line per check; exit 1 if one fails")
	fs.BoolVar(&show.look.Strict, "strict", false, "with --check: exit 1 if anything is advised too, such as KV events that are off")
	fs.BoolVar(&show.look.All, "all", false, "show every row and column (default on a terminal: what fits its size)")
	wait := fs.Duration("wait", 0, "with --check: retry for this long until every check passes and every seed of mesh.join was reached")
	peers := fs.Int("peers", 0, "with --check: fail unless this many peers are alive")
	watch := fs.Bool("watch", false, "print again every 2 s")
	if err := parse(fs, args); err != nil {
		return err
	}
	if err := noArguments(fs); err != nil {
		return err
	}
	if *wait != 0 && !show.check {
		return usageError{errors.New("--wait goes with --check: it waits until all is well")}
	}
	if show.check && *watch {
		return usageError{errors.New("--check and --watch exclude each other: --check ends with an exit code, --watch never ends; --check --wait 60s waits until all is well")}
	}
	if *peers != 0 && !show.check {
		return usageError{errors.New("--peers goes with --check: it says how many peers must be alive")}
	}
	if show.look.Strict && !show.check {
		return usageError{errors.New("--strict goes with --check: it says when that fails")}
	}
	deadline := time.Now().Add(*wait)
	for {
		st, raw, err := fetchStatus(ctx, &admin)
		if *watch && ctx.Err() != nil {
			return nil //nolint:nilerr // ended by who watched: nothing failed
		}
		if err == nil {
			st.Expect(*peers)
		}
		troubled := err != nil || !st.Passes(show.look.Strict)
		if show.check && (troubled || !st.Settled()) && time.Now().Before(deadline) && ctx.Err() == nil {
			sleepCtx(ctx, 500*time.Millisecond)
			continue
		}
		if err == nil {
			err = show.write(stdout, st, raw, *watch)
		} else if *watch && ctx.Err() == nil { // a peer may come back
			fmt.Fprintln(stderr, "banyan status:", err)
			err = nil
		}
		if err != nil {
			return err
		}
		if !*watch || ctx.Err() != nil {
			if show.check && troubled {
				return errCheck
			}
			return nil
		}
		sleepCtx(ctx, 2*time.Second)
	}
}

// statusView is how a status is printed.
type statusView struct {
	json, check bool
	look        console.Look
}

// write prints st; again means that more will follow in its place.
func (v *statusView) write(stdout io.Writer, st *console.Status, raw []byte, again bool) error {
	if v.json {
		_, err := fmt.Fprintln(stdout, string(raw))
		return err
	}
	v.look.Width = terminalWidth(stdout)
	v.look.Color = v.look.Width > 0 && os.Getenv("NO_COLOR") == ""
	var text bytes.Buffer
	draw := st.WriteTable
	if v.check {
		draw = st.WriteChecks
	}
	switch {
	case again && v.look.Width > 0:
		text.WriteString("\x1b[H\x1b[2J") // to the top of an empty screen
	case again:
		defer fmt.Fprintln(stdout)
	}
	if err := draw(&text, v.look); err != nil {
		return err
	}
	_, err := stdout.Write(text.Bytes())
	return err
}

func sleepCtx(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func fetchStatus(ctx context.Context, admin *adminClient) (*console.Status, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	raw, err := admin.call(ctx, http.MethodGet, "/v1/status")
	if err != nil {
		return nil, nil, err
	}
	var st console.Status
	if err := json.Unmarshal(raw, &st); err != nil || st.PeerID == "" {
		return nil, nil, fmt.Errorf("%s does not answer like a banyan peer: --peer names the admin.listen address of one, port 8081 by default", admin.peer)
	}
	return &st, raw, nil
}
