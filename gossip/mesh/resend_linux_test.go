package mesh

import (
	"crypto/tls"
	"net"
	"syscall"
	"testing"
)

// Every peer stream, dialed or accepted, has its wait for sending again
// bounded where the kernel can.
func TestPeerStreamsSendAgainSoon(t *testing.T) {
	t.Parallel()
	if err := resends(); err != nil {
		t.Skip("not known to this kernel:", err)
	}
	a := start(t, config("a"))
	b := start(t, config("b", a.Addr()))
	whole(t, a, b)
	for _, n := range []*node{a, b} {
		for _, l := range n.standing() {
			raw, err := l.conn.(*tls.Conn).NetConn().(*net.TCPConn).SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			got := 0
			if err := raw.Control(func(fd uintptr) {
				got, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpRTOMax)
			}); err != nil {
				continue // it ended meanwhile: one of two that were dialed
			}
			if err != nil || got != resendMaxMs {
				t.Errorf("%s: %d ms, %v", n.cfg.Name, got, err)
			}
		}
	}
}
