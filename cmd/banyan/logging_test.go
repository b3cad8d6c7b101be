package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/router"
)

func TestEveryLogEntryIsOneLine(t *testing.T) {
	fault := errors.Join(errors.New("one"), errors.New(`"@level":"two"`))
	for _, asJSON := range []bool{false, true} {
		var out bytes.Buffer
		log, lines := newLogger(&router.LogConfig{Level: "info", JSON: asJSON}, &out)
		log.Named("mesh").Warn("first\nsecond", "err", fault, "n", 1)
		lines.close()
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

// stalled takes lines once its reader comes.
type stalled struct {
	reader chan struct{}
	bytes.Buffer
}

func (s *stalled) Write(p []byte) (int, error) {
	<-s.reader
	return s.Buffer.Write(p)
}

func TestALogThatNobodyReadsHoldsNobody(t *testing.T) {
	out := &stalled{reader: make(chan struct{})}
	log, lines := newLogger(&router.LogConfig{Level: "info"}, out)
	for n := range logQueued + 100 {
		log.Info("line", "n", n)
	}
	lost := lines.dropped.Load() // the writer may hold one
	if lost < 99 || lost > 100 {
		t.Errorf("%d lines were dropped, want 99 or 100", lost)
	}
	close(out.reader)
	for len(lines.lines) > 0 {
		time.Sleep(time.Millisecond)
	}
	log.Info("after")
	lines.close()
	<-lines.ended
	text := out.String()
	for _, want := range []string{"line: n=0\n", "log lines dropped here", fmt.Sprintf("lines=%d\n", lost), "after\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the log", want)
		}
	}
}
