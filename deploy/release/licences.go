package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
)

// marks are words by which licences are known: the ones that come first in a
// text name its licence, others may be mentioned further on.
var marks = []struct{ name, words string }{
	{"GPL", "GNU GENERAL PUBLIC LICENSE"},
	{"GPL", "GNU General Public License"},
	{"AGPL", "GNU AFFERO GENERAL PUBLIC LICENSE"},
	{"BUSL", "Business Source License"},
	{"MPL-2.0", "Mozilla Public License"},
	{"Apache-2.0", "Apache License"},
	{"MIT", "Permission is hereby granted, free of charge"},
	{"BSD", "Redistribution and use in source and binary forms"},
	{"ISC", "Permission to use, copy, modify, and/or distribute"},
	{"ISC", "Permission to use, copy, modify, and distribute"},
}

// passable are licences whose terms allow to pass the binary on. MPL-2.0 asks
// for the source of its own files, which is public.
var passable = map[string]bool{"MPL-2.0": true, "Apache-2.0": true, "MIT": true, "BSD": true, "ISC": true}

// licenceOf names the licence of a module by the text in its folder.
func licenceOf(dir string) string {
	files, _ := filepath.Glob(filepath.Join(dir, "[LlCc][IiOo][CcPp][EeYy]*"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		flat := strings.Join(strings.Fields(string(text)), " ")
		first, name := len(flat), ""
		for _, m := range marks {
			if at := strings.Index(flat, m.words); at >= 0 && at < first {
				first, name = at, m.name
			}
		}
		if name != "" {
			return name
		}
	}
	return ""
}

// module is one that a binary is made of.
type module struct{ Path, Version, Dir string }

// modules lists what the binary is made of besides Banyan itself, by name.
func modules(root string) ([]module, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=Module", "./cmd/banyan")
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	seen := map[module]bool{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			Module *struct {
				module
				Main bool
			}
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if m := p.Module; m != nil && !m.Main {
			seen[m.module] = true
		}
	}
	var list []module
	for m := range seen {
		list = append(list, m)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Path < list[j].Path })
	return list, nil
}
