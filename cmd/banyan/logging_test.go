package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/router"
)

func TestEveryLogEntryIsOneLine(t *testing.T) {
	fault := errors.Join(errors.New("one"), errors.New(`"@level":"two"`))
	for _, asJSON := range []bool{false, true} {
		var out bytes.Buffer
		log := newLogger(&router.LogConfig{Level: "info", JSON: asJSON}, &out)
		log.Named("mesh").Warn("first\nsecond", "err", fault, "n", 1)
		if text := out.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "one") || !strings.Contains(text, "two") {
			t.Errorf("JSON %v: %q", asJSON, text)
		}
		if !asJSON {
			continue
		}
		var doc map[string]any
		if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
			t.Fatal(err)
		}
		if doc["level"] != "warn" || doc["msg"] != "first\nsecond" || doc["time"] == nil || doc["logger"] != "banyan.mesh" || doc["err"] != fault.Error() {
			t.Errorf("%v", doc)
		}
	}
}
