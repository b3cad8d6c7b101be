//go:build e2e && soak

package main

import (
	"bufio"
	be "encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// filesOf is how many files this process may open.
func filesOf(t *testing.T) int {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	return int(limit.Cur)
}

// strangers opens n connections from several addresses of loopback, hands each to
// one function in its own goroutine, and closes those that stand when it is told
// to.
type strangers struct {
	mu    sync.Mutex
	conns []net.Conn
	wg    sync.WaitGroup
}

func (c *strangers) open(to string, n int, each func(net.Conn)) (opened int) {
	for i := range n {
		d := net.Dialer{Timeout: 5 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%8))}}
		conn, err := d.Dial("tcp", to)
		if err != nil {
			continue
		}
		opened++
		c.mu.Lock()
		c.conns = append(c.conns, conn)
		c.mu.Unlock()
		c.wg.Go(func() { each(conn) })
	}
	return opened
}

func (c *strangers) close() {
	c.mu.Lock()
	for _, conn := range c.conns {
		conn.Close()
	}
	c.conns = nil
	c.mu.Unlock()
	c.wg.Wait()
}

// TestFloodsInAGiB floods one peer that may hold 1 GiB, at each of its doors. It
// lives, answers its health checks and, after each flood, requests; the table
// says what it held.
func TestFloodsInAGiB(t *testing.T) {
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	procs, most := memoryGroup(t, 1<<30)
	r := replicaProcess(t, "r0", "--time-scale", "0")
	p := launchCommand(t, exec.Command("sh", "-c", `echo $$ > "$0"; exec "$@"`, procs, path, "serve", "--insecure-mesh", "--mesh.name", "p0",
		"--http.listen", "127.0.0.1:0", "--admin.listen", "127.0.0.1:0", "--mesh.bind", "127.0.0.1:0", "--drain.delay", "100ms",
		"--limits.body_time", "20s", "--limits.queue_timeout", "20s",
		"--replicas", fmt.Sprintf("[{name: r0, url: 'http://%s', events: '%s', replay: '%s'}]", r.said["http"], r.said["events"], r.said["replay"])))
	eventually(t, "the replica is up", func() bool {
		s := p.status()
		return s != nil && s.Replicas[0].State == "up"
	})
	public, mesh := p.said["http"], p.said["mesh"]
	client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	alive := func() bool {
		res, err := client.Get("http://" + public + "/healthz")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	}
	serves := func() bool {
		_, status := p.askFor("m", "after")
		return status == http.StatusOK
	}
	drop := func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }
	t.Logf("%-34s %8s %12s", "flood", "sent", "resident MB")
	for _, f := range []struct {
		name string
		run  func(c *strangers) int
	}{
		{"idle connections", func(c *strangers) int {
			return c.open(public, min(20_000, filesOf(t)-500), func(conn net.Conn) {
				_, _ = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
				drop(conn)
			})
		}},
		{"headers that do not end", func(c *strangers) int {
			head := "POST /v1/completions HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat("a", 15<<10)
			return c.open(public, 4000, func(conn net.Conn) { _, _ = io.WriteString(conn, head); drop(conn) })
		}},
		{"bodies of 30 MB, the last byte kept", func(c *strangers) int {
			body := make([]byte, 1<<20)
			for i := range body {
				body[i] = ' '
			}
			return c.open(public, 200, func(conn net.Conn) {
				_, _ = io.WriteString(conn, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: "+strconv.Itoa(30<<20+1)+"\r\n\r\n")
				for range 30 {
					if _, err := conn.Write(body); err != nil {
						return
					}
				}
				drop(conn)
			})
		}},
		{"whole bodies of 8 MB, by 64", func(*strangers) int {
			prompt := `{"model":"m","max_tokens":1,"prompt":"` + strings.Repeat("x ", 4<<20) + `"}`
			var sent atomic.Int64
			var wg sync.WaitGroup
			for range 64 {
				wg.Go(func() {
					for range 4 {
						if res, err := client.Post("http://"+public+"/v1/completions", "application/json", strings.NewReader(prompt)); err == nil {
							_, _ = io.Copy(io.Discard, res.Body)
							res.Body.Close()
						}
						sent.Add(1)
					}
				})
			}
			wg.Wait()
			return int(sent.Load())
		}},
		{"names that nobody serves", func(*strangers) int {
			var wg sync.WaitGroup
			for w := range 64 {
				wg.Go(func() {
					for i := range 100 {
						body := fmt.Sprintf(`{"model":"invented-%d-%d","prompt":"x"}`, w, i)
						if res, err := client.Post("http://"+public+"/v1/completions", "application/json", strings.NewReader(body)); err == nil {
							res.Body.Close()
						}
					}
				})
			}
			wg.Wait()
			return 6400
		}},
		{"answers that nobody reads", func(c *strangers) int {
			body := `{"model":"m","stream":true,"max_tokens":20000,"prompt":"x"}`
			ask := fmt.Sprintf("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			return c.open(public, 1000, func(conn net.Conn) {
				_ = conn.(*net.TCPConn).SetReadBuffer(4096)
				_, _ = io.WriteString(conn, ask)
				_, _ = bufio.NewReaderSize(conn, 16).ReadByte()
				time.Sleep(5 * time.Second)
			})
		}},
		{"gossip states of 20 MB from strangers", func(c *strangers) int {
			// memberlist's label and encryptMsg, or its pushPullMsg in the clear
			head := be.BigEndian.AppendUint32(append([]byte{244, byte(len("banyan"))}, "banyan\x0a"...), 20<<20)
			junk := make([]byte, 4<<20)
			return c.open(mesh, 300, func(conn net.Conn) {
				_, _ = conn.Write(head)
				_, _ = conn.Write(junk)
				drop(conn)
			})
		}},
		{"peer streams that say nothing", func(c *strangers) int {
			return c.open(mesh, 4000, func(conn net.Conn) { _, _ = io.WriteString(conn, "\xb0bny"); drop(conn) })
		}},
		{"packets at the gossip port", func(*strangers) int {
			udp, err := net.Dial("udp", mesh)
			if err != nil {
				t.Fatal(err)
			}
			defer udp.Close()
			junk := append([]byte{244, 6}, "banyan"...)
			junk = append(junk, make([]byte, 1400)...)
			for range 200_000 {
				_, _ = udp.Write(junk)
			}
			return 200_000
		}},
	} {
		c := &strangers{}
		stop, highest := make(chan struct{}), 0
		var watch sync.WaitGroup
		watch.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(50 * time.Millisecond):
					highest = max(highest, residentMB(p.cmd.Process.Pid))
				}
			}
		})
		sent := f.run(c)
		eventually(t, f.name+": it answers its health check", alive)
		time.Sleep(2 * time.Second)
		close(stop)
		watch.Wait()
		c.close()
		t.Logf("%-34s %8d %12d", f.name, sent, highest)
		eventually(t, f.name+": it serves afterwards", serves)
	}
	if text, err := os.ReadFile(most); err == nil {
		n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		t.Logf("most that the group held: %d MB of 1024, the kernel's buffers included", n>>20)
	}
}

// TestEventsAndBodies is TestEventsAndBodiesInAGiB for longer, and with more.
func TestEventsAndBodies(t *testing.T) {
	for _, limit := range []int64{1 << 30, 2 << 30} {
		t.Run(fmt.Sprintf("%d GiB", limit>>30), func(t *testing.T) { memoryFlood(t, limit, time.Minute) })
	}
}
