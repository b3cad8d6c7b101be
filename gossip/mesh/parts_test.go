package mesh

import (
	"bytes"
	"encoding/hex"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
)

func TestValidateNamesEveryFault(t *testing.T) {
	cfg := Config{
		Name: "two words", Bind: "nowhere", Advertise: "a b", Join: []string{"ok:1", "x:y:z"}, Label: strings.Repeat("x", 256),
		Keyring: []string{"!", "AAAA"}, TLS: TLSFiles{Cert: "c"}, Version: "v 1", HTTP: strings.Repeat("h", 128),
	}
	err := cfg.Validate()
	if err == nil {
		t.Fatal("no fault found")
	}
	for _, want := range []string{
		"mesh.name: \"two words\"", "no peer id", "no core", "mesh.bind", "mesh.advertise", "mesh.join[1]", "mesh.label",
		"mesh.keyring[0]", "mesh.keyring[1]", "mesh.tls", "version", "http",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("fault %q is not reported in:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "AAAA") {
		t.Error("the fault shows a key")
	}
	cfg = config("a")
	cfg.Core = &scriptCore{}
	if err := cfg.Validate(); err != nil {
		t.Errorf("a good configuration: %v", err)
	}
	cfg.Keyring = nil
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "mesh.key: ") {
		t.Errorf("without a keyring: %v", err)
	}
	if _, err := New(cfg); err == nil {
		t.Error("New accepts what Validate does not")
	}
	cfg.Insecure = true
	if err := cfg.Validate(); err != nil {
		t.Errorf("insecure without a keyring: %v", err)
	}
}

func TestNewReportsWhatItCannotUse(t *testing.T) {
	base := config("a")
	base.Core = &scriptCore{}
	for name, change := range map[string]func(*Config){
		"files": func(c *Config) { c.TLS = TLSFiles{Cert: "/nowhere", Key: "/nowhere", CA: "/nowhere"} },
		"bind":  func(c *Config) { c.Bind = "192.0.2.1:1" },
		"advertise": func(c *Config) {
			c.Advertise = "no-such-host.invalid:1"
		},
	} {
		cfg := base
		change(&cfg)
		if m, err := New(cfg); err == nil {
			t.Errorf("%s: no error", name)
			_ = m.Close()
		}
	}
}

func TestPreambleRoundTrip(t *testing.T) {
	for class := range gossip.Class(gossip.Classes) {
		for _, secure := range []bool{false, true} {
			p := preamble{class: class, tls: secure}
			if got, err := parsePreamble(p.bytes()); err != nil || got != p {
				t.Errorf("%+v came back as %+v, %v", p, got, err)
			}
		}
	}
	if got := hex.EncodeToString(preamble{class: gossip.Bulk, tls: true}.bytes()); got != "b0626e79010101" {
		t.Errorf("preamble is %s", got) // part of the protocol
	}
	if magic[0] == labelByte || magic[0] < 16 {
		t.Error("the magic begins like a stream of memberlist")
	}
}

func FuzzPreamble(f *testing.F) {
	f.Add(preamble{}.bytes())
	f.Add([]byte(magic))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parsePreamble(b)
		if err == nil && !bytes.Equal(p.bytes(), b) {
			t.Errorf("%x parses as %+v", b, p)
		}
	})
}

func FuzzFirstBytesOfAPacket(f *testing.F) {
	f.Add([]byte("\xf4\x04testx"))
	f.Add([]byte("\xf4\x04tes"))
	f.Add([]byte{})
	header := labelHeader("test")
	f.Fuzz(func(t *testing.T, b []byte) {
		ok, why := ours(b, header)
		_, label, err := memberlist.RemoveLabelHeaderFromPacket(bytes.Clone(b))
		if accepts := err == nil && label == "test"; accepts != ok {
			t.Errorf("%x: ours %v, memberlist %v", b, ok, accepts)
		}
		if ok == (why != "") {
			t.Errorf("%x: ours %v for cause %q", b, ok, why)
		}
	})
}

func FuzzMemberTags(f *testing.F) {
	cfg := config("a")
	tags := tagsOf(&cfg, &word{ready: true})
	f.Add(tags[tagID], tags[tagName], tags[tagHTTP], tags[tagProtocol])
	f.Add("zz", "\x00\n", strings.Repeat("x", 1000), "99999999999999999999")
	f.Fuzz(func(t *testing.T, id, name, http, protocol string) {
		m, err := memberOf(serf.Member{Addr: net.IPv4(127, 0, 0, 1), Port: 1, Tags: map[string]string{
			tagID: id, tagName: name, tagHTTP: http, tagProtocol: protocol,
		}})
		if err != nil {
			return
		}
		if m.ID.String() != strings.ToLower(id) || len(m.Name) > maxNodeName || len(m.HTTP) > maxHTTP ||
			strings.ContainsAny(m.Name+m.HTTP, " \n\x00") {
			t.Errorf("%+v", m)
		}
	})
}

func TestTagsFitSerf(t *testing.T) {
	cfg := config(strings.Repeat("n", maxNodeName))
	cfg.HTTP, cfg.Version = strings.Repeat("h", maxHTTP), strings.Repeat("v", maxVersion)
	n := newNode(t, cfg)
	if err := n.Start(); err != nil {
		t.Errorf("the longest tags: %v", err)
	}
	if err := n.serf.SetTags(tagsOf(&cfg, &word{settings: strings.Repeat("s", maxSettings+1)})); err != nil {
		t.Errorf("the longest tags with settings: %v", err)
	}
}

func TestOldestHandshakeYields(t *testing.T) {
	var out []net.Conn
	l := newHandshakes(2, maxHandshakeBytes, func(c net.Conn, _ cause) { out = append(out, c) })
	var conns []net.Conn
	var guests []*guest
	for range 4 {
		c, far := net.Pipe()
		defer far.Close()
		conns = append(conns, c)
		guests = append(guests, l.enter(c))
		if len(conns) == 2 {
			guests[0].leave()
			guests[0].leave()
		}
	}
	if len(out) != 1 || out[0] != conns[1] {
		t.Errorf("%d yielded, want the second alone", len(out))
	}
	if conns[1].SetDeadline(time.Time{}) == nil {
		t.Error("the one that yielded is open")
	}
	guests[1].leave() // it is gone already
	l.close()
	if conns[3].SetDeadline(time.Time{}) == nil {
		t.Error("open after the lobby closed")
	}
	if l.enter(conns[0]) != nil {
		t.Error("a closed lobby lets in")
	}
	guests[2].leave()
	if l.left(time.Millisecond) {
		t.Error("a guest that has not left is not waited for")
	}
	guests[3].leave()
	guests[3].leave()
	if !l.left(time.Minute) {
		t.Error("the last has left, and is waited for")
	}
	(*guest)(nil).leave()
}

func TestAmongHandshakesWhoSentMostYields(t *testing.T) {
	type end struct {
		conn net.Conn
		why  cause
	}
	var out []end
	l := newHandshakes(10, 100, func(c net.Conn, why cause) { out = append(out, end{c, why}) })
	in := make([]*guest, 3)
	for i := range in {
		c, far := net.Pipe()
		defer far.Close()
		in[i] = l.enter(c)
	}
	in[0].took(20)
	in[1].took(60)
	in[2].took(20)
	if len(out) != 0 {
		t.Fatalf("%v yielded within the bound", out)
	}
	in[2].took(1)
	if len(out) != 1 || out[0] != (end{in[1].conn, causeCrowd}) {
		t.Fatalf("%v yielded, want the one that sent 60", out)
	}
	in[1].took(1000) // what it had sent before it was ended
	in[0].took(59)
	if len(out) != 1 || l.bytes != 100 {
		t.Errorf("%d yielded, %d bytes count, want 1 and 100", len(out), l.bytes)
	}
	in[0].leave()
	in[2].leave()
	in[1].leave()
	if l.bytes != 0 || l.guests.Len() != 0 {
		t.Errorf("%d bytes of %d guests count after all have left", l.bytes, l.guests.Len())
	}

	c, far := net.Pipe()
	defer far.Close()
	l = newHandshakes(10, 10*guestBytesMax, func(c net.Conn, why cause) { out = append(out, end{c, why}) })
	g := l.enter(c)
	g.took(guestBytesMax)
	g.took(1)
	if len(out) != 2 || out[1] != (end{c, causeOversize}) {
		t.Errorf("%v yielded, want the one beyond its own bound", out[1:])
	}
}

func TestTheRosterIsFull(t *testing.T) {
	r := newRoster(crdt.PeerID{1})
	now := time.Unix(0, 0)
	for i := range rosterMax - 1 {
		r.apply("m"+strconv.Itoa(i), Member{ID: crdt.PeerID{byte(i), byte(i >> 8), 1}}, Failed, now)
	}
	told := 0
	b := bouncer{roster: r, refused: func(error) { told++ }}
	known, one, two := &serf.Member{Name: "m7"}, &serf.Member{Name: "new1"}, &serf.Member{Name: "new2"}
	if err := b.NotifyMerge([]*serf.Member{known, one}); err != nil || told != 0 {
		t.Errorf("one more is refused: %v", err)
	}
	if err := b.NotifyMerge([]*serf.Member{one, two}); err == nil || told != 1 {
		t.Error("two more are taken where one has room")
	}
	r.apply("new1", Member{}, Alive, now)
	if err := b.NotifyMerge([]*serf.Member{known, one}); err != nil {
		t.Errorf("known members are refused: %v", err)
	}
	if b.NotifyMerge([]*serf.Member{two}) == nil {
		t.Error("one more than all is taken")
	}
}

func TestOnceIsBoundedAndForgets(t *testing.T) {
	now := time.Unix(0, 0)
	o := newOnce(func() time.Time { return now }, time.Minute)
	if !o.first("a") || o.first("a") || !o.first("b") {
		t.Error("not once a key")
	}
	for i := range 2 * onceMax {
		o.first(string(rune(i + 1000)))
	}
	if len(o.said) > onceMax {
		t.Errorf("%d keys are remembered", len(o.said))
	}
	if o.first("new") {
		t.Error("a full memory calls something first")
	}
	now = now.Add(time.Minute)
	if !o.first("new") || !o.first("a") {
		t.Error("nothing is forgotten")
	}
}

func TestSerfLinesAreSaidOnceAndKeysCounted(t *testing.T) {
	var out bytes.Buffer
	log := hclog.New(&hclog.LoggerOptions{Output: &out, Level: hclog.Info})
	keys := 0
	l := newSerfLog(log, newOnce(time.Now, time.Minute), func() { keys++ }, func() {})
	for _, s := range []string{
		"[ERR] memberlist: Decrypt packet failed: no installed keys could decrypt the message from=1.2.3.4:5",
		"[ERR] memberlist: Decrypt packet failed: no installed keys could decrypt the message from=1.2.3.5:6",
		"[ERR] memberlist: discarding stream with unacceptable label \"x\": from=1.2.3.4:5",
		"[ERR] memberlist: discarding stream with unacceptable label \"yy\": from=1.2.3.4:5",
		"[INFO] serf: EventMemberJoin: a 1.2.3.4",
		"[INFO] serf: EventMemberJoin: a 1.2.3.4",
		"[DEBUG] memberlist: Stream connection",
	} {
		l.Print(s)
	}
	if keys != 2 {
		t.Errorf("%d lines about keys, want 2", keys)
	}
	if got := out.String(); strings.Count(got, "[ERROR]") != 2 || strings.Count(got, "[INFO]") != 2 || strings.Contains(got, "DEBUG") {
		t.Errorf("log:\n%s", got)
	}
}

func TestLikeliestAddress(t *testing.T) {
	addr := func(s string) net.Addr {
		ip, n, err := net.ParseCIDR(s)
		if err != nil {
			t.Fatal(err)
		}
		n.IP = ip
		return n
	}
	for _, c := range []struct {
		want string
		of   []string
	}{
		{"10.1.2.3", []string{"127.0.0.1/8", "fe80::1/64", "8.8.8.8/24", "2001:db8::1/64", "10.1.2.3/8"}},
		{"8.8.8.8", []string{"127.0.0.1/8", "2001:db8::1/64", "8.8.8.8/24"}},
		{"2001:db8::1", []string{"fe80::1/64", "2001:db8::1/64", "::1/128"}},
		{"127.0.0.1", []string{"127.0.0.1/8", "fe80::1/64"}},
		{"", []string{"fe80::1/64"}},
	} {
		var addrs []net.Addr
		for _, s := range c.of {
			addrs = append(addrs, addr(s))
		}
		got, ok := likeliest(addrs)
		if ok != (c.want != "") || ok && got.String() != c.want {
			t.Errorf("of %v: %v", c.of, got)
		}
	}
}

func TestSeedAddresses(t *testing.T) {
	for seed, want := range map[string]string{
		"127.0.0.1:1234": "127.0.0.1:1234", "127.0.0.1": "127.0.0.1:7000", "[::1]:5": "[::1]:5", "::1": "[::1]:7000",
	} {
		got, err := resolveSeed(t.Context(), seed, "7000")
		if err != nil || len(got) != 1 || got[0].String() != want {
			t.Errorf("%s: %v, %v", seed, got, err)
		}
	}
	for _, seed := range []string{"127.0.0.1:99999", "no-such-host.invalid:1"} {
		if _, err := resolveSeed(t.Context(), seed, "7000"); err == nil {
			t.Errorf("%s: no error", seed)
		}
	}
}

func TestRosterIsBounded(t *testing.T) {
	r := newRoster(crdt.PeerID{})
	for i := range rosterMax + 10 {
		r.apply(string(rune(i)), Member{ID: crdt.PeerID{1, byte(i), byte(i >> 8)}}, Alive, time.Time{})
	}
	if n := len(r.list()); n != rosterMax {
		t.Errorf("%d members are remembered", n)
	}
}
