//go:build e2e

package main

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// Every metric that an alert or a panel reads is there in what a running peer
// answers to a scrape.
func TestRulesAndBoardReadWhatIsScraped(t *testing.T) {
	peers := meshOf(t, 2, replicaProcess(t, "r0"))
	peers[0].say([]message{{Role: "user", Content: strings.Repeat("words ", 200)}})
	named := map[string]string{}
	for _, path := range []string{deployed("prometheus/banyan.rules.yml"), deployed("grafana/banyan.json")} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(^|[^a-z0-9_:])(banyan_[a-z0-9_]+)`).FindAllStringSubmatch(string(text), -1) {
			named[m[2]] = path
		}
	}
	have := map[string]bool{
		"banyan_cert_expiry_timestamp_seconds": true, "banyan_listener_cert_expiry_timestamp_seconds": true, // absent without TLS
		"banyan_role_replicas_up": true, // absent where prefill and decode are not kept apart
	}
	missing := func(name string) bool { return !have[name] }
	for end := time.Now().Add(patience / 2); ; time.Sleep(100 * time.Millisecond) { // some come with what peers tell each other
		scraped := adminGet(t, "http://"+peers[0].said["admin"]+"/metrics")
		for _, m := range regexp.MustCompile(`(?m)^(banyan_[a-z0-9_]+)[{ ]`).FindAllStringSubmatch(scraped, -1) {
			have[m[1]] = true
		}
		if time.Now().After(end) || !slices.ContainsFunc(slices.Collect(maps.Keys(named)), missing) {
			break
		}
	}
	if len(named) < 25 || len(have) < 40 {
		t.Fatalf("%d metrics are named, %d scraped", len(named), len(have))
	}
	for name, path := range named {
		if missing(name) {
			t.Errorf("%s reads %s, which nobody emits", path, name)
		}
	}
	t.Logf("%d metrics named, %d series names scraped", len(named), len(have))
}
