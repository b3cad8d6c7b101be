package router

import (
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/simulation/freeport"
)

// Clients knock again and again while a slow server closes its listener. Each
// is served or refused; none is accepted by the kernel and then reset.
func TestGracefulCloseLosesNobody(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("skipped: the kernel does not tell who waits")
	}
	for range 10 {
		knock(t, closeGracefully)
	}
}

func knock(t *testing.T, closeListener func(net.Listener) error) {
	t.Helper()
	address, err := freeport.Address() // clients knock on when it is closed
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	var server, clients sync.WaitGroup
	server.Go(func() {
		for {
			time.Sleep(time.Millisecond) // so that connections wait
			c, err := l.Accept()
			if err != nil {
				return
			}
			server.Go(func() {
				_, _ = io.ReadFull(c, make([]byte, 1))
				_, _ = c.Write([]byte("!"))
				_ = c.Close()
			})
		}
	})
	var served, refused atomic.Int64
	closing := make(chan struct{})
	for range 8 {
		clients.Go(func() {
			for {
				switch err := knockOnce(l.Addr().String()); {
				case errors.Is(err, errNotConnected):
					refused.Add(1)
					return
				case err != nil:
					t.Errorf("a client was neither served nor refused: %v", err)
					return
				}
				if served.Add(1) == 20 {
					close(closing)
				}
				time.Sleep(15 * time.Millisecond)
			}
		})
	}
	<-closing
	if err := closeListener(l); err != nil {
		t.Error(err)
	}
	clients.Wait()
	server.Wait()
	if refused.Load() != 8 {
		t.Errorf("served %d times, refused %d of 8 clients", served.Load(), refused.Load())
	}
}

// errNotConnected is a connect that failed: refused, or reset in the middle of
// the handshake. A balancer tries another peer then, with nothing sent.
var errNotConnected = errors.New("not connected")

func knockOnce(address string) error {
	c, err := net.DialTimeout("tcp", address, 20*time.Second)
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) {
		return errNotConnected
	}
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := c.Write([]byte("?")); err != nil {
		return err
	}
	_, err = io.ReadFull(c, make([]byte, 1))
	return err
}
