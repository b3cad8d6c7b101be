package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/banyan-llm/banyan/router/console"
)

// runStatus prints what one peer knows of the mesh.
func runStatus(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	fs := flagSet("status", stderr)
	var admin adminClient
	admin.flags(fs)
	asJSON := fs.Bool("json", false, "print the status document")
	check := fs.Bool("check", false, "exit 1 on any trouble")
	wait := fs.Duration("wait", 0, "with --check: keep asking this long until all is well")
	watch := fs.Bool("watch", false, "print again every 2 s")
	if err := parse(fs, args); err != nil {
		return err
	}
	deadline := time.Now().Add(*wait)
	for {
		st, raw, err := fetchStatus(ctx, &admin)
		troubled := err != nil || !st.OK
		if *check && troubled && time.Now().Before(deadline) && ctx.Err() == nil {
			sleepCtx(ctx, 500*time.Millisecond)
			continue
		}
		if err != nil {
			return err
		}
		switch {
		case *asJSON:
			if _, err := fmt.Fprintln(stdout, string(raw)); err != nil {
				return err
			}
		default:
			if err := st.WriteTable(stdout, terminalWidth(stdout)); err != nil {
				return err
			}
		}
		if !*watch || ctx.Err() != nil {
			if *check && troubled {
				return errCheck
			}
			return nil
		}
		sleepCtx(ctx, 2*time.Second)
		fmt.Fprintln(stdout)
	}
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
	if err := json.Unmarshal(raw, &st); err != nil {
		return nil, nil, fmt.Errorf("%s does not answer like a banyan peer: %w", admin.peer, err)
	}
	return &st, raw, nil
}

// setIntent drains or undrains a replica through any peer.
func setIntent(ctx context.Context, verb string, args []string, stdout io.Writer) error {
	fs := flagSet(verb, io.Discard)
	var admin adminClient
	admin.flags(fs)
	var names []string
	for len(args) > 0 { // flags may stand before and after the name
		if err := parse(fs, args); err != nil {
			return err
		}
		if args = fs.Args(); len(args) > 0 {
			names, args = append(names, args[0]), args[1:]
		}
	}
	if len(names) != 1 {
		return usageError{errors.New("name one replica, as `banyan status` shows it")}
	}
	if _, err := admin.call(ctx, http.MethodPost, "/v1/replicas/"+url.PathEscape(names[0])+"/"+verb); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s: %s, on every peer of the mesh\n", names[0], verb)
	return nil
}
