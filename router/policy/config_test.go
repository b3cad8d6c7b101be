package policy

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestValidateNamesEveryFault(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Tiers.CPU = -1
	cfg.CacheAware.Gate = "ajar"
	cfg.Cost.Block = 0
	cfg.TTFT.YoungCap = 0
	cfg.Sticky.Share = 1.5
	err := cfg.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, key := range []string{"tiers.cpu", "cache_aware.gate", "cost.block", "ttft.young_cap", "sticky.share"} {
		if !strings.Contains(err.Error(), key+": ") {
			t.Errorf("no word about %s in %q", key, err)
		}
	}
	def := DefaultConfig()
	if err := def.Validate(); err != nil {
		t.Errorf("the default is refused: %v", err)
	}
}

func TestConfigSurvivesYAML(t *testing.T) {
	want := DefaultConfig()
	want.TTFT.SessionSlack = 0.25
	out, err := yaml.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Config
	dec := yaml.NewDecoder(bytes.NewReader(out))
	dec.KnownFields(true)
	if err := dec.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestEveryKnobHasAKeyAndADoc(t *testing.T) {
	var walk func(reflect.Type, string)
	walk = func(typ reflect.Type, at string) {
		for f := range typ.Fields() {
			if f.Tag.Get("yaml") == "" {
				t.Errorf("%s%s has no yaml key", at, f.Name)
			}
			if f.Type.Kind() == reflect.Struct {
				walk(f.Type, at+f.Name+".")
			} else if f.Tag.Get("doc") == "" {
				t.Errorf("%s%s has no doc", at, f.Name)
			}
		}
	}
	walk(reflect.TypeFor[Config](), "")
}
