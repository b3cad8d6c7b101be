package router

import (
	"math"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// onSocket calls f with the listener's descriptor; false if it has none.
func onSocket(l net.Listener, f func(fd int)) bool {
	s, ok := l.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	return err == nil && raw.Control(func(fd uintptr) { f(int(fd)) }) == nil
}

// hide lets the kernel refuse whoever knocks from now on: the listener is bound
// to an interface that does not exist. What has begun to connect gets through.
// False if the kernel does not do it (Linux before 5.7 only for the superuser).
func hide(l net.Listener) (done bool) {
	return onSocket(l, func(fd int) {
		done = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX, math.MaxInt32) == nil
	}) && done
}

// closedIdle stops l from listening if nothing waits to be accepted, which the
// kernel tells as unacked; false if something does. Shutting down takes effect
// in the call; closing would do so only once the goroutine that accepts has let
// go of the descriptor.
func closedIdle(l net.Listener) (done bool) {
	return !onSocket(l, func(fd int) {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if done = err != nil || info.Unacked == 0; done {
			_ = unix.Shutdown(fd, unix.SHUT_RD)
		}
	}) || done
}
