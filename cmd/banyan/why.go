package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/banyan-llm/banyan/router/console"
	"github.com/banyan-llm/banyan/router/requests"
)

// runWhy prints what was known of one request and what came of it; without an
// id, the last requests that failed, were slow or were retried.
func runWhy(ctx context.Context, args []string, stdout, _ io.Writer) error {
	fs := flagSet("why", stdout)
	var admin adminClient
	admin.flags(fs)
	asJSON := fs.Bool("json", false, "print GET /v1/requests/ID as JSON")
	var ids []string
	for len(args) > 0 { // flags may stand before and after the id
		if err := parse(fs, args); err != nil {
			return err
		}
		if args = fs.Args(); len(args) > 0 {
			ids, args = append(ids, args[0]), args[1:]
		}
	}
	if len(ids) > 1 {
		return usageError{errors.New("name one request by its id (the header X-Request-Id of its answer), or none to list the last that failed, were slow or were retried")}
	}
	path := "/v1/requests"
	if len(ids) == 1 {
		path += "/" + url.PathEscape(ids[0])
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	raw, err := admin.call(ctx, http.MethodGet, path)
	if err != nil {
		return err
	}
	if *asJSON {
		_, err := stdout.Write(raw)
		return err
	}
	look := console.Look{Width: terminalWidth(stdout)}
	look.Color = look.Width > 0 && os.Getenv("NO_COLOR") == ""
	var text bytes.Buffer
	if len(ids) == 0 {
		var list struct{ Requests []requests.Told }
		if err := json.Unmarshal(raw, &list); err != nil {
			return fmt.Errorf("%s does not answer like a banyan peer: %w", admin.peer, err)
		}
		err = console.WriteRequests(&text, list.Requests, look)
	} else {
		var told requests.Told
		if err := json.Unmarshal(raw, &told); err != nil || told.Request.ID == "" {
			return fmt.Errorf("%s does not answer like a banyan peer: --peer names the admin.listen address of one", admin.peer)
		}
		err = console.WriteWhy(&text, &told, look)
	}
	if err != nil {
		return err
	}
	_, err = stdout.Write(text.Bytes())
	return err
}
