//go:build e2e

package main

import (
	"fmt"
	"testing"
)

// A disk that is full under the access log costs no request, and is told.
func TestAFullDiskUnderTheAccessLogIsTold(t *testing.T) {
	r := replicaProcess(t, "r0")
	p := single(t, "--access_log.path", "/dev/full", "--access_log.mode", "all", "--replicas", fmt.Sprintf("[{name: r0, url: 'http://%s'}]", r.said["http"]))
	eventually(t, "the replica is up", func() bool { s := p.status(); return s != nil && s.Ready && s.Level == "ok" })
	if to, _, _ := p.say([]message{{"user", "Hello."}}); to != "r0" {
		t.Errorf("a request went to %q", to)
	}
	p.tells("a full disk under the access log", "The access log cannot be written: write /dev/full: no space left on device", "lines lost: ")
	p.stop()
}
