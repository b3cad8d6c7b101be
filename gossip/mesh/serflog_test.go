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
	log := newSerfLog(hclog.New(&hclog.LoggerOptions{Output: &out}), newOnce(time.Now, time.Minute), func() { keys++ })
	for range 3 {
		log.Print("[ERR] memberlist: Decrypt packet failed: No installed keys could decrypt the message from=10.0.0.7:7946")
	}
	if text := out.String(); keys != 3 || strings.Count(text, "compare mesh.key") != 1 || !strings.Contains(text, "cause=key from=10.0.0.7:7946") {
		t.Errorf("%d refusals counted:\n%s", keys, text)
	}
}
