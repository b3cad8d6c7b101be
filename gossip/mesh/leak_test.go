package mesh

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

// goroutines are the stacks of the goroutines of this package and of the
// membership it runs.
func goroutines() (left []string) {
	buf := make([]byte, 1<<20)
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(stack, "gossip/mesh.(*") || strings.Contains(stack, "hashicorp/memberlist.(*") {
			left = append(left, stack)
		}
	}
	return left
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
	if len(goroutines()) == 0 {
		t.Fatal("the count sees nothing")
	}
	b.close(t)
	a.close(t)
	// A goroutine that told its owner it is done still has to return.
	for end := time.Now().Add(10 * time.Second); len(goroutines()) > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if left := goroutines(); len(left) > 0 {
		t.Errorf("%d goroutines are left:\n%s", len(left), strings.Join(left, "\n\n"))
	}
}
