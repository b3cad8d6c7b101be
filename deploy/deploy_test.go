// Package deploy_test checks the files of this folder against each other.
package deploy_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func decode(t *testing.T, path string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(read(t, path)), into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// tool returns the path of a program that may be missing.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed: not checked", name)
	}
	return path
}

func runs(t *testing.T, name string, args ...string) {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

type rule struct {
	Alert, Record, Expr string
	Labels              map[string]string
	Annotations         map[string]string
}

func rules(t *testing.T) []rule {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	decode(t, "prometheus/banyan.rules.yml", &file)
	var out []rule
	for _, g := range file.Groups {
		out = append(out, g.Rules...)
	}
	if len(out) < 20 {
		t.Fatalf("only %d rules", len(out))
	}
	return out
}

// anchors are the headings of the runbook as GitHub links them.
func anchors(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	dropped := regexp.MustCompile(`[^a-z0-9 -]`)
	for line := range strings.Lines(read(t, "README.md")) {
		if heading, ok := strings.CutPrefix(line, "### "); ok {
			slug := dropped.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
			out[strings.ReplaceAll(slug, " ", "-")] = true
		}
	}
	return out
}

func TestEveryAlertSaysWhatToDo(t *testing.T) {
	known, used := anchors(t), map[string]bool{}
	for _, r := range rules(t) {
		if r.Alert == "" {
			continue
		}
		if s := r.Labels["severity"]; !slices.Contains([]string{"critical", "warning", "info"}, s) {
			t.Errorf("%s has severity %q", r.Alert, s)
		}
		if s := r.Annotations["summary"]; !strings.HasSuffix(s, ".") || strings.Contains(s, "{{") {
			t.Errorf("%s: the summary %q is not a fixed sentence", r.Alert, s)
		}
		if !strings.Contains(r.Annotations["description"], "{{") {
			t.Errorf("%s: the description names nothing", r.Alert)
		}
		file, anchor, _ := strings.Cut(r.Annotations["runbook_url"], "#")
		if !strings.HasSuffix(file, "/deploy/README.md") || !known[anchor] {
			t.Errorf("%s: README.md has no heading for %q", r.Alert, r.Annotations["runbook_url"])
		}
		used[anchor] = true
	}
	for anchor := range known {
		if !used[anchor] {
			t.Errorf("no alert leads to the heading %q", anchor)
		}
	}
}

func TestEveryAlertIsTestedFiringAndSilent(t *testing.T) {
	var file struct {
		Tests []struct {
			Cases []struct {
				Alert    string `yaml:"alertname"`
				Expected []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	decode(t, "prometheus/banyan.rules_test.yml", &file)
	firing, silent := map[string]bool{}, map[string]bool{}
	for _, group := range file.Tests {
		for _, c := range group.Cases {
			firing[c.Alert] = firing[c.Alert] || len(c.Expected) > 0
			silent[c.Alert] = silent[c.Alert] || len(c.Expected) == 0
		}
	}
	for _, r := range rules(t) {
		if r.Alert != "" && !(firing[r.Alert] && silent[r.Alert]) {
			t.Errorf("%s is tested firing %v, silent %v", r.Alert, firing[r.Alert], silent[r.Alert])
		}
	}
}

func TestRulesAlertAsTheirTestsSay(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: promtool takes seconds, and this is -short")
	}
	promtool := tool(t, "promtool")
	runs(t, promtool, "check", "rules", "prometheus/banyan.rules.yml")
	runs(t, promtool, "check", "config", "--syntax-only", "prometheus/prometheus.yml")
	runs(t, promtool, "test", "rules", "prometheus/banyan.rules_test.yml")
}

type panel struct {
	Type, Title, Description string
	Targets                  []struct{ Expr string }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	GridPos                  struct{ H, W, X, Y int }
}

func dashboard(t *testing.T) (panels []panel, annotations []string) {
	t.Helper()
	var board struct {
		UID         string
		Panels      []panel
		Annotations struct{ List []struct{ Expr string } }
	}
	if err := json.Unmarshal([]byte(read(t, "grafana/banyan.json")), &board); err != nil {
		t.Fatal(err)
	}
	if board.UID != "banyan" || len(board.Panels) < 20 {
		t.Fatalf("uid %q, %d panels", board.UID, len(board.Panels))
	}
	for _, a := range board.Annotations.List {
		annotations = append(annotations, a.Expr)
	}
	return board.Panels, annotations
}

func TestEveryPanelIsExplained(t *testing.T) {
	panels, _ := dashboard(t)
	taken := map[[2]int]string{}
	for _, p := range panels {
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%q lies on %q or outside at %d,%d", p.Title, other, x, y)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Title == "" || p.FieldConfig.Defaults.Unit == "" || !strings.HasSuffix(p.Description, ".") || len(p.Targets) == 0 {
			t.Errorf("panel %q: unit %q, description %q, %d targets", p.Title, p.FieldConfig.Defaults.Unit, p.Description, len(p.Targets))
		}
	}
}

// TestPanelsArePromQL has promtool read every expression as a rule.
func TestPanelsArePromQL(t *testing.T) {
	promtool := tool(t, "promtool")
	panels, exprs := dashboard(t)
	for _, p := range panels {
		for _, target := range p.Targets {
			exprs = append(exprs, target.Expr)
		}
	}
	type record struct {
		Record string `yaml:"record"`
		Expr   string `yaml:"expr"`
		Labels map[string]string
	}
	var group struct {
		Groups []any `yaml:"groups"`
	}
	var list []record
	for i, e := range exprs {
		e = strings.NewReplacer("$__rate_interval", "1m", "$job", "banyan").Replace(e)
		list = append(list, record{"panel", e, map[string]string{"n": string(rune('a'+i/26)) + string(rune('a'+i%26))}})
	}
	group.Groups = []any{map[string]any{"name": "panels", "rules": list}}
	text, err := yaml.Marshal(group)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "panels.yml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	runs(t, promtool, "check", "rules", "--lint=none", path)
}

type service struct {
	Image    string
	Ports    []string
	Volumes  []string
	Grace    string `yaml:"stop_grace_period"`
	Command  []string
	Networks any
}

func TestComposeNamesFilesThatExistAndPinsImages(t *testing.T) {
	var file struct {
		Services map[string]service
		Secrets  map[string]struct{ File string }
	}
	decode(t, "compose.yaml", &file)
	for _, name := range []string{"banyan", "r0", "r1", "r2", "r3", "haproxy", "prometheus", "grafana"} {
		s, ok := file.Services[name]
		if _, tag, found := strings.Cut(s.Image, ":"); !ok || !found || tag == "latest" {
			t.Errorf("service %s has the image %q", name, s.Image)
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("service %s publishes %s beyond loopback", name, p)
			}
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if _, err := os.Stat(from); err != nil {
				t.Errorf("service %s: %v", name, err)
			}
		}
	}
}

// TestWhoStopsAPeerWaitsForItsDrain holds every grace period against
// drain.delay + drain.timeout + 20 s of the defaults.
func TestWhoStopsAPeerWaitsForItsDrain(t *testing.T) {
	if drain := read(t, "banyan.yaml"); !strings.Contains(drain, "delay: 15s") || !strings.Contains(drain, "timeout: 10m\n") {
		t.Fatal("the defaults of drain changed: so must the grace periods")
	}
	for path, line := range map[string]string{
		"banyan.service":         "TimeoutStopSec=635",
		"compose.yaml":           "stop_grace_period: 635s",
		"manifests/default.yaml": "terminationGracePeriodSeconds: 635",
		"README.md":              "635 s",
	} {
		if !strings.Contains(read(t, path), line) {
			t.Errorf("%s has no %q", path, line)
		}
	}
}

func TestUnitIsValid(t *testing.T) {
	verify := tool(t, "systemd-analyze")
	path := filepath.Join(t.TempDir(), "banyan.service")
	unit := strings.Replace(read(t, "banyan.service"), "/usr/local/bin/banyan", "/bin/true", 1)
	if err := os.WriteFile(path, []byte(unit), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(verify, "verify", path).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestChartShipsTheSameRulesAndBoard holds the copies that Helm needs inside
// the chart.
func TestChartShipsTheSameRulesAndBoard(t *testing.T) {
	for original, twin := range map[string]string{
		"prometheus/banyan.rules.yml": "charts/banyan/files/banyan.rules.yml",
		"grafana/banyan.json":         "charts/banyan/files/banyan.json",
	} {
		if read(t, original) != read(t, twin) {
			t.Errorf("%s is not %s: copy it", twin, original)
		}
	}
}
