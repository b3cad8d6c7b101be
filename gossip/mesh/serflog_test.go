package mesh

import (
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Who speaks under another key is told once, with the address.
func TestAnotherKeyIsToldWithItsAddress(t *testing.T) {
	var out strings.Builder
	keys := 0
	log := newSerfLog(hclog.New(&hclog.LoggerOptions{Output: &out}), newOnce(time.Now, time.Minute), func() { keys++ }, func() {})
	for range 3 {
		log.Print("[ERR] memberlist: Decrypt packet failed: No installed keys could decrypt the message from=10.0.0.7:7946")
	}
	if text := out.String(); keys != 3 || strings.Count(text, "compare mesh.key") != 1 || !strings.Contains(text, "cause=key from=10.0.0.7:7946") {
		t.Errorf("%d refusals counted:\n%s", keys, text)
	}
}

// A peer that is not reached is tried again: that is a warning, and the tries for
// ever after are debug lines.
func TestWhatIsTriedAgainIsNoError(t *testing.T) {
	var out strings.Builder
	log := newSerfLog(hclog.New(&hclog.LoggerOptions{Output: &out}), newOnce(time.Now, time.Minute), func() {}, func() {})
	log.Print("[ERR] memberlist: Push/Pull with p2-eb4781eb failed: dial tcp 127.0.0.1:7946: connect: connection refused")
	log.Print("[INFO] serf: attempting reconnect to p2-eb4781eb 127.0.0.1:7946")
	log.Print("[ERR] memberlist: Conflicting address")
	if text := out.String(); !strings.Contains(text, "[WARN]  memberlist: Push/Pull") || !strings.Contains(text, "[ERROR] memberlist: Conflicting") || strings.Contains(text, "reconnect") {
		t.Error(text)
	}
}
