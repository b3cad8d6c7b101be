package router

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// closedIdle stops l from listening if nothing waits to be accepted, which the
// kernel tells as unacked; false if something does. Shutting down takes effect
// in the call; closing would do so only once the goroutine that accepts has let
// go of the descriptor.
func closedIdle(l net.Listener) (done bool) {
	s, ok := l.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return true
	}
	err = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if done = err != nil || info.Unacked == 0; done {
			_ = unix.Shutdown(int(fd), unix.SHUT_RD)
		}
	})
	return done || err != nil
}
