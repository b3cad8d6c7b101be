package mesh

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// advertised is the address other peers use: what is configured, else the
// bound address, else this machine's likeliest one.
func advertised(ctx context.Context, configured string, bound *net.TCPAddr) (*net.TCPAddr, error) {
	if configured != "" {
		host, port := splitPort(configured, "0")
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("mesh.advertise: %w", err)
		}
		if n == 0 {
			n = uint64(bound.Port)
		}
		ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			return nil, fmt.Errorf("mesh.advertise: %w", err)
		}
		return &net.TCPAddr{IP: ips[0].Unmap().AsSlice(), Port: int(n)}, nil
	}
	if !bound.IP.IsUnspecified() {
		return bound, nil
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("mesh.advertise: %w", err)
	}
	ip, ok := likeliest(addrs)
	if !ok {
		return nil, fmt.Errorf("mesh.advertise: no address on any interface; set one")
	}
	return &net.TCPAddr{IP: ip.AsSlice(), Port: bound.Port}, nil
}

// likeliest picks a private IPv4 address, else any other IPv4, else IPv6,
// else loopback.
func likeliest(addrs []net.Addr) (best netip.Addr, ok bool) {
	rank := 0
	for _, a := range addrs {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil {
			continue
		}
		if r := rankOf(prefix.Addr().Unmap()); r > rank {
			best, rank = prefix.Addr().Unmap(), r
		}
	}
	return best, rank > 0
}

func rankOf(ip netip.Addr) int {
	switch {
	case ip.Is4() && ip.IsPrivate():
		return 4
	case ip.Is4() && ip.IsGlobalUnicast():
		return 3
	case ip.IsGlobalUnicast():
		return 2
	case ip.IsLoopback():
		return 1
	}
	return 0
}

// splitPort takes the port off, or gives the default one.
func splitPort(addr, port string) (string, string) {
	if h, p, err := net.SplitHostPort(addr); err == nil {
		return h, p
	}
	return addr, port
}
