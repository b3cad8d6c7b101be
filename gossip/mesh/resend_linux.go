package mesh

import (
	"net"
	"syscall"
)

const (
	tcpRTOMax   = 44    // TCP_RTO_MAX_MS, since Linux 6.15
	resendMaxMs = 1_000 // the kernel's lower bound of it
)

// resendSoon lets TCP wait at most a second before it sends again what was not
// acknowledged: a connection that stood through a partition goes on a second
// after its end, and not after a time as long as the partition. Older kernels
// do not know the option.
func resendSoon(c *net.TCPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	if err := raw.Control(func(fd uintptr) {
		set = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpRTOMax, resendMaxMs)
	}); err != nil {
		return err
	}
	return set
}
