package load

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestSlowStartRisesToOneAndIsNeverZero(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		length := time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "length"))
		a := time.Duration(rapid.Int64Range(-int64(time.Second), int64(2*time.Minute)).Draw(t, "age"))
		b := a + time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "later"))
		x, y := SlowStart(a, length), SlowStart(b, length)
		if x < minWeight || y > 1 || x > y {
			t.Fatalf("%v at %v, %v at %v of %v", x, a, y, b, length)
		}
		if a >= length && x != 1 {
			t.Fatalf("%v after %v of %v", x, a, length)
		}
	})
}
