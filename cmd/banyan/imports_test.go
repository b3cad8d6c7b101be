package main

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/banyan-llm/banyan/"

// allowed is the import table of ARCHITECTURE.md (TestArchitectureShowsTheImportTable):
// which of our packages may import which.
var allowed = map[string][]string{
	"crdt":                   {},
	"deploy":                 {},
	"crdt/crdttest":          {"crdt"},
	"radix":                  {},
	"radix/workload":         {"radix"},
	"gossip":                 {"crdt"},
	"gossip/gossiptest":      {"crdt", "crdt/crdttest"},
	"gossip/mesh":            {"gossip", "crdt"},
	"router/index":           {"crdt", "radix"},
	"router/policy":          {"radix"},
	"router/load":            {"crdt", "router/policy"},
	"router/pick":            {"crdt", "radix", "gossip", "router/index", "router/policy", "router/load"},
	"router/workingset":      {"crdt", "radix"},
	"router/ingest":          {"crdt", "gossip", "router/index"},
	"router/kvevents":        {"crdt", "radix", "router/kvevents/follow", "router/kvevents/zmtp"},
	"router/kvevents/follow": {"crdt"},
	"router/kvevents/zmtp":   {},
	"router/token":           {"radix", "router/openai"},
	"router/token/bpe":       {},
	"router/token/jinja":     {},
	"router/openai":          {},
	"router/disagg":          {"router/openai"},
	"router/proxy":           {"router/openai", "router/admission"},
	"router/admission":       {},
	"router/tracing":         {},
	"router/fleet":           {"crdt", "router/load"},
	"router/requests":        {},
	"router/access":          {"router/openai", "router/proxy"},
	"router/console":         {"router/requests"},
	"router/metrics":         {"gossip", "router/index", "router/policy", "router/pick", "router/token", "router/disagg", "router/proxy", "router/openai", "router/tracing", "router/requests", "router/access", "router/report"},
	"router/report":          {"crdt", "radix", "router/index", "router/token", "router/workingset", "router/requests", "router/console"},
	"router": {
		"crdt", "radix", "gossip", "gossip/mesh", "router/index", "router/policy", "router/load", "router/pick", "router/workingset", "router/ingest", "router/kvevents", "router/kvevents/follow",
		"router/kvevents/zmtp", "router/token", "router/token/jinja", "router/openai", "router/disagg", "router/proxy", "router/fleet", "router/console", "router/tracing", "router/requests", "router/access", "router/report", "router/metrics", "deploy",
	},
	"simulation":          {"crdt", "radix", "gossip", "router/index", "router/policy", "router/load", "router/pick", "router/admission", "router/workingset", "router/ingest", "router/fleet", "router/kvevents/follow", "simulation/replica", "simulation/workload"},
	"simulation/replica":  {},
	"simulation/workload": {},
	"simulation/chart":    {},
	"simulation/matrix":   {"simulation", "simulation/chart", "simulation/workload", "router/policy"},
	"simulation/client":   {"simulation/workload"},
	"simulation/load":     {"simulation/client", "simulation/workload"},
	"simulation/freeport": {},
	"simulation/demo":     {"simulation/client", "simulation/workload", "router/console"},
	"simulation/standin":  {"router/kvevents/zmtp", "router/kvevents", "router/openai", "simulation/replica", "simulation/workload"},
}

// pure packages start no goroutine, read no clock and open no socket.
var pure = []string{"crdt", "radix", "gossip", "router/index", "router/policy", "router/load", "router/pick", "router/ingest", "router/token/bpe", "router/token/jinja", "router/kvevents/follow", "router/admission", "router/workingset", "router/report", "simulation/replica"}

type listed struct {
	ImportPath string
	Imports    []string
	GoFiles    []string
}

func goList(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,GoFiles", module+"...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	dec := json.NewDecoder(strings.NewReader(string(out)))
	var pkgs []listed
	for {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

func TestImportTable(t *testing.T) {
	seen := 0
	for _, p := range goList(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		if strings.HasPrefix(name, "cmd/") {
			continue
		}
		rule, ok := allowed[name]
		if !ok {
			t.Errorf("package %s is not in the import table", name)
			continue
		}
		seen++
		for _, imp := range p.Imports {
			own, is := strings.CutPrefix(imp, module)
			if is && !slices.Contains(rule, own) {
				t.Errorf("%s imports %s, which the table does not allow", name, own)
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d packages were checked", seen)
	}
}

// TestEveryPackageHasADoc: what a package owns and what it must not depend on
// is in its doc.go.
func TestEveryPackageHasADoc(t *testing.T) {
	for _, p := range goList(t) {
		if !slices.Contains(p.GoFiles, "doc.go") {
			t.Errorf("package %s has no doc.go", p.ImportPath)
		}
	}
}

// TestTheSimulationDrivesTheRoutersOwnCode: the simulation uses the product's
// packages without sockets. What it writes again of the others is in
// simulation/DECISIONS.md.
func TestTheSimulationDrivesTheRoutersOwnCode(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", module+"simulation").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	deps := strings.Fields(string(out))
	for _, own := range []string{"gossip", "router/index", "router/kvevents/follow", "router/policy", "router/load", "router/pick", "router/ingest"} {
		if !slices.Contains(deps, module+own) {
			t.Errorf("the simulation does not use %s", own)
		}
	}
}

func TestCorePackagesOpenNoSocket(t *testing.T) {
	for _, p := range goList(t) {
		if !slices.Contains(pure, strings.TrimPrefix(p.ImportPath, module)) {
			continue
		}
		for _, imp := range p.Imports {
			if imp == "net" || imp == "net/http" || imp == "os" {
				t.Errorf("%s imports %s", p.ImportPath, imp)
			}
		}
	}
}
