package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/router"
)

// deployed is a file of the deploy folder.
func deployed(name string) string { return filepath.Join("..", "..", "deploy", name) }

// A draining peer must outlast the balancer's notice of it, and a reloaded
// balancer the streams of a draining peer.
func TestDrainOutlastsTheBalancer(t *testing.T) {
	text, err := os.ReadFile(deployed("haproxy.cfg"))
	if err != nil {
		t.Fatal(err)
	}
	setting := func(pattern string) string {
		t.Helper()
		m := regexp.MustCompile(`(?m)^    ` + pattern).FindSubmatch(text)
		if m == nil {
			t.Fatalf("deploy/haproxy.cfg has no %s", pattern)
		}
		return string(m[1])
	}
	duration := func(pattern string) time.Duration {
		t.Helper()
		d, err := time.ParseDuration(setting(pattern))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	fall, err := strconv.Atoi(setting(`default-server check .*\bfall (\d+)`))
	if err != nil {
		t.Fatal(err)
	}
	notice := duration(`default-server check inter (\S+)`)*time.Duration(fall) + duration(`timeout check +(\S+)`)
	reload := duration(`hard-stop-after (\S+)`)
	cfg := router.DefaultConfig()
	t.Logf("drain.delay %v, noticed within %v; drain.timeout %v, hard-stop-after %v", cfg.Drain.Delay, notice, cfg.Drain.Timeout, reload)
	if cfg.Drain.Delay <= notice {
		t.Errorf("drain.delay %v is over before the balancer notices, %v", cfg.Drain.Delay, notice)
	}
	if reload <= cfg.Drain.Timeout {
		t.Errorf("hard-stop-after %v cuts streams that drain.timeout %v allows", reload, cfg.Drain.Timeout)
	}
	if cfg.HTTP.ConnectionAge <= 0 {
		t.Error("connections never end: a peer added later gets nothing")
	}
}
