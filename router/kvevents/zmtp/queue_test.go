package zmtp

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

func TestQueueAgainstSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		maxLen := rapid.IntRange(1, 8).Draw(t, "maxLen")
		maxBytes := rapid.IntRange(1, 50).Draw(t, "maxBytes")
		q := newQueue[int](maxLen, maxBytes)
		var model, sizes []int
		for i := range rapid.IntRange(1, 100).Draw(t, "ops") {
			if rapid.Bool().Draw(t, "put") {
				size := rapid.IntRange(0, 60).Draw(t, "size")
				sum := size
				for _, n := range sizes {
					sum += n
				}
				fits := len(model) == 0 || len(model) < maxLen && sum <= maxBytes
				if got := q.tryPut(i, size); got != fits {
					t.Fatalf("I3: put of %d bytes on %v: %v, want %v", size, sizes, got, fits)
				}
				if fits {
					model, sizes = append(model, i), append(sizes, size)
				}
				continue
			}
			n := min(rapid.IntRange(0, 5).Draw(t, "n"), len(model))
			if got := q.tryTake(nil, n); !slices.Equal(got, model[:n]) {
				t.Fatalf("took %v, want %v", got, model[:n])
			}
			model, sizes = model[n:], sizes[n:]
		}
	})
}

func TestQueuePutWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const putters, each = 5, 40
		ctx, cancel := context.WithCancel(t.Context())
		q := newQueue[int](3, 1000)
		for p := range putters {
			go func() {
				for i := range each {
					if err := q.put(ctx, p*1000+i, 1); err != nil {
						t.Errorf("put: %v", err)
					}
				}
			}()
		}
		last := make([]int, putters)
		for taken := 0; taken < putters*each; {
			synctest.Wait() // every putter is stuck or done: only room can help them
			got, err := q.take(ctx, nil, 2)
			if err != nil {
				t.Fatal(err)
			}
			taken += len(got)
			for _, v := range got {
				if p, i := v/1000, v%1000; i != last[p] {
					t.Fatalf("I4: putter %d: got %d, want %d", p, i, last[p])
				} else {
					last[p]++
				}
			}
		}
		cancel()
		if _, err := q.take(ctx, nil, 1); !errors.Is(err, context.Canceled) {
			t.Fatalf("take after the end: %v", err)
		}
		q.tryPut(1, 1000)
		if err := q.put(ctx, 2, 1000); !errors.Is(err, context.Canceled) {
			t.Fatalf("put after the end: %v", err)
		}
	})
}
