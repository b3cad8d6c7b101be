package requests

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// stuck is a reader that does not read until it is let.
type stuck struct {
	let chan struct{}
	mu  sync.Mutex
	got bytes.Buffer
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.let
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got.Write(p)
}

func (s *stuck) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got.String()
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not within a minute: " + what)
		}
	}
}

// Q3: requests go on while nobody reads the log; what is lost is counted, and
// told when it is read again.
func TestAStalledReaderHoldsNobody(t *testing.T) {
	for _, format := range []string{JSON, Text} {
		out := &stuck{let: make(chan struct{})}
		l, err := NewLog(Stdout, format, out)
		if err != nil {
			t.Fatal(err)
		}
		const lines = 3 * queued
		for range lines {
			l.Add(full()) // a test that hangs here fails by its time
		}
		if s := l.Stats(); s.Dropped < queued {
			t.Fatalf("%+v", s)
		}
		close(out.let)
		until(t, "all that was kept is written", func() bool { s := l.Stats(); return s.Written+s.Dropped == lines })
		l.Add(full())
		l.Close()
		if !strings.Contains(out.text(), "dropped") || strings.Count(out.text(), "id\":\"0011")+strings.Count(out.text(), " id=0011") != int(l.Stats().Written) {
			t.Errorf("%s: %+v, %d bytes", format, l.Stats(), len(out.text()))
		}
	}
}

// A reader that never comes back does not hold the end either.
func TestAStalledReaderDoesNotHoldTheEnd(t *testing.T) {
	out := &stuck{let: make(chan struct{})}
	l, err := NewLog(Stdout, JSON, out)
	if err != nil {
		t.Fatal(err)
	}
	l.Add(full())
	l.Close()
	close(out.let)
	<-l.ended
}

// A file that was renamed is made anew; what is no file is refused.
func TestARenamedFileIsMadeAnew(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "access.log")
	l, err := NewLog(path, Text, nil)
	if err != nil {
		t.Fatal(err)
	}
	l.Add(full())
	until(t, "the first line", func() bool { return l.Stats().Written == 1 })
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	until(t, "a new file", func() bool {
		l.Add(full())
		text, err := os.ReadFile(path)
		return err == nil && strings.Contains(string(text), "id=0011")
	})
	l.Close()
	if s := l.Stats(); s.Dropped+s.Failed > 0 {
		t.Errorf("%+v", s)
	}
	if _, err := NewLog(dir, Text, nil); err == nil {
		t.Error("a folder was opened")
	}
	if _, err := NewLog(filepath.Join(dir, "none", "x"), Text, nil); err == nil {
		t.Error("a folder that is not there was opened")
	}
}
