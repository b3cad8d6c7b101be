package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Bounds of DNS discovery.
const (
	maxAddresses = 1024 // per name
	// missesToBelieve is how many times in a row a name must not exist before
	// its replicas go: resolvers forget names while they restart.
	missesToBelieve = 3
	lookupTimeout   = 5 * time.Second
)

// DNS lists the addresses behind names as replicas, and looks again and again.
type DNS struct {
	Names    []string      // http://name:port
	Renders  []string      // the same, of render servers
	Every    time.Duration // between looks; default 5 s
	Template Template
	// Lookup resolves a host name; nil: the system's resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	Logger hclog.Logger // nil: silent

	trouble atomic.Pointer[string]
}

// dnsName is what is known of one name. Run's goroutine only.
type dnsName struct {
	scheme, host string
	port         int
	render       bool
	addresses    []netip.Addr
	misses       int
	answered     bool
}

// Trouble says why the list may be old; empty if it is not.
func (d *DNS) Trouble() string {
	if s := d.trouble.Load(); s != nil {
		return *s
	}
	return ""
}

// Run tells update what is there until ctx ends.
func (d *DNS) Run(ctx context.Context, update func([]Spec)) {
	names := d.parse()
	every := time.NewTicker(cmp.Or(d.Every, 5*time.Second))
	defer every.Stop()
	for {
		if d.look(ctx, names) {
			update(d.specs(names))
		}
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
}

// parse cuts the names; those that are no URL are left out (they do not pass
// the configuration's checks).
func (d *DNS) parse() []*dnsName {
	var out []*dnsName
	for i, name := range slices.Concat(d.Names, d.Renders) {
		u, err := url.Parse(name)
		if err != nil || u.Hostname() == "" {
			continue
		}
		n := &dnsName{scheme: u.Scheme, host: u.Hostname(), port: 80, render: i >= len(d.Names)}
		if u.Scheme == "https" {
			n.port = 443
		}
		if port, err := strconv.Atoi(u.Port()); err == nil {
			n.port = port
		}
		out = append(out, n)
	}
	return out
}

// look asks for every name and reports whether any ever had an answer. A name
// that cannot be resolved keeps its addresses (I6).
func (d *DNS) look(ctx context.Context, names []*dnsName) (some bool) {
	lookup := d.Lookup
	if lookup == nil {
		lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	trouble := ""
	for _, n := range names {
		lctx, cancel := context.WithTimeout(ctx, lookupTimeout)
		addresses, err := lookup(lctx, n.host)
		cancel()
		if ctx.Err() != nil {
			return false
		}
		if err == nil {
			addresses, err = withoutForbidden(addresses)
		}
		if err != nil {
			trouble = n.host + ": " + Cause(err)
		}
		n.learn(addresses, err)
		some = some || n.answered
	}
	if was := d.Trouble(); trouble != was && d.Logger != nil {
		logTrouble(d.Logger, "DNS", trouble)
	}
	d.trouble.Store(&trouble)
	return some
}

// forbidden reports whether discovery must not lead to an address: those of one
// link are where clouds keep the credentials of a machine, and none of the
// others is one replica's. A replica that is there all the same can be named
// under replicas.
func forbidden(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() || a == awsMetadata6
}

// awsMetadata6 is the one metadata service outside the addresses of a link.
var awsMetadata6 = netip.MustParseAddr("fd00:ec2::254")

// errForbidden is of an answer of which something was not taken.
type errForbidden struct{ addr netip.Addr }

func (e errForbidden) Plain() string { return e.Error() }

func (e errForbidden) Error() string {
	return fmt.Sprintf("%s is not taken from discovery, being a link-local, metadata, multicast or unspecified address; name a replica there under replicas", e.addr)
}

// withoutForbidden drops what discovery must not lead to, and names the first
// of it.
func withoutForbidden(list []netip.Addr) ([]netip.Addr, error) {
	i := slices.IndexFunc(list, forbidden)
	if i < 0 {
		return list, nil
	}
	return slices.DeleteFunc(slices.Clone(list), forbidden), errForbidden{list[i]}
}

// learn takes one answer.
func (n *dnsName) learn(addresses []netip.Addr, err error) {
	var missing *net.DNSError
	switch {
	case len(addresses) > 0 && (err == nil || errors.As(err, new(errForbidden))):
		n.misses, n.answered = 0, true
		n.addresses = n.addresses[:0]
		for _, a := range addresses[:min(len(addresses), maxAddresses)] {
			n.addresses = append(n.addresses, a.Unmap())
		}
		slices.SortFunc(n.addresses, netip.Addr.Compare)
		n.addresses = slices.Compact(n.addresses)
	case err == nil || errors.As(err, &missing) && missing.IsNotFound:
		if n.misses++; n.misses >= missesToBelieve {
			n.addresses, n.answered = nil, true
		}
	}
}

func (d *DNS) specs(names []*dnsName) []Spec {
	var out []Spec
	for _, n := range names {
		for _, a := range n.addresses {
			s := d.Template.spec("", n.scheme, a.String(), n.port)
			if n.render {
				s = Spec{URL: s.URL, Kind: KindRender, Model: s.Model, Credentials: s.Credentials}
			}
			out = append(out, s)
		}
	}
	return out
}
