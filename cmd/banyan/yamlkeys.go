package main

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// keyFaults finds everything in a YAML document that cannot be read into a
// value of a type: unknown keys, and values of another kind. Each fault begins
// with the whole key and tells the line. lines are those of all known keys.
func keyFaults(doc *yaml.Node, t reflect.Type) (lines map[string]int, err error) {
	w := keyWalk{lines: map[string]int{}}
	if len(doc.Content) > 0 {
		w.walk(doc.Content[0], t, "")
	}
	return w.lines, errors.Join(w.faults...)
}

// withLines adds the line of the file to every fault that begins with a key
// that stands there.
func withLines(err error, lines map[string]int) error {
	if err == nil {
		return nil
	}
	var out []error
	for fault := range strings.SplitSeq(err.Error(), "\n") {
		key, _, _ := strings.Cut(fault, ": ")
		if line := lines[key]; line > 0 {
			fault = fmt.Sprintf("%s (line %d)", fault, line)
		}
		out = append(out, errors.New(fault))
	}
	return errors.Join(out...)
}

// keyWalk collects faults, and where keys stand.
type keyWalk struct {
	faults []error
	lines  map[string]int
}

func (w *keyWalk) fault(n *yaml.Node, key, format string, args ...any) {
	if key == "" {
		key = "the document"
	}
	w.faults = append(w.faults, fmt.Errorf("%s: %s (line %d)", key, fmt.Sprintf(format, args...), n.Line))
}

func (w *keyWalk) walk(n *yaml.Node, t reflect.Type, key string) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
	case t.Kind() == reflect.Struct:
		w.section(n, t, key)
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		if n.Kind != yaml.SequenceNode {
			w.fault(n, key, "must be a list, each item with - in front")
			return
		}
		for i, item := range n.Content {
			w.walk(item, t.Elem(), fmt.Sprintf("%s[%d]", key, i))
		}
	default:
		if err := n.Decode(reflect.New(t).Interface()); err != nil {
			w.fault(n, key, "want %s", wanted(n, t))
		}
	}
}

// section walks a mapping beside the fields of a struct.
func (w *keyWalk) section(n *yaml.Node, t reflect.Type, key string) {
	if n.Kind != yaml.MappingNode {
		w.fault(n, key, "must be a map of keys, as {key: value}")
		return
	}
	fields := map[string]reflect.Type{}
	fieldsOf(t, fields)
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, at := n.Content[i].Value, n.Content[i].Value
		if key != "" {
			at = key + "." + name
		}
		field, ok := fields[name]
		switch {
		case !ok:
			w.fault(n.Content[i], at, "no such key%s", nearest(name, fields, 1))
		case seen[name]:
			w.fault(n.Content[i], at, "appears twice")
		default:
			seen[name] = true
			w.lines[at] = n.Content[i].Line
			w.walk(n.Content[i+1], field, at)
		}
	}
}

// fieldsOf lists a struct's keys, those of inlined structs among them.
func fieldsOf(t reflect.Type, into map[string]reflect.Type) {
	for f := range t.Fields() {
		name, rest, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case slices.Contains(strings.Split(rest, ","), "inline"):
			fieldsOf(f.Type, into)
		case name == "":
			into[strings.ToLower(f.Name)] = f.Type
		default:
			into[name] = f.Type
		}
	}
}

// wanted says what a value should be, and what it is.
func wanted(n *yaml.Node, t reflect.Type) string {
	kind := "a " + kindName(t)
	switch {
	case t == reflect.TypeFor[time.Duration]():
		kind = "a duration like 15s"
	case t.Kind() == reflect.Bool:
		kind = kindName(t)
	case t.Kind() == reflect.Map:
		kind = "a map of keys"
	case t.Kind() == reflect.String:
		kind = "a text"
	}
	switch n.Kind {
	case yaml.ScalarNode:
		return fmt.Sprintf("%s, not %q", kind, n.Value)
	case yaml.SequenceNode:
		return kind + ", not a list"
	}
	return kind + ", not a map"
}
