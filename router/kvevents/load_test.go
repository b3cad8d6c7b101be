package kvevents

import "testing"

func TestParseLoad(t *testing.T) {
	whole := new(pack).array(11).str("LoadStat").num(1).num(2).num(3).num(4).num(0).num(5).num(6).num(7).num(8).num(9).b
	if l, err := ParseLoad(whole); err != nil || l != (Load{1, 2, 3, 4}) {
		t.Errorf("%+v, %v", l, err)
	}
	old := new(pack).array(6).str("LoadStat").num(1).num(2).num(3).num(4).null().b
	if l, err := ParseLoad(old); err != nil || l != (Load{Running: 1, Waiting: 2, Used: 3, Capacity: 4}) {
		t.Errorf("the first release's: %+v, %v", l, err)
	}
	newer := new(pack).array(12).str("LoadStat").num(1).num(2).num(3).num(4).num(0).num(5).num(6).num(7).num(8).num(9).str("more").b
	if l, err := ParseLoad(newer); err != nil || l.Capacity != 4 {
		t.Errorf("a later one's: %+v, %v", l, err)
	}
	for name, b := range map[string][]byte{
		"empty":         {},
		"another tag":   new(pack).array(5).str("Load").num(1).num(2).num(3).num(4).b,
		"too short":     new(pack).array(3).str("LoadStat").num(1).num(2).b,
		"a lie":         new(pack).array(60_000).str("LoadStat").num(1).b,
		"text for load": new(pack).array(5).str("LoadStat").str("1").num(2).num(3).num(4).b,
		"too much":      append(append([]byte{}, whole...), 0),
		"beyond any":    new(pack).array(5).str("LoadStat").num(1 << 60).num(2).num(3).num(4).b,
	} {
		if l, err := ParseLoad(b); err == nil {
			t.Errorf("%s: %+v", name, l)
		}
	}
}

func FuzzParseLoad(f *testing.F) {
	f.Add(new(pack).array(6).str("LoadStat").num(1).num(2).num(3).num(4).null().b)
	f.Fuzz(func(_ *testing.T, b []byte) { _, _ = ParseLoad(b) })
}
