package report

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/router/console"
	"github.com/banyan-llm/banyan/router/requests"
)

// ended is how n requests ended.
type ended struct {
	n            int
	status       int
	err, replica string
}

func TestWhatFailedInTheLastMinute(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for _, c := range []struct {
		name string
		add  []ended
		want []string // begins of the problems, in order
	}{
		{"nothing came", nil, nil},
		{"all is well", []ended{{50, 200, "", ""}}, nil},
		{"clients that leave", []ended{{50, 0, requests.ErrLeft, ""}}, nil},
		{
			"all fail",
			[]ended{{4, 503, "", "r0"}, {1, 503, "no_replica", ""}},
			[]string{"5 of 5 requests failed in the last minute (100 %): 4 status 503 at r0 (m), 1 no replica (m)"},
		},
		{
			"one in ten",
			[]ended{{90, 200, "", ""}, {10, 200, requests.ErrCut, "r1"}},
			[]string{"10 of 100 requests failed in the last minute (10 %): 10 the answer broke off at r1 (m)"},
		},
		{"few", []ended{{97, 200, "", ""}, {3, 502, "", ""}}, nil},
		{
			"overload",
			[]ended{{50, 200, "", ""}, {50, 429, "overloaded", ""}},
			[]string{"50 of 100 requests were turned away for overload in the last minute (50 %): 50 overloaded (m)"},
		},
		{"replicas refuse", []ended{{12, 404, "", "r0"}}, []string{"12 of 12 requests were refused by replicas in the last minute (100 %): 12 status 404 at r0 (m)"}},
		{"clients' mistakes", []ended{{12, 400, "invalid_request_error", ""}, {5, 404, "model_not_found", ""}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var f Failures
			for _, e := range c.add {
				for range e.n {
					f.Add(&requests.Record{Status: e.status, Error: e.err, Replica: e.replica}, "m", now)
				}
			}
			var got []string
			is := f.Since(now.Add(40 * time.Second))
			for _, p := range failureProblems(&is) {
				got = append(got, p.Text)
				if p.Help == "" {
					t.Errorf("no cure: %s", p.Text)
				}
			}
			if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("%q, want %q", got, c.want)
			}
			if later := f.Since(now.Add(time.Minute)); later.Total != 0 || len(later.By) != 0 {
				t.Errorf("a minute later: %+v", later)
			}
		})
	}
}

// Names from outside cannot fill the memory.
func TestKindsOfFailuresAreBounded(t *testing.T) {
	var f Failures
	for i := range 1000 {
		f.Add(&requests.Record{Status: 502, Replica: fmt.Sprint(i)}, "m", time.Unix(0, 0))
	}
	if is := f.Since(time.Unix(0, 0)); is.Failed != 1000 || len(is.By) > maxFailures+1 || is.By[0].Replica != "other" {
		t.Errorf("%d kinds, the first %+v", len(is.By), is.By[0])
	}
}

func TestTurnedAwayConnectionsAreTold(t *testing.T) {
	problems, notes := placeProblems(&console.Requests{Recent: &console.Recent{TurnedAway: 7}, FewFiles: "few"})
	if len(problems) != 1 || !strings.HasPrefix(problems[0].Text, "7 connections") || len(notes) != 1 {
		t.Errorf("%v %v", problems, notes)
	}
	if problems, notes := placeProblems(&console.Requests{}); problems != nil || notes != nil {
		t.Errorf("%v %v", problems, notes)
	}
}
