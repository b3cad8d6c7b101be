//go:build e2e && linux

package main

import (
	frames "encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// weather is what a cable does to the frames that go one way through it.
type weather struct {
	delay time.Duration
	rate  int     // bytes a second, with up to queued of them waiting; 0: no limit
	loss  float64 // share of the frames
	from  []netip.Addr
	to    []netip.Addr // frames from one of from to one of to are dropped as well
}

// queued is how long a frame may wait for its turn on a cable of limited rate
// before it is dropped, as a switch would.
const queued = 300 * time.Millisecond

// cable is a link made in user space, of two TAP devices whose frames this
// process carries over. Delay, loss and rate need nothing of the kernel but
// these.
type cable struct {
	out, in atomic.Pointer[weather] // from the host to the bridge; to the host
}

// cables returns a maker of links, and the links it made.
func cables() (func(l *lan, name string), map[string]*cable) {
	made := map[string]*cable{}
	return func(l *lan, name string) {
		l.t.Helper()
		host, hub := l.tap(name, "eth0"), l.tap("hub", name)
		c := &cable{}
		c.out.Store(&weather{})
		c.in.Store(&weather{})
		made[name] = c
		ends := []chan struct{}{carry(host, hub, &c.out), carry(hub, host, &c.in)}
		l.t.Cleanup(func() {
			host.Close()
			hub.Close()
			for _, end := range ends {
				<-end
			}
		})
	}, made
}

// tap makes a TAP device in a namespace.
func (l *lan) tap(namespace, device string) (f *os.File) {
	l.t.Helper()
	err := l.within(namespace, func() error {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		ifr, err := unix.NewIfreq(device)
		if err == nil {
			ifr.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
			err = unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr)
		}
		if err != nil {
			unix.Close(fd)
			return err
		}
		f = os.NewFile(uintptr(fd), device)
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		l.t.Skipf("skipped: no TAP devices here: %v", err)
	}
	if err != nil {
		l.t.Fatalf("TAP device %s: %v", device, err)
	}
	return f
}

// carry takes frames from one device to the other, until both are closed.
func carry(from, to *os.File, now *atomic.Pointer[weather]) (done chan struct{}) {
	type frame struct {
		bytes []byte
		due   time.Time
	}
	under := make(chan frame, 4096) // way
	done = make(chan struct{})
	go func() {
		defer close(done)
		for f := range under {
			time.Sleep(time.Until(f.due))
			_, _ = to.Write(f.bytes) // a device that is down takes nothing
		}
	}()
	go func() {
		defer close(under)
		buf := make([]byte, 64<<10)
		var free time.Time // when the cable has carried what came before
		for {
			n, err := from.Read(buf)
			if errors.Is(err, os.ErrClosed) {
				return
			}
			if err != nil {
				time.Sleep(10 * time.Millisecond) // the device is down
				continue
			}
			w, at := now.Load(), time.Now()
			if rand.Float64() < w.loss || w.cut(buf[:n]) {
				continue
			}
			if w.rate > 0 {
				if free.Before(at) {
					free = at
				}
				if free.Sub(at) > queued {
					continue
				}
				free = free.Add(time.Duration(n) * time.Second / time.Duration(w.rate))
				at = free
			}
			select {
			case under <- frame{slices.Clone(buf[:n]), at.Add(w.delay)}:
			default:
			}
		}
	}()
	return done
}

// cut tells whether a frame (Ethernet; IPv4 or ARP) is of those that the
// weather keeps back.
func (w *weather) cut(frame []byte) bool {
	if len(w.from) == 0 || len(frame) < 14 {
		return false
	}
	kind, body := frames.BigEndian.Uint16(frame[12:]), frame[14:]
	var src, dst []byte
	switch {
	case kind == unix.ETH_P_IP && len(body) >= 20:
		src, dst = body[12:16], body[16:20]
	case kind == unix.ETH_P_ARP && len(body) >= 28:
		src, dst = body[14:18], body[24:28]
	default:
		return false
	}
	a, _ := netip.AddrFromSlice(src)
	b, _ := netip.AddrFromSlice(dst)
	return slices.Contains(w.from, a) && slices.Contains(w.to, b)
}

// both sets the weather of both directions.
func (c *cable) both(w weather) { c.out.Store(&w); c.in.Store(&w) }

// Real peers, links that are slow, that lose frames, that carry one way only,
// and a partition into halves of which each hears the engines; all under load.
func TestLinksBetweenNetworkNamespaces(t *testing.T) {
	link, cable := cables()
	is := newIsland(t, 4, link)
	r := &record{}
	end := is.load(r)
	defer end()
	begun := time.Now()
	time.Sleep(2 * time.Second)

	cable["p3"].both(weather{delay: 30 * time.Millisecond, rate: 250_000})
	is.shared("p0", "p3")
	is.shared("p3", "p0")
	time.Sleep(5 * time.Second)
	cable["p3"].both(weather{})
	is.whole("after a slow link")

	cable["p2"].both(weather{loss: .1})
	is.shared("p0", "p2")
	is.shared("p2", "p0")
	time.Sleep(5 * time.Second)
	cable["p2"].both(weather{})
	is.whole("after a link that lost one frame in ten")

	// Nothing of p1 arrives anywhere; it hears everybody.
	var others []netip.Addr
	addr := func(name string) netip.Addr { return netip.MustParseAddr(is.hosts[name]) }
	for _, name := range []string{"p0", "p2", "p3"} {
		others = append(others, addr(name))
	}
	cable["p1"].out.Store(&weather{from: []netip.Addr{addr("p1")}, to: others})
	eventually(t, "the others call a peer failed that is heard no more", func() bool {
		st := is.status("p0")
		return st != nil && !slices.Contains(alive(st), "p1")
	})
	cable["p1"].out.Store(&weather{})
	is.whole("after a link that carried one way only")

	left, right := []netip.Addr{addr("p0"), addr("p1")}, []netip.Addr{addr("p2"), addr("p3")}
	for name, c := range cable {
		switch name {
		case "p0", "p1":
			c.out.Store(&weather{from: left, to: right})
			c.in.Store(&weather{from: right, to: left})
		}
	}
	for half, names := range [][]string{{"p0", "p1"}, {"p2", "p3"}} {
		for _, name := range names {
			eventually(t, fmt.Sprintf("%s sees half %d alone", name, half), func() bool {
				st := is.status(name)
				return st != nil && slices.Equal(alive(st), names)
			})
		}
	}
	is.shared("p0", "p1")
	is.shared("p2", "p3")
	time.Sleep(3 * time.Second)
	for _, name := range []string{"p0", "p1"} {
		cable[name].both(weather{})
	}
	is.whole("after a partition into halves")
	end()
	is.agree()
	is.judge(r, begun)
}
