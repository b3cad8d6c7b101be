package router

import (
	"reflect"
	"strings"
)

// Setting is one leaf of the configuration.
type Setting struct {
	Key    string // dotted YAML path
	Doc    string
	Secret bool
	Value  reflect.Value // addressable
}

// Settings lists the leaves of a configuration in the order of its fields.
func Settings(cfg *Config) []Setting {
	var out []Setting
	var walk func(prefix string, v reflect.Value)
	walk = func(prefix string, v reflect.Value) {
		for i := range v.NumField() {
			field := v.Type().Field(i)
			name, how, _ := strings.Cut(field.Tag.Get("yaml"), ",")
			key := strings.TrimPrefix(prefix+"."+name, ".")
			switch {
			case how == "inline":
				walk(prefix, v.Field(i))
			case name == "" || name == "-":
			case field.Type.Kind() == reflect.Struct:
				walk(key, v.Field(i))
			default:
				out = append(out, Setting{Key: key, Doc: field.Tag.Get("doc"), Secret: field.Tag.Get("secret") != "", Value: v.Field(i)})
			}
		}
	}
	walk("", reflect.ValueOf(cfg).Elem())
	return out
}
