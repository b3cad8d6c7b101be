package router

import "testing"

func TestMemoryIsShared(t *testing.T) {
	if sharesOf(100, 7, 1).tree != 7 || sharesOf(100, 0, 1).tree != 50 || sharesOf(0, 0, 1).tree != 0 {
		t.Error("the trees' share")
	}
	for gb := int64(1); gb <= 64; gb *= 2 {
		s := sharesOf(gb<<30, 0, 32<<20)
		if sum := s.tree + s.bodies + s.questions + s.events + s.above + s.ring + s.staged; sum > gb<<30*15/16 {
			t.Errorf("of %d GiB the parts may take %d MB", gb, sum>>20)
		}
		if s.events < 32<<20 {
			t.Errorf("of %d GiB events have %d bytes, less than two of the longest messages", gb, s.events)
		}
	}
	for _, c := range []struct{ largest, process, want int64 }{
		{32 << 20, 0, 1 << 30}, {32 << 20, 64 << 30, 1 << 30}, {32 << 20, 1 << 30, 128 << 20}, {100 << 20, 1 << 30, 200 << 20},
	} {
		if got := sharesOf(c.process, 0, c.largest).bodies; got != c.want {
			t.Errorf("bodies of %d in %d may take %d, want %d", c.largest, c.process, got, c.want)
		}
	}
	for trees, want := range map[int64]int64{0: 800, 1: 790, 10: 790, 500: 300, 5000: 200} {
		if got := heapLimitFor(1000, trees); got != want {
			t.Errorf("with trees of %d the heap may be %d, want %d", trees, got, want)
		}
	}
	if processMemory() <= 0 {
		t.Error("the machine's memory is not known")
	}
}

func TestGOMEMLIMITIsTheOperators(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "1GiB")
	if newHeapLimit(1000).process != 0 {
		t.Error("it is overridden")
	}
}
