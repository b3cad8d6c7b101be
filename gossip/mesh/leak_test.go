package mesh

import (
	"runtime"
	"strings"
	"testing"
)

// goroutines counts the goroutines of this package.
func goroutines() (n int) {
	buf := make([]byte, 1<<20)
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(stack, "gossip/mesh.(*") {
			n++
		}
	}
	return n
}

// I9: what New and Start began has ended when Close returns. Not parallel, so
// that no other test's mesh runs.
func TestCloseWaitsForAllGoroutines(t *testing.T) {
	a := start(t, config("a"))
	b := start(t, config("b", a.Addr()))
	whole(t, a, b)
	hostile(t, a, nil)
	hostile(t, a, preamble{tls: true}.bytes())
	hostile(t, a, labelHeader("test"))
	if goroutines() == 0 {
		t.Fatal("the count sees nothing")
	}
	b.close(t)
	a.close(t)
	if n := goroutines(); n != 0 {
		buf := make([]byte, 1<<20)
		t.Errorf("%d goroutines are left:\n%s", n, buf[:runtime.Stack(buf, true)])
	}
}
