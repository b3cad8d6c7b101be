//go:build !linux

package mesh

import (
	"errors"
	"net"
)

// resendSoon is for Linux.
func resendSoon(*net.TCPConn) error { return errors.ErrUnsupported }
