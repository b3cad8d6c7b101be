package policy

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestValidateNamesEveryFault(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Tiers.CPU = -1
	cfg.TTFT.StaleMs = math.NaN()
	cfg.TTFT.HolderSteps = -1
	cfg.Disagg.Mode = "sometimes"
	err := cfg.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, key := range []string{"tiers.cpu", "ttft.stale_ms", "ttft.holder_steps", "disaggregate.mode"} {
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
	want.TTFT.HolderSteps = 0.25
	out, err := yaml.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got := DefaultConfig()
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
			key := f.Tag.Get("yaml")
			if key == "-" {
				continue
			}
			if key == "" {
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
