package zmtp

import (
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"
)

// Messages of all sockets that share a room wait for it (I3): what is received or
// queued never holds more, and nothing is lost.
func TestSocketsShareARoom(t *testing.T) {
	const long, most = 200 << 10, 500 << 10 // two long messages
	room := semaphore.NewWeighted(most)
	opt := quick
	opt.MaxBytes, opt.Room = 256<<10, room
	var subs []*Sub
	for range 4 {
		pub := mustPub(t, "tcp://127.0.0.1:*", quick)
		s := DialSub(tcp(pub.Addr()), "", opt)
		t.Cleanup(func() { _ = s.Close() })
		mustRecv(t, s, Up)
		waitFor(t, "subscribed", func() bool { return pub.Subscribers() == 1 })
		for range 3 {
			pub.Send([]byte("a"), make([]byte, long))
		}
		pub.Send([]byte("b"))
		subs = append(subs, s)
	}
	queued := func() (n int) {
		for _, s := range subs {
			s.queue.mu.Lock()
			n += s.queue.bytes
			s.queue.mu.Unlock()
		}
		return n
	}
	waitFor(t, "the room is full", func() bool { return !room.TryAcquire(long) || freed(room, long) })
	if n := queued(); n > most {
		t.Errorf("%d bytes wait, most are %d", n, most)
	}
	for left := 4 * 4; left > 0; {
		for _, s := range subs {
			if got := s.queue.tryTake(nil, 1); len(got) == 1 {
				got[0].Held.Release()
				left--
			}
		}
		if n := queued(); n > most {
			t.Fatalf("%d bytes wait, most are %d", n, most)
		}
	}
	if !room.TryAcquire(most) {
		t.Error("what was taken was not given back")
	}
}

func freed(room *semaphore.Weighted, n int64) bool { room.Release(n); return false }

// A connection or socket that ends gives back what its messages took.
func TestRoomComesBack(t *testing.T) {
	room := semaphore.NewWeighted(1 << 20)
	opt := quick
	opt.MaxBytes, opt.Room = 512<<10, room
	s, err := ListenSub("tcp://127.0.0.1:*", "", opt)
	if err != nil {
		t.Fatal(err)
	}
	pub, err := DialPub(tcp(s.Addr()), quick)
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, "subscribed", func() bool { return pub.Subscribers() == 1 })
	pub.Send(make([]byte, 300<<10))
	waitFor(t, "it is queued", func() bool { return s.State().Messages == 1 })
	_ = pub.Close()
	r, _ := rawPublisher(t, s.Addr().String())
	if _, err := r.Write(appendFrame(nil, 0, make([]byte, 300<<10))[:200<<10]); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "it holds room", func() bool { return !room.TryAcquire(700<<10) || freed(room, 700<<10) })
	_ = r.Close()
	waitFor(t, "half a message gives its room back", func() bool { return room.TryAcquire(700<<10) && !freed(room, 700<<10) })
	_ = s.Close()
	if !room.TryAcquire(1 << 20) {
		t.Error("what was queued was not given back")
	}
}

// A long message that does not go on ends its connection, else it would keep the
// room that others wait for; a short one holds none.
func TestASlowMessageKeepsNoRoom(t *testing.T) {
	room := semaphore.NewWeighted(600 << 10)
	opt := quick
	opt.MaxBytes, opt.Room, opt.longMessage = 512<<10, room, 50*time.Millisecond
	s, err := ListenSub("tcp://127.0.0.1:*", "", opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	short, _ := rawPublisher(t, s.Addr().String())
	if _, err := short.Write(appendFrame(nil, 0, make([]byte, 60<<10))[:59<<10]); err != nil {
		t.Fatal(err)
	}
	long, ended := rawPublisher(t, s.Addr().String())
	if _, err := long.Write(appendFrame(nil, 0, make([]byte, 500<<10))[:400<<10]); err != nil {
		t.Fatal(err)
	}
	<-ended
	waitFor(t, "its room is given back", func() bool { return room.TryAcquire(600 << 10) })
}

// rawPublisher is a publisher that writes what the test writes; ended is closed
// when its subscriber hangs up.
func rawPublisher(t *testing.T, address string) (nc net.Conn, ended <-chan struct{}) {
	t.Helper()
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	if _, err := newConn(nc, "PUB", Options{}.withDefaults()); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = io.Copy(io.Discard, nc)
	}()
	return nc, over
}
