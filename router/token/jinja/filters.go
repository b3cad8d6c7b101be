package jinja

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// textual makes a filter of a method: its value is turned into text first.
func textual(f filter) filter {
	return func(r *renderer, of Value, args []Value, kwargs []kwarg) (Value, error) {
		s, err := r.str(of)
		if err != nil {
			return nil, err
		}
		return f(r, s, args, kwargs)
	}
}

// plain makes a filter that takes no arguments.
func plain(f func(r *renderer, of Value) (Value, error)) filter {
	return func(r *renderer, of Value, args []Value, kwargs []kwarg) (Value, error) {
		if len(args)+len(kwargs) > 0 {
			return nil, errArgs
		}
		return f(r, of)
	}
}

var filters map[string]filter

func init() {
	filters = map[string]filter{
		"trim": textual(trim(true, true)), "lower": textual(methods["str"]["lower"]), "upper": textual(methods["str"]["upper"]),
		"capitalize": textual(methods["str"]["capitalize"]), "replace": textual(methods["str"]["replace"]),
		"string": plain(func(r *renderer, of Value) (Value, error) { return r.str(of) }),
		"length": plain(lengthOf), "count": plain(lengthOf),
		"list": plain(func(r *renderer, of Value) (Value, error) {
			items, err := r.list(of)
			return &List{Items: items}, err
		}),
		"first":  plain(first),
		"last":   plain(last),
		"items":  plain(items),
		"tojson": toJSON, "default": defaulted, "d": defaulted, "join": joinFilter, "dictsort": dictSort,
		"selectattr": selection(true, true), "rejectattr": selection(true, false), "select": selection(false, true), "reject": selection(false, false),
		"map": mapped, "indent": indent,
		"int": plain(func(_ *renderer, of Value) (Value, error) {
			if b, ok := of.(bool); ok {
				return asInt(b), nil
			}
			if i, ok := of.(int64); ok {
				return i, nil
			}
			return nil, errArgs
		}),
	}
}

func lengthOf(_ *renderer, of Value) (Value, error) { n, err := length(of); return int64(n), err }

func first(r *renderer, of Value) (Value, error) {
	if it, ok := of.(*iterator); ok {
		v, ok, err := it.next()
		if err != nil || ok {
			return v, err
		}
		return undefined{"No first item, sequence was empty."}, nil
	}
	l, err := r.list(of)
	if err == nil && len(l) == 0 {
		return undefined{"No first item, sequence was empty."}, nil
	}
	if err != nil {
		return nil, err
	}
	return l[0], nil
}

func last(r *renderer, of Value) (Value, error) {
	if _, ok := of.(*iterator); ok {
		return nil, errors.New("a generator is not reversible")
	}
	l, err := r.list(of)
	if err == nil && len(l) == 0 {
		return undefined{"No last item, sequence was empty."}, nil
	}
	if err != nil {
		return nil, err
	}
	return l[len(l)-1], nil
}

func items(r *renderer, of Value) (Value, error) {
	switch x := of.(type) {
	case undefined:
		return sequence(nil), nil
	case *Dict:
		return sequence(pairs(x)), r.built(16 * x.Len())
	}
	return nil, errors.New("can only get item pairs from a mapping")
}

func sequence(items []Value) *iterator {
	return &iterator{func() (Value, bool, error) {
		if len(items) == 0 {
			return nil, false, nil
		}
		v := items[0]
		items = items[1:]
		return v, true, nil
	}}
}

// named sorts arguments into the order of names; a missing one is absent{}.
type absent struct{}

func named(args []Value, kwargs []kwarg, names ...string) ([]Value, error) {
	if len(args) > len(names) {
		return nil, errArgs
	}
	out := make([]Value, len(names))
	for i := range out {
		out[i] = absent{}
	}
	copy(out, args)
	for _, k := range kwargs {
		i := slices.Index(names, k.name)
		if i < len(args) {
			return nil, fmt.Errorf("%w: %s", errArgs, k.name)
		}
		out[i] = k.value
	}
	return out, nil
}

func toJSON(r *renderer, of Value, args []Value, kwargs []kwarg) (Value, error) {
	a, err := named(args, kwargs, "ensure_ascii", "indent", "separators", "sort_keys")
	if err != nil {
		return nil, err
	}
	st := jsonStyle{item: ", ", key: ": "}
	if a[0] != (absent{}) {
		st.ascii = truth(a[0])
	}
	switch x := a[1].(type) {
	case absent, nil:
	case int64:
		if x > 100 {
			return nil, errArgs
		}
		st.pretty, st.indent, st.item = true, strings.Repeat(" ", int(max(x, 0))), ","
	default:
		return nil, errArgs
	}
	switch x := a[2].(type) {
	case absent, nil:
	case *List:
		if len(x.Items) != 2 {
			return nil, errArgs
		}
		var ok, also bool
		st.item, ok = x.Items[0].(string)
		if st.key, also = x.Items[1].(string); !ok || !also {
			return nil, errArgs
		}
	default:
		return nil, errArgs
	}
	if a[3] != (absent{}) {
		st.sort = truth(a[3])
	}
	if err := r.measure(of, measure{each: len(st.item) + len(st.key), level: 2 * len(st.indent)}); err != nil {
		return nil, err
	}
	b, err := appendJSON(nil, of, st, 0, r.depth)
	if err == nil {
		err = r.built(len(b))
	}
	return string(b), err
}

func sortedDict(d *Dict) (*Dict, error) {
	l := pairs(d)
	var err error
	slices.SortStableFunc(l, func(a, b Value) int {
		n, e := compare(a.(*List).Items[0], b.(*List).Items[0], 10)
		if e != nil {
			err = e
		}
		return n
	})
	out := NewDict()
	for _, p := range l {
		kv := p.(*List).Items
		h, _ := hashKey(kv[0])
		out.put(h, kv[0], kv[1])
	}
	return out, err
}

func dictSort(r *renderer, of Value, args []Value, kwargs []kwarg) (Value, error) {
	d, ok := of.(*Dict)
	if !ok || len(args)+len(kwargs) > 0 {
		return nil, errArgs
	}
	l := pairs(d)
	for _, k := range d.keys {
		if s, ok := k.(string); !ok || strings.IndexFunc(s, func(c rune) bool { return c >= 0x80 }) >= 0 {
			return nil, errors.New("sorting keys that are not ASCII text is not supported")
		}
	}
	slices.SortStableFunc(l, func(a, b Value) int {
		return strings.Compare(strings.ToLower(a.(*List).Items[0].(string)), strings.ToLower(b.(*List).Items[0].(string)))
	})
	return &List{Items: l}, r.spend(10 * len(l))
}

func defaulted(_ *renderer, of Value, args []Value, kwargs []kwarg) (Value, error) {
	a, err := named(args, kwargs, "default_value", "boolean")
	if err != nil {
		return nil, err
	}
	_, missing := of.(undefined)
	if a[1] != (absent{}) && truth(a[1]) {
		missing = !truth(of)
	}
	if !missing {
		return of, nil
	}
	if a[0] == (absent{}) {
		return "", nil
	}
	return a[0], nil
}

func joinFilter(r *renderer, of Value, args []Value, kwargs []kwarg) (Value, error) {
	a, err := named(args, kwargs, "d")
	if err != nil {
		return nil, err
	}
	sep := ""
	if a[0] != (absent{}) {
		if sep, err = r.str(a[0]); err != nil {
			return nil, err
		}
	}
	items, err := r.list(of)
	if err != nil {
		return nil, err
	}
	return r.join(items, sep)
}

func (r *renderer) join(items []Value, sep string) (Value, error) {
	var b strings.Builder
	for i, item := range items {
		if i > 0 {
			b.WriteString(sep)
		}
		s, err := r.str(item)
		if err != nil {
			return nil, err
		}
		b.WriteString(s)
		if b.Len() > r.limit {
			return nil, errOutput
		}
	}
	return b.String(), r.built(b.Len())
}

// selection is selectattr, rejectattr, select and reject.
func selection(attr, keep bool) filter {
	return func(r *renderer, of Value, args []Value, kwargs []kwarg) (Value, error) {
		if len(kwargs) > 0 {
			return nil, errArgs
		}
		name := ""
		if attr {
			if len(args) == 0 {
				return nil, errArgs
			}
			var ok bool
			if name, ok = args[0].(string); !ok || strings.Contains(name, ".") {
				return nil, errArgs
			}
			args = args[1:]
		}
		check := test{0, func(_ *renderer, v Value, _ []Value) (bool, error) { return truth(v), nil }}
		if len(args) > 0 {
			word, ok := args[0].(string)
			t, known := tests[word]
			if !ok || !known || t.args != len(args)-1 {
				return nil, errArgs
			}
			check, args = t, args[1:]
		}
		if !truth(of) {
			return sequence(nil), nil
		}
		source, err := r.list(of)
		if err != nil {
			return nil, err
		}
		return &iterator{func() (Value, bool, error) {
			for len(source) > 0 {
				v := source[0]
				source = source[1:]
				of := v
				var err error
				if attr {
					if of, err = item(v, name); err != nil {
						return nil, false, err
					}
				}
				yes, err := check.f(r, of, args)
				if err != nil {
					return nil, false, err
				}
				if err := r.spend(1); err != nil {
					return nil, false, err
				}
				if yes == keep {
					return v, true, nil
				}
			}
			return nil, false, nil
		}}, nil
	}
}

func mapped(r *renderer, of Value, args []Value, kwargs []kwarg) (Value, error) {
	var f func(v Value) (Value, error)
	switch {
	case len(args) == 0 && len(kwargs) == 1 && kwargs[0].name == "attribute":
		name, ok := kwargs[0].value.(string)
		if !ok || strings.Contains(name, ".") {
			return nil, errArgs
		}
		f = func(v Value) (Value, error) { return item(v, name) }
	case len(args) > 0:
		name, ok := args[0].(string)
		by, known := filters[name]
		if !ok || !known {
			return nil, errArgs
		}
		f = func(v Value) (Value, error) { return by(r, v, args[1:], kwargs) }
	default:
		return nil, errArgs
	}
	if !truth(of) {
		return sequence(nil), nil
	}
	source, err := r.list(of)
	if err != nil {
		return nil, err
	}
	next := sequence(source).next
	return &iterator{func() (Value, bool, error) {
		v, ok, err := next()
		if ok && err == nil {
			v, err = f(v)
		}
		return v, ok && err == nil, err
	}}, r.spend(1)
}

func indent(r *renderer, of Value, args []Value, kwargs []kwarg) (Value, error) {
	s, ok := of.(string)
	a, err := named(args, kwargs, "width", "first")
	if err != nil || !ok {
		return nil, errArgs
	}
	width := int64(4)
	if a[0] != (absent{}) {
		if width, ok = a[0].(int64); !ok || width < 0 || width > 100 {
			return nil, errArgs
		}
	}
	if strings.ContainsAny(s, "\v\f\x1c\x1d\x1e\u0085\u2028\u2029\r") {
		return nil, errors.New("indenting this text is not supported")
	}
	pad := strings.Repeat(" ", int(width))
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if line != "" && (i > 0 || a[1] != (absent{}) && truth(a[1])) {
			lines[i] = pad + line
		}
	}
	out := strings.Join(lines, "\n")
	return out, r.built(len(out))
}

type test struct {
	args int
	f    func(r *renderer, of Value, args []Value) (bool, error)
}

func kindTest(f func(v Value) bool) test {
	return test{0, func(_ *renderer, of Value, _ []Value) (bool, error) { return f(of), nil }}
}

func opTest(op string) test {
	return test{1, func(r *renderer, of Value, args []Value) (bool, error) { return r.compare(op, of, args[0]) }}
}

func is[T any](v Value) bool { _, ok := v.(T); return ok }

var tests = map[string]test{
	"defined":   kindTest(func(v Value) bool { return !is[undefined](v) }),
	"undefined": kindTest(is[undefined]),
	"none":      kindTest(func(v Value) bool { return v == nil }),
	"string":    kindTest(is[string]),
	"mapping":   kindTest(is[*Dict]),
	"boolean":   kindTest(is[bool]),
	"true":      kindTest(func(v Value) bool { return v == true }),
	"false":     kindTest(func(v Value) bool { return v == false }),
	"integer":   kindTest(is[int64]),
	"float":     kindTest(is[float64]),
	"number":    kindTest(func(v Value) bool { _, _, _, ok := number(v); return ok }),
	"sequence": {0, func(_ *renderer, v Value, _ []Value) (bool, error) {
		switch v.(type) {
		case nil, bool, int64, float64:
			return false, nil
		case string, *List, *Dict, undefined:
			return true, nil
		}
		return false, errArgs
	}},
	"iterable": {0, func(_ *renderer, v Value, _ []Value) (bool, error) {
		switch v.(type) {
		case nil, bool, int64, float64:
			return false, nil
		case string, *List, *Dict, *view, *iterator, undefined:
			return true, nil
		}
		return false, errArgs
	}},
	"equalto": opTest("=="), "eq": opTest("=="), "ne": opTest("!="), "in": opTest("in"),
	"gt": opTest(">"), "lt": opTest("<"), "ge": opTest(">="), "le": opTest("<="),
}

var globals = map[string]Value{
	"namespace": &function{"namespace", func(_ *renderer, args []Value, kwargs []kwarg) (Value, error) {
		if len(args) > 0 {
			return nil, errArgs
		}
		return &namespace{kwargsDict(kwargs)}, nil
	}},
	"dict": &function{"dict", func(_ *renderer, args []Value, kwargs []kwarg) (Value, error) {
		if len(args) > 0 {
			return nil, errArgs
		}
		return kwargsDict(kwargs), nil
	}},
	"range": &function{"range", rangeOf},
	"raise_exception": &function{"raise_exception", func(r *renderer, args []Value, kwargs []kwarg) (Value, error) {
		if len(args) != 1 || len(kwargs) > 0 {
			return nil, errArgs
		}
		s, err := r.str(args[0])
		if err != nil {
			return nil, err
		}
		return nil, errors.New("the template raised: " + s)
	}},
	"strftime_now": &function{"strftime_now", func(r *renderer, args []Value, kwargs []kwarg) (Value, error) {
		if len(args) != 1 || len(kwargs) > 0 || !is[string](args[0]) {
			return nil, errArgs
		}
		return strftime(r.now, args[0].(string))
	}},
}

func init() {
	for _, name := range []string{"lipsum", "cycler", "joiner"} {
		globals[name] = &function{name, func(*renderer, []Value, []kwarg) (Value, error) {
			return nil, fmt.Errorf("%s is not supported", name)
		}}
	}
}

func kwargsDict(kwargs []kwarg) *Dict {
	d := NewDict()
	for _, k := range kwargs {
		d.Set(k.name, k.value)
	}
	return d
}

func rangeOf(r *renderer, args []Value, kwargs []kwarg) (Value, error) {
	if len(args) < 1 || len(args) > 3 || len(kwargs) > 0 {
		return nil, errArgs
	}
	n := []int64{0, 0, 1}
	for i, a := range args {
		_, v, isInt, _ := number(a)
		if !isInt || v > 1<<40 || v < -1<<40 {
			return nil, errArgs
		}
		n[i] = v
	}
	if len(args) == 1 {
		n[0], n[1] = 0, n[0]
	}
	if n[2] == 0 {
		return nil, errors.New("range() arg 3 must not be zero")
	}
	v := &view{kind: "range"}
	for i := n[0]; n[2] > 0 && i < n[1] || n[2] < 0 && i > n[1]; i += n[2] {
		if len(v.items) >= 100000 {
			return nil, errors.New("range too big, at most 100000 items")
		}
		v.items = append(v.items, i)
	}
	return v, r.built(16 * len(v.items))
}

var directives = map[byte]string{'Y': "2006", 'm': "01", 'd': "02", 'H': "15", 'M': "04", 'S': "05", 'B': "January", 'b': "Jan", 'A': "Monday", 'a': "Mon", 'y': "06", 'I': "03", 'p': "PM"}

func strftime(now time.Time, format string) (Value, error) {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		layout, ok := directives[format[i]]
		if !ok {
			return nil, fmt.Errorf("the date directive %%%c is not supported", format[i])
		}
		b.WriteString(now.Format(layout))
	}
	return b.String(), nil
}
