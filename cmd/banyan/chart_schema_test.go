package main

import (
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/router"
)

var rewriteSchema = flag.Bool("rewrite-schema", false, "write the chart's schema of config")

// schemaOf is the JSON schema of a part of the configuration.
func schemaOf(t reflect.Type) map[string]any {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return map[string]any{"type": []string{"string", "integer"}}
	case t.Kind() == reflect.Struct:
		properties := map[string]any{}
		addProperties(t, properties)
		return map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	case t.Kind() == reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t.Elem())}
	case t.Kind() == reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": schemaOf(t.Elem())}
	case t.Kind() == reflect.Bool:
		return map[string]any{"type": "boolean"}
	case t.Kind() == reflect.Float64:
		return map[string]any{"type": "number"}
	case t.Kind() == reflect.String: // owners: 2 is read as a text
		return map[string]any{"type": []string{"string", "number"}}
	}
	return map[string]any{"type": "integer"}
}

func addProperties(t reflect.Type, into map[string]any) {
	for f := range t.Fields() {
		name, how, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case how == "inline":
			addProperties(f.Type, into)
		case name != "" && name != "-":
			into[name] = schemaOf(f.Type)
		}
	}
}

// The chart refuses a misspelled setting before a pod does: its schema of config
// is made of the settings.
func TestTheChartKnowsEverySetting(t *testing.T) {
	path := deployed("charts/banyan/values.schema.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile(`(?ms)^    "config": \{.*?^    \},?$`).FindIndex(text)
	if block == nil {
		t.Fatal("no config in the schema")
	}
	schema, err := json.MarshalIndent(schemaOf(reflect.TypeFor[router.Config]()), "    ", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want := string(text[:block[0]]) + `    "config": ` + string(schema) + "," + string(text[block[1]:])
	if *rewriteSchema {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(text) {
		t.Errorf("%s does not have the settings of the program: go test ./cmd/banyan -run TheChartKnows -rewrite-schema", path)
	}
}
