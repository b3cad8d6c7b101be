package main

import "testing"

func TestEveryModuleMayBePassedOn(t *testing.T) {
	list, err := modules("../..")
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 20 {
		t.Errorf("only %d modules were found", len(list))
	}
	for _, m := range list {
		licence := licenceOf(m.Dir)
		t.Logf("%-60s %-40s %s", m.Path, m.Version, licence)
		if !passable[licence] {
			t.Errorf("%s %s: licence %q is not known to allow passing it on", m.Path, m.Version, licence)
		}
	}
}
