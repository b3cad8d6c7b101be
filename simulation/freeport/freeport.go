package freeport

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
)

// Ports are taken from below the range that the kernel draws from (32768 and up
// on Linux).
const first, ports = 20000, 12000

var given atomic.Uint32

// Address is a loopback address at which nobody listens, by TCP or UDP. No
// other call is given it, and no other living process where all of 127.0.0.0/8
// is this host, as on Linux: there every process has an address of its own.
func Address() (string, error) {
	for range ports {
		port := first + (given.Add(1)-1)%ports
		for _, host := range [...]string{ownHost(os.Getpid()), "127.0.0.1"} {
			if address := fmt.Sprintf("%s:%d", host, port); free(address) {
				return address, nil
			}
		}
	}
	return "", errors.New("no port is free")
}

// ownHost is the loopback address of a process; no two living ones have the
// same: numbers of processes have 22 bits.
func ownHost(pid int) string {
	return net.IPv4(127, byte(64+pid>>16&63), byte(pid>>8), byte(pid)).String()
}

// free reports whether a peer could listen there.
func free(address string) bool {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return false
	}
	defer l.Close()
	u, err := net.ListenPacket("udp", address)
	if err != nil {
		return false
	}
	return u.Close() == nil
}
