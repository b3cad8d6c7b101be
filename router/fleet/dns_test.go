package fleet

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func urls(specs []Spec) (out []string) {
	for _, s := range specs {
		out = append(out, s.URL)
	}
	return out
}

func equal(a []string, b ...string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestDNSListsAddressesAndForgetsThemOnlyWhenTheNameIsGone(t *testing.T) {
	var answer []netip.Addr
	var fault error
	d := &DNS{
		Names:    []string{"http://pool:8000", "https://tls"},
		Template: Template{Engine: "sglang", EventsPort: 5557, ReplayPort: 5558, Role: "decode"},
		Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
			if host == "tls" {
				return nil, errors.New("lookup tls: server misbehaving")
			}
			return answer, fault
		},
	}
	names := d.parse()
	if d.look(t.Context(), nil) {
		t.Error("nothing was asked, and there was an answer")
	}
	fault = errors.New("i/o timeout")
	if d.look(t.Context(), names) {
		t.Error("I6: a resolver that never answered is no empty list")
	}
	fault, answer = nil, []netip.Addr{netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("::ffff:10.0.0.1"), netip.MustParseAddr("fd00::1"), netip.MustParseAddr("10.0.0.2")}
	if !d.look(t.Context(), names) || !equal(urls(d.specs(names)), "http://10.0.0.1:8000", "http://10.0.0.2:8000", "http://[fd00::1]:8000") {
		t.Errorf("%q", urls(d.specs(names)))
	}
	if s := d.specs(names)[2].withDefaults(); s.Events != "tcp://[fd00::1]:5557" || s.Replay != "tcp://[fd00::1]:5558" || s.Role != "decode" || s.Name != "[fd00::1]:8000" || ValidateSpecs([]Spec{s}) != nil {
		t.Errorf("%+v", s)
	}
	fault = errors.New("i/o timeout")
	for range 10 {
		d.look(t.Context(), names)
	}
	if len(d.specs(names)) != 3 || d.Trouble() == "" {
		t.Errorf("I6: %q after time-outs, trouble %q", urls(d.specs(names)), d.Trouble())
	}
	fault = &net.DNSError{Err: "no such host", Name: "pool", IsNotFound: true}
	for i := range missesToBelieve {
		if len(d.specs(names)) != 3 {
			t.Errorf("gone after %d misses", i)
		}
		d.look(t.Context(), names)
	}
	if len(d.specs(names)) != 0 {
		t.Errorf("%q after the name is gone", urls(d.specs(names)))
	}
}

// A name that leads to a machine's credentials, or to no machine, is not
// followed there.
func TestDiscoveryLeadsToNoForbiddenAddress(t *testing.T) {
	var answer []netip.Addr
	d := &DNS{Names: []string{"http://pool:8000"}, Lookup: func(context.Context, string) ([]netip.Addr, error) { return answer, nil }}
	names := d.parse()
	for _, bad := range []string{"169.254.169.254", "::ffff:169.254.169.254", "fe80::1", "fd00:ec2::254", "0.0.0.0", "::", "224.0.0.1", "ff02::1"} {
		answer = []netip.Addr{netip.MustParseAddr("10.0.0.1")}
		if d.look(t.Context(), names); d.Trouble() != "" {
			t.Errorf("trouble %q with a good address", d.Trouble())
		}
		answer = append(answer, netip.MustParseAddr(bad), netip.MustParseAddr("10.0.0.2"))
		d.look(t.Context(), names)
		if !equal(urls(d.specs(names)), "http://10.0.0.1:8000", "http://10.0.0.2:8000") || !strings.Contains(d.Trouble(), "is not taken from discovery") {
			t.Errorf("%s: %q, trouble %q", bad, urls(d.specs(names)), d.Trouble())
		}
		answer = answer[1:2]
		d.look(t.Context(), names)
		if !equal(urls(d.specs(names)), "http://10.0.0.1:8000", "http://10.0.0.2:8000") || !strings.Contains(d.Trouble(), "is not taken from discovery") {
			t.Errorf("%s alone: %q, trouble %q", bad, urls(d.specs(names)), d.Trouble())
		}
		p := pods{}
		if _, err := p.apply([]byte(`{"type":"ADDED","object":{"metadata":{"name":"a","namespace":"x","resourceVersion":"1"},` +
			`"status":{"phase":"Running","podIP":"` + bad + `","conditions":[{"type":"Ready","status":"True"}]}}}`)); err != nil {
			t.Fatal(err)
		}
		if got := p.specs(8000, &Template{}, false); len(got) != 0 {
			t.Errorf("a pod at %s is %+v", bad, got)
		}
	}
}

// Render servers share the replicas' model and credentials, and have no events.
func TestDNSListsRenderServers(t *testing.T) {
	d := &DNS{
		Names: []string{"http://pool:8000"}, Renders: []string{"http://render:9000"},
		Template: Template{Engine: "vllm", EventsPort: 5557, ReplayPort: 5558, Ranks: 4, Topic: "kv", Role: "decode", Model: "m", Credentials: "c"},
		Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr(map[string]string{"pool": "10.0.0.1", "render": "10.0.1.1"}[host])}, nil
		},
	}
	names := d.parse()
	if !d.look(t.Context(), names) {
		t.Fatal("no answer")
	}
	specs := d.specs(names)
	if len(specs) != 2 || specs[0].Kind != "" || specs[0].Events == "" {
		t.Fatalf("%+v", specs)
	}
	want := Spec{URL: "http://10.0.1.1:9000", Kind: KindRender, Model: "m", Credentials: "c"}
	if !specs[1].same(&want) || ValidateSpecs([]Spec{specs[1].withDefaults()}) != nil {
		t.Errorf("%+v", specs[1])
	}
}

func TestDNSLooksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		last := byte(1)
		d := &DNS{
			Names: []string{"http://pool:80"}, Every: 5 * time.Second,
			Lookup: func(context.Context, string) ([]netip.Addr, error) {
				last++
				return []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, last})}, nil
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		var seen []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			d.Run(ctx, func(specs []Spec) { seen = append(seen, specs[0].URL) })
		}()
		time.Sleep(11 * time.Second) // of the test's own clock
		cancel()
		<-done
		if !equal(seen, "http://10.0.0.2:80", "http://10.0.0.3:80", "http://10.0.0.4:80") {
			t.Errorf("%q", seen)
		}
	})
}
