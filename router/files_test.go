package router

import (
	"strings"
	"testing"
)

func TestConnectionsFitTheFilesThatMayBeOpen(t *testing.T) {
	for _, c := range []struct {
		connections, concurrency int
		files                    uint64
		most                     int
		told                     bool
	}{
		{32768, 4096, 1 << 20, 32768, false},
		{32768, 4096, 0, 32768, false},
		{0, 4096, 1 << 63, 0, false},
		{32768, 4096, 10000, 10000 - 4096 - spareFiles, true},
		{0, 4096, 10000, 10000 - 4096 - spareFiles, true},
		{1000, 4096, 10000, 1000, false},
		{32768, 4096, 1024, 256, true},
		{32768, 4096, 1, 1, true},
	} {
		most, warning := fitFiles(c.connections, c.concurrency, c.files)
		if most != c.most || (warning != "") != c.told {
			t.Errorf("%d connections, %d files: %d, %q", c.connections, c.files, most, warning)
		}
	}
	if _, warning := fitFiles(32768, 4096, 1024); !strings.Contains(warning, "1024 files") || !strings.Contains(warning, "LimitNOFILE") || !strings.Contains(warning, "37376") {
		t.Errorf("the cure is not named: %q", warning)
	}
}
