package console

import (
	"errors"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/router/requests"
)

func TestARequestIsFoundOnThePage(t *testing.T) {
	const bad = "<script>alert(1)</script>"
	c := sampleConsole()
	told := &requests.Told{Peer: "a", State: "ended", Request: requests.ToldRecord{ID: "00ff", Status: 502, Error: "replica_failed", Model: bad}}
	c.Serve(Sources{
		Find: func(id string) (*requests.Told, error) {
			if id == "00ff" {
				return told, nil
			}
			return nil, errors.New("ask b")
		},
		Notable: func(int) []*requests.Told { return []*requests.Told{told} },
	})
	for target, want := range map[string]string{
		"/request":                                "FAILED: refused with 502 replica_failed",
		"/request?id=%2000ff":                     "00ff: FAILED: refused with 502 replica_failed",
		"/request?id=%22%3E%3Cscript%3E":          "ask b",
		"/request?id=" + strings.Repeat("x", 300): "No id is that long",
	} {
		res := get(t, c, target)
		page := text(t, res)
		if !strings.Contains(page, want) || strings.Contains(page, "<script") || res.Header.Get("Content-Security-Policy") == "" {
			t.Errorf("%.40s: %d, no %q in %s", target, res.StatusCode, want, page)
		}
		if found := res.StatusCode == http.StatusOK; found != strings.Contains(want, "FAILED") {
			t.Errorf("%.40s: %d", target, res.StatusCode)
		}
	}
}

// Every place that an alert or a problem sends people to is in the runbook that
// the peer serves.
func TestTheRunbookHasEveryPlaceThatIsNamed(t *testing.T) {
	runbook, err := os.ReadFile("../../deploy/README.md")
	if err != nil {
		t.Fatal(err)
	}
	c := sampleConsole()
	c.Serve(Sources{Runbook: string(runbook) + "\n\n<b>x</b> [y](javascript:z) `<i>`\n"})
	page := text(t, get(t, c, "/runbook"))
	for _, bad := range []string{"<b>x", "javascript:z\"", "<i>", "<script"} {
		if strings.Contains(page, bad) {
			t.Errorf("the runbook became markup: %s", bad)
		}
	}
	n := 0
	for _, file := range []string{"../../deploy/prometheus/banyan.rules.yml", "../report/problems.go", "../report/notes.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`deploy/README\.md#([a-z-]+)`).FindAllStringSubmatch(string(source), -1) {
			if n++; !strings.Contains(page, ` id="`+m[1]+`"`) {
				t.Errorf("%s: no %s in the runbook", file, m[1])
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d places were looked for", n)
	}
	if got := runbookLink("engines, see deploy/README.md#replica-down."); got != "/runbook#replica-down" {
		t.Error(got)
	}
	for _, m := range regexp.MustCompile(`href="#([^"]+)"`).FindAllStringSubmatch(page, -1) {
		if !strings.Contains(page, ` id="`+m[1]+`"`) {
			t.Errorf("a link leads nowhere: %s", m[1])
		}
	}
}

// Now is at the right, 15 minutes ago at the left, 0 at the bottom.
func TestLinesShowTheLast15Minutes(t *testing.T) {
	at := func(v float64) *float64 { return &v }
	const now = 2_000_000
	got := sparks([]Point{
		{TimeMs: now - sparkMs - 1, Rate: at(9)}, {TimeMs: now - sparkMs, Rate: at(0)}, {TimeMs: now - sparkMs/2}, {TimeMs: now, Rate: at(10)},
	}, now)
	if want := (Line{Points: "0.0,22.0 100.0,2.0", Range: "0 to 10.0"}); got["rate"] != want {
		t.Errorf("%+v", got["rate"])
	}
	if got["ttft"].Points != "" {
		t.Errorf("%+v", got["ttft"])
	}
}

func TestPrefixesAreNamedByWhatPeopleKnow(t *testing.T) {
	names := []string{}
	for _, p := range []Prefix{{Key: "0123456789"}, {Key: "x", Model: "m"}, {Key: "y", Model: "m", Tenant: "acme"}} {
		p.Tokens, p.Blocks, p.Holders = 16, 1, []string{"r0"}
		branches, _ := Forest([]Prefix{p}, 16)
		names = append(names, drawBranch(&branches[0], 1).Cells["name"])
	}
	if want := []string{"01234567", "m", "m · acme"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}
