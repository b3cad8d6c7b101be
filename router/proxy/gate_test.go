package proxy

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestI6GateBoundsFlightAndQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(2, 1)
		ctx := context.Background()
		first, err1 := g.acquire(ctx, time.Minute)
		second, err2 := g.acquire(ctx, time.Minute)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		third := make(chan func())
		go func() {
			release, err := g.acquire(ctx, time.Minute)
			if err != nil {
				t.Error(err)
			}
			third <- release
		}()
		synctest.Wait()
		if _, err := g.acquire(ctx, time.Minute); !errors.Is(err, errQueueFull) {
			t.Fatal(err)
		}
		if inFlight, queued := g.load(); inFlight != 2 || queued != 1 {
			t.Fatal(inFlight, queued)
		}
		first()
		release := <-third
		if inFlight, queued := g.load(); inFlight != 2 || queued != 0 {
			t.Fatal(inFlight, queued)
		}
		release()
		second()
		if inFlight, _ := g.load(); inFlight != 0 {
			t.Fatal(inFlight)
		}
	})
}

func TestGateServesInOrderAndForgetsWhoLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(1, 10)
		hold, err := g.acquire(context.Background(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		leaving, leave := context.WithCancel(context.Background())
		results := make(chan error, 2)
		go func() {
			_, err := g.acquire(leaving, time.Minute)
			results <- err
		}()
		synctest.Wait()
		go func() {
			_, err := g.acquire(context.Background(), time.Second)
			results <- err
		}()
		synctest.Wait()
		order := make(chan int, 3)
		for i := range 3 {
			go func() {
				release, err := g.acquire(context.Background(), time.Hour)
				if err != nil {
					t.Error(err)
					return
				}
				order <- i
				release()
			}()
			synctest.Wait()
		}
		leave()
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if err := <-results; !errors.Is(err, errQueueWait) || time.Since(begin) != time.Second {
			t.Fatal(err, time.Since(begin))
		}
		hold()
		for want := range 3 {
			if got := <-order; got != want {
				t.Fatalf("%d came before %d", got, want)
			}
		}
		synctest.Wait()
		if inFlight, queued := g.load(); inFlight != 0 || queued != 0 {
			t.Fatal(inFlight, queued)
		}
	})
}

// TestGateLosesNoPlace: a place handed over in the instant in which the waiter
// gives up must not be lost.
func TestGateLosesNoPlace(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			g := newGate(1, 1)
			hold, err := g.acquire(context.Background(), time.Second)
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				if release, err := g.acquire(context.Background(), time.Second); err == nil {
					release()
				}
			}()
			synctest.Wait()
			time.Sleep(time.Second)
			hold()
			synctest.Wait()
			if inFlight, queued := g.load(); inFlight != 0 || queued != 0 {
				t.Fatal(inFlight, queued)
			}
		})
	}
}

func TestQueueFullIs429(t *testing.T) {
	g := newRig(t, func(c *Config) { c.Limits.Concurrency, c.Limits.Queue = 1, -1 }, ok)
	release, err := g.handler.gate.acquire(context.Background(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if a := g.chat(plainChat); a.status != 429 || a.header.Get("Retry-After") == "" || errorCode(t, a) != "overloaded" {
		t.Fatalf("%+v", a)
	}
	release()
	if a := g.chat(plainChat); a.status != 200 {
		t.Fatalf("%+v", a)
	}
}

func TestGateTakesNewNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(1, 2)
		hold, err := g.acquire(t.Context(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		let := make(chan func(), 2)
		for range 2 {
			go func() {
				release, err := g.acquire(t.Context(), time.Minute)
				if err != nil {
					t.Error(err)
				}
				let <- release
			}()
		}
		synctest.Wait()
		g.resize(3, 0)
		a, b := <-let, <-let
		g.resize(1, 0)
		hold()
		a()
		if _, err := g.acquire(t.Context(), time.Minute); !errors.Is(err, errQueueFull) {
			t.Errorf("%v: one is in, one may be", err)
		}
		b()
		if inFlight, queued := g.load(); inFlight != 0 || queued != 0 {
			t.Error(inFlight, queued)
		}
	})
}
