package freeport

import (
	"net"
	"strings"
	"testing"
)

func TestAddressesAreFreeAndGivenOnce(t *testing.T) {
	seen := map[string]bool{}
	for range 50 {
		address, err := Address()
		if err != nil {
			t.Fatal(err)
		}
		if seen[address] {
			t.Fatalf("%s was given twice", address)
		}
		seen[address] = true
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			t.Fatalf("somebody listens at %s", address)
		}
	}
}

// What listens everywhere listens there, too.
func TestTakenPortsAreLeftOut(t *testing.T) {
	address, err := Address()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if free(address) {
		t.Errorf("%s is taken and called free", address)
	}
}

func TestProcessesHaveHostsOfTheirOwn(t *testing.T) {
	const most = 1 << 22 // Linux gives no larger number
	seen := make(map[string]bool)
	for _, pid := range []int{1, 255, 256, 257, 65_535, 65_536, 65_537, most / 2, most - 1} {
		host := ownHost(pid)
		if ip := net.ParseIP(host); !ip.IsLoopback() || strings.HasPrefix(host, "127.0.") || seen[host] {
			t.Errorf("process %d has %s", pid, host)
		}
		seen[host] = true
	}
}
