package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// FuzzConfiguration: whatever a file holds, it is read or refused with its
// faults; what is read can be printed and read again.
func FuzzConfiguration(f *testing.F) {
	whole, err := os.ReadFile("../../deploy/banyan.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add([]byte("replicas:\n- {name: r0, url: 'http://a:1'}\nmesh: {insecure: true}\n"))
	f.Add([]byte("a: &a [*a]\nreplicas: *a\n"))
	f.Add([]byte("limits: {queue: 1e99, idle: -1, ttft: 5y}\npolicy: [1]\n? {}\n"))
	path := filepath.Join(f.TempDir(), "banyan.yaml")
	f.Fuzz(func(t *testing.T, text []byte) {
		read := func(text []byte) (loaded, error) {
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			return loadConfig([]string{"--config", path}, nil, io.Discard)
		}
		l, err := read(text)
		if err != nil {
			return
		}
		var told, again bytes.Buffer
		if err := printConfig(&told, l.cfg); err != nil {
			t.Fatal(err)
		}
		l, err = read(told.Bytes())
		if err != nil {
			t.Fatalf("what is printed is not read: %v\n%s", err, told.Bytes())
		}
		if err := printConfig(&again, l.cfg); err != nil || !bytes.Equal(told.Bytes(), again.Bytes()) {
			t.Fatalf("%v: printed\n%s\nthen\n%s", err, told.Bytes(), again.Bytes())
		}
	})
}
