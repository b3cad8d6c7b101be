package jinja

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// pythonNames are the attributes a Python object of a type has beside those
// supported here: Python would find them, so they are refused.
var pythonNames = map[string][]string{
	"str":   strings.Fields("capitalize casefold center count encode endswith expandtabs find format format_map index isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper join ljust lower lstrip maketrans partition removeprefix removesuffix replace rfind rindex rjust rpartition rsplit rstrip split splitlines startswith strip swapcase title translate upper zfill"),
	"list":  strings.Fields("append clear copy count extend index insert pop remove reverse sort"),
	"tuple": strings.Fields("count index"),
	"dict":  strings.Fields("clear copy fromkeys get items keys pop popitem setdefault update values"),
	"int":   strings.Fields("as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag numerator real to_bytes is_integer"),
	"bool":  strings.Fields("as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag numerator real to_bytes is_integer"),
	"float": strings.Fields("as_integer_ratio conjugate fromhex hex imag is_integer real"),
}

// mutators are the methods the immutable sandbox hides.
var mutators = map[string][]string{
	"list": strings.Fields("append clear extend insert pop remove reverse sort"),
	"dict": strings.Fields("clear pop popitem setdefault update"),
}

// attribute is of.name (dot), or of[name] where of has no such item. A dict's
// methods hide its keys behind a dot.
func attribute(of Value, name string, dot bool) (Value, error) {
	kind := typeName(of)
	switch x := of.(type) {
	case undefined:
		return nil, x.err()
	case *namespace:
		if v, ok := x.attrs.Get(name); ok {
			return v, nil
		}
	case *loopState:
		return x.attribute(name)
	case nil, bool, int64, float64, string, *List, *Dict:
		if slices.Contains(mutators[kind], name) {
			return undefined{"access to attribute '" + name + "' of '" + kind + "' object is unsafe."}, nil
		}
		if f, ok := methods[kind][name]; ok {
			return &function{name, func(r *renderer, args []Value, kwargs []kwarg) (Value, error) {
				return f(r, of, args, kwargs)
			}}, nil
		}
		if slices.Contains(pythonNames[kind], name) || strings.HasPrefix(name, "__") {
			return nil, fmt.Errorf("the attribute %s of a %s is not supported", name, kind)
		}
	default:
		return nil, fmt.Errorf("the attribute %s of a %s is not supported", name, kind)
	}
	if d, ok := of.(*Dict); ok && dot {
		if v, ok := d.Get(name); ok {
			return v, nil
		}
	}
	return undefined{fmt.Sprintf("'%s object' has no attribute '%s'", kind, name)}, nil
}

func (l *loopState) attribute(name string) (Value, error) {
	at, n := int64(l.at), int64(len(l.items))
	switch name {
	case "index":
		return at + 1, nil
	case "index0":
		return at, nil
	case "revindex":
		return n - at, nil
	case "revindex0":
		return n - at - 1, nil
	case "first":
		return at == 0, nil
	case "last":
		return at == n-1, nil
	case "length":
		return n, nil
	case "depth":
		return int64(1), nil
	case "depth0":
		return int64(0), nil
	case "previtem":
		if at > 0 {
			return l.items[at-1], nil
		}
		return undefined{"there is no previous item"}, nil
	case "nextitem":
		if at < n-1 {
			return l.items[at+1], nil
		}
		return undefined{"there is no next item"}, nil
	}
	return nil, fmt.Errorf("loop.%s is not supported", name)
}

type filter func(r *renderer, of Value, args []Value, kwargs []kwarg) (Value, error)

var errArgs = errors.New("these arguments are not supported")

// texts returns of and args as strings, between low and high of them.
func texts(of Value, args []Value, kwargs []kwarg, low, high int) (string, []string, error) {
	if len(kwargs) > 0 || len(args) < low || len(args) > high {
		return "", nil, errArgs
	}
	var out []string
	for _, a := range args {
		s, ok := a.(string)
		if !ok {
			return "", nil, fmt.Errorf("%w: %s", errArgs, typeName(a))
		}
		out = append(out, s)
	}
	return of.(string), out, nil
}

func onText(low, high int, f func(s string, args []string) (Value, error)) filter {
	return func(r *renderer, of Value, args []Value, kwargs []kwarg) (Value, error) {
		s, ts, err := texts(of, args, kwargs, low, high)
		if err != nil {
			return nil, err
		}
		v, err := f(s, ts)
		if err != nil {
			return nil, err
		}
		if t, ok := v.(string); ok {
			return v, r.built(len(t) + len(s))
		}
		return v, r.built(len(s))
	}
}

func trim(left, right bool) filter {
	return func(r *renderer, of Value, args []Value, kwargs []kwarg) (Value, error) {
		if len(args) == 1 && args[0] == nil {
			args = nil
		}
		return onText(0, 1, func(s string, args []string) (Value, error) {
			if len(args) > 0 {
				if left {
					s = strings.TrimLeft(s, args[0])
				}
				if right {
					s = strings.TrimRight(s, args[0])
				}
				return s, nil
			}
			if left {
				s = strings.TrimLeftFunc(s, isSpace)
			}
			if right {
				s = strings.TrimRightFunc(s, isSpace)
			}
			return s, nil
		})(r, of, args, kwargs)
	}
}

// ascii applies f where every letter is ASCII: the other letters' cases are
// not Python's.
func ascii(f func(string) string) filter {
	return onText(0, 0, func(s string, _ []string) (Value, error) {
		for _, c := range s {
			if c >= 0x80 && (unicode.IsUpper(c) || unicode.IsLower(c) || unicode.IsTitle(c)) {
				return nil, fmt.Errorf("changing the case of %q is not supported", c)
			}
		}
		return f(s), nil
	})
}

func capitalize(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + strings.ToLower(s[1:])
}

func affix(has func(s, t string) bool) filter {
	return func(r *renderer, of Value, args []Value, kwargs []kwarg) (Value, error) {
		if len(args) == 1 {
			if l, ok := args[0].(*List); ok && l.tuple {
				for _, t := range l.Items {
					s, ok := t.(string)
					if !ok {
						return nil, errArgs
					}
					if has(of.(string), s) {
						return true, nil
					}
				}
				return false, nil
			}
		}
		return onText(1, 1, func(s string, a []string) (Value, error) { return has(s, a[0]), nil })(r, of, args, kwargs)
	}
}

func split(r *renderer, of Value, args []Value, kwargs []kwarg) (Value, error) {
	limit := int64(-1)
	if len(kwargs) == 1 && kwargs[0].name == "maxsplit" && len(args) == 1 {
		args, kwargs = append(args, kwargs[0].value), nil
	}
	if len(args) == 2 {
		n, ok := args[1].(int64)
		if !ok {
			return nil, errArgs
		}
		limit, args = n, args[:1]
	}
	s := of.(string)
	if len(args) == 1 && args[0] == nil {
		args = nil
	}
	if len(args) == 0 && len(kwargs) == 0 && limit < 0 {
		parts := strings.FieldsFunc(s, isSpace)
		return stringList(parts), r.built(16 * (len(s) + 1))
	}
	_, ts, err := texts(of, args, kwargs, 1, 1)
	if err != nil {
		return nil, err
	}
	if ts[0] == "" {
		return nil, errors.New("empty separator")
	}
	n := -1
	if limit >= 0 {
		n = int(min(limit, int64(len(s)))) + 1
	}
	return stringList(strings.SplitN(s, ts[0], n)), r.built(16 * (len(s) + 1))
}

func stringList(parts []string) *List {
	l := &List{Items: make([]Value, len(parts))}
	for i, p := range parts {
		l.Items[i] = p
	}
	return l
}

var methods = map[string]map[string]filter{
	"str": {
		"strip": trim(true, true), "lstrip": trim(true, false), "rstrip": trim(false, true),
		"lower": ascii(strings.ToLower), "upper": ascii(strings.ToUpper), "capitalize": ascii(capitalize),
		"startswith": affix(strings.HasPrefix), "endswith": affix(strings.HasSuffix),
		"split":        split,
		"replace":      replaceMethod,
		"removeprefix": onText(1, 1, func(s string, a []string) (Value, error) { return strings.TrimPrefix(s, a[0]), nil }),
		"removesuffix": onText(1, 1, func(s string, a []string) (Value, error) { return strings.TrimSuffix(s, a[0]), nil }),
		"find": onText(1, 1, func(s string, a []string) (Value, error) {
			i := strings.Index(s, a[0])
			if i > 0 {
				i = len([]rune(s[:i]))
			}
			return int64(i), nil
		}),
		"count": onText(1, 1, func(s string, a []string) (Value, error) { return int64(strings.Count(s, a[0])), nil }),
		"join": func(r *renderer, of Value, args []Value, kwargs []kwarg) (Value, error) {
			return joinMethod(r, of, args, kwargs)
		},
	},
	"dict": {
		"items": dictView("dict_items"), "keys": dictView("dict_keys"), "values": dictView("dict_values"),
		"get": func(_ *renderer, of Value, args []Value, kwargs []kwarg) (Value, error) {
			if len(args) < 1 || len(args) > 2 || len(kwargs) > 0 {
				return nil, errArgs
			}
			h, err := hashKey(args[0])
			if err != nil {
				return nil, err
			}
			d := of.(*Dict)
			if i, ok := d.at[h]; ok {
				return d.vals[i], nil
			}
			if len(args) == 2 {
				return args[1], nil
			}
			return nil, nil
		},
	},
}

func replaceMethod(r *renderer, of Value, args []Value, kwargs []kwarg) (Value, error) {
	return onText(2, 2, func(s string, a []string) (Value, error) {
		if grown := strings.Count(s, a[0]) * len(a[1]); grown > r.limit {
			return nil, errOutput
		}
		return strings.ReplaceAll(s, a[0], a[1]), nil
	})(r, of, args, kwargs)
}

func joinMethod(r *renderer, of Value, args []Value, kwargs []kwarg) (Value, error) {
	if len(args) != 1 || len(kwargs) > 0 {
		return nil, errArgs
	}
	if u, ok := args[0].(undefined); ok && u.hint == "" {
		return "", nil
	}
	items, err := r.list(args[0])
	if err != nil {
		return nil, err
	}
	for _, i := range items {
		if _, ok := i.(string); !ok {
			return nil, fmt.Errorf("join of a %s", typeName(i))
		}
	}
	return r.join(items, of.(string))
}

func dictView(kind string) filter {
	return func(r *renderer, of Value, args []Value, kwargs []kwarg) (Value, error) {
		if len(args)+len(kwargs) > 0 {
			return nil, errArgs
		}
		d := of.(*Dict)
		v := &view{kind: kind, dict: d}
		switch kind {
		case "dict_keys":
			v.items = d.keys
		case "dict_values":
			v.items = d.vals
		default:
			v.items = pairs(d)
		}
		return v, r.built(16 * d.Len())
	}
}

func pairs(d *Dict) []Value {
	out := make([]Value, d.Len())
	for i := range out {
		out[i] = &List{Items: []Value{d.keys[i], d.vals[i]}, tuple: true}
	}
	return out
}
