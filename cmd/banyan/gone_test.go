package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/router"
)

// TestSettingsOfOlderVersionsNameTheirCure: in a file, a variable and a flag.
func TestSettingsOfOlderVersionsNameTheirCure(t *testing.T) {
	cfg := router.DefaultConfig()
	known := map[string]bool{}
	for _, o := range options(&cfg) {
		known[o.key] = true
	}
	for key, cure := range gone {
		if known[key] {
			t.Errorf("%s is a setting", key)
		}
		parts := strings.Split(key, ".")
		text := ""
		for i, part := range parts {
			text += strings.Repeat("  ", i) + part + ":"
			if i < len(parts)-1 {
				text += "\n"
			}
		}
		file := filepath.Join(t.TempDir(), "banyan.yaml")
		if err := os.WriteFile(file, []byte(text+" 1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, byFile := loadConfig([]string{"--insecure-mesh", "--config", file}, nil, io.Discard)
		_, byEnv := loadConfig([]string{"--insecure-mesh"}, []string{(option{key: key}).env() + "=1"}, io.Discard)
		_, byFlag := loadConfig([]string{"--insecure-mesh", "--" + key, "1"}, nil, io.Discard)
		for _, err := range []error{byFile, byEnv, byFlag} {
			if err == nil || !strings.Contains(err.Error(), cure) {
				t.Errorf("%s: %v", key, err)
			}
		}
	}
}
