package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/banyan-llm/banyan/router/console"
)

// setIntent drains or undrains a replica through any peer.
func setIntent(ctx context.Context, verb string, args []string, stdout io.Writer) error {
	fs := flagSet(verb, stdout)
	var admin adminClient
	admin.flags(fs)
	force, wait := new(bool), new(time.Duration)
	if verb == "drain" {
		fs.BoolVar(force, "force", false, "drain the last replica of a model too; it keeps getting requests, because no other replica can serve them")
		fs.DurationVar(wait, "wait", 0, "wait up to this long for its requests in flight to end, and print how many are left; exit 1 if some are")
	}
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
	path := fmt.Sprintf("/v1/replicas/%s/%s?force=%v", url.PathEscape(names[0]), verb, *force)
	answer, err := admin.call(ctx, http.MethodPost, path)
	if err != nil {
		return err
	}
	var told struct {
		Warning string
		Already bool
	}
	_ = json.Unmarshal(answer, &told) // an answer without one warns of nothing
	switch {
	case verb == "undrain" && told.Already:
		fmt.Fprintf(stdout, "%s was not drained: it takes requests\n", names[0])
	case verb == "undrain":
		fmt.Fprintf(stdout, "%s takes requests again, from every peer of the mesh\n", names[0])
	case told.Warning != "":
		fmt.Fprintf(stdout, "%s is drained, but it%s\n", names[0], strings.TrimPrefix(told.Warning, names[0]))
	case told.Already:
		fmt.Fprintf(stdout, "%s was drained already: no peer of the mesh sends it new requests\n", names[0])
	default:
		fmt.Fprintf(stdout, "%s is drained: no peer of the mesh sends it new requests; those that run go on\n", names[0])
	}
	if verb == "drain" {
		fmt.Fprintf(stdout, "undo with: banyan undrain %s%s\n", admin.asked(fs), names[0])
	}
	if *wait <= 0 {
		return nil
	}
	return waitIdle(ctx, &admin, names[0], *wait, told.Warning != "", stdout)
}

// idleFor is how long a replica must have had nothing in flight: peers tell each
// other within milliseconds.
const idleFor = time.Second

// waitIdle waits until no peer has a request at the replica, and says what is
// still in flight when that changes. A replica that is needed gets new requests
// all the same, so it is never told to be free.
func waitIdle(ctx context.Context, admin *adminClient, name string, wait time.Duration, needed bool, stdout io.Writer) error {
	deadline, said := time.Now().Add(wait), 0
	var idle time.Time
	for ctx.Err() == nil {
		st, _, err := fetchStatus(ctx, admin)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(st.Replicas, func(r console.Replica) bool { return r.Name == name })
		if i < 0 {
			fmt.Fprintf(stdout, "%s is not listed any more\n", name)
			return nil
		}
		n := st.Replicas[i].Inflight
		if n != said && n > 0 {
			fmt.Fprintf(stdout, "in flight at %s: %d\n", name, n)
			said = n
		}
		switch {
		case n > 0:
			idle = time.Time{}
		case idle.IsZero():
			idle = time.Now()
		case time.Since(idle) >= idleFor && needed:
			fmt.Fprintf(stdout, "nothing is in flight at %s at the moment, but requests still go there: do not stop it before another replica takes them\n", name)
			return errCheck
		case time.Since(idle) >= idleFor:
			fmt.Fprintf(stdout, "nothing is in flight at %s: it can be stopped\n", name)
			return nil
		}
		if n > 0 && time.Now().After(deadline) {
			fmt.Fprintf(stdout, "still in flight at %s after %s: %d\n", name, wait, n)
			return errCheck
		}
		sleepCtx(ctx, 200*time.Millisecond)
	}
	return ctx.Err()
}
