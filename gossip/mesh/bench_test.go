package mesh

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/banyan-llm/banyan/gossip"
)

// joined starts two peers whose cores only pass on what they are told, and
// returns when both have a bulk connection.
func joined(b *testing.B, ring []string, on func(gossip.Event) []gossip.Effect) (from *Mesh, conn gossip.Conn) {
	b.Helper()
	up := make(chan gossip.Conn, 16)
	first := config("first")
	other := config("other")
	dialer := &scriptCore{}
	dialer.on = func(ev gossip.Event) []gossip.Effect {
		switch ev := ev.(type) {
		case gossip.MemberUp:
			return []gossip.Effect{gossip.Dial{Peer: ev.Peer, Class: gossip.Bulk}}
		case gossip.Connected:
			up <- ev.Conn
			return []gossip.Effect{gossip.Send{Conn: ev.Conn, Kind: "hello", Data: []byte("hello")}}
		}
		return on(ev)
	}
	echo := &scriptCore{}
	echo.on = func(ev gossip.Event) []gossip.Effect {
		switch ev := ev.(type) {
		case gossip.Connected:
			return []gossip.Effect{gossip.Send{Conn: ev.Conn, Kind: "hello", Data: []byte("hello")}}
		case gossip.Received:
			if len(ev.Data) > 0 && ev.Data[0] == 'e' { // asks for an echo
				return []gossip.Effect{gossip.Send{Conn: ev.Conn, Kind: "ack", Data: ev.Data[:8]}}
			}
		}
		return nil
	}
	var meshes []*Mesh
	for i, cfg := range []Config{other, first} {
		cfg.Keyring, cfg.Insecure, cfg.Registerer = ring, len(ring) == 0, prometheus.NewRegistry()
		cfg.Core = []Core{echo, dialer}[i]
		if i == 1 {
			cfg.Join = []string{meshes[0].Addr()}
		}
		m, err := New(cfg)
		if err != nil {
			b.Fatal(err)
		}
		if err := m.Start(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = m.Close() })
		meshes = append(meshes, m)
	}
	select {
	case conn = <-up:
	case <-time.After(patience):
		b.Fatal("no connection")
	}
	return meshes[1], conn
}

// BenchmarkFrames moves frames from loop to loop, a window of 64 of them under
// way; it counts the frames of one direction.
func BenchmarkFrames(b *testing.B) {
	for name, ring := range map[string][]string{"plain": nil, "tls": {key("k1")}} {
		for _, size := range []int{256, 16 << 10} {
			b.Run(fmt.Sprintf("%s/%dB", name, size), func(b *testing.B) {
				acks := make(chan struct{}, 64)
				m, conn := joined(b, ring, func(ev gossip.Event) []gossip.Effect {
					if r, ok := ev.(gossip.Received); ok && len(r.Data) == 8 {
						acks <- struct{}{}
					}
					return nil
				})
				plain, ask := make([]byte, size), make([]byte, size)
				ask[0] = 'e'
				const window = 32
				put := func() {
					m.inbox.call(func() {
						for i := range window {
							data := plain
							if i == window-1 {
								data = ask
							}
							m.send(gossip.Send{Conn: conn, Kind: "slots", Data: data})
						}
					})
				}
				b.SetBytes(int64(size))
				b.ReportAllocs()
				b.ResetTimer()
				put()
				for n := 0; n < b.N; n += window {
					put()
					<-acks
				}
				<-acks
			})
		}
	}
}

// BenchmarkRoundTrip is one small frame there and back, through both loops.
func BenchmarkRoundTrip(b *testing.B) {
	for name, ring := range map[string][]string{"plain": nil, "tls": {key("k1")}} {
		b.Run(name, func(b *testing.B) {
			back := make(chan struct{}, 1)
			m, conn := joined(b, ring, func(ev gossip.Event) []gossip.Effect {
				if r, ok := ev.(gossip.Received); ok && len(r.Data) == 8 {
					back <- struct{}{}
				}
				return nil
			})
			ask := []byte("e2345678")
			for b.Loop() {
				m.inbox.call(func() { m.send(gossip.Send{Conn: conn, Kind: "load", Data: ask}) })
				<-back
			}
		})
	}
}

// BenchmarkLoopbackEcho is the yardstick of BenchmarkRoundTrip: 8 bytes there
// and back over a bare TCP connection.
func BenchmarkLoopbackEcho(b *testing.B) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.Copy(c, bufio.NewReader(c))
	}()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	buf := make([]byte, 8)
	for b.Loop() {
		if _, err := c.Write(buf); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c, buf); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkInbox is the cost of one frame's way through the inbox.
func BenchmarkInbox(b *testing.B) {
	q := newInbox()
	data := make([]byte, 256)
	b.ReportAllocs()
	for b.Loop() {
		class := gossip.Class(rand.IntN(gossip.Classes))
		if err := q.received(b.Context(), class, gossip.Received{Conn: 1, Data: data}); err != nil {
			b.Fatal(err)
		}
		q.next()
	}
}
