package jinja

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// Value is a Python value: nil (None), bool, int64, float64, string, *List,
// *Dict, or one of the package's own kinds (undefined, macros, iterators).
type Value any

// List is a Python list, or a tuple.
type List struct {
	Items []Value
	tuple bool
}

// Dict is a Python dict: it keeps the order of its keys.
type Dict struct {
	keys []Value
	vals []Value
	at   map[any]int
}

// NewDict returns an empty dict.
func NewDict() *Dict { return &Dict{at: map[any]int{}} }

// Len returns the number of keys.
func (d *Dict) Len() int { return len(d.keys) }

// Set puts value under a string key; a key that is there keeps its place.
func (d *Dict) Set(key string, value Value) { d.put(key, key, value) }

// Get returns the value under a string key.
func (d *Dict) Get(key string) (Value, bool) {
	i, ok := d.at[key]
	if !ok {
		return nil, false
	}
	return d.vals[i], true
}

func (d *Dict) put(hash any, key, value Value) {
	if i, ok := d.at[hash]; ok {
		d.vals[i] = value
		return
	}
	d.at[hash] = len(d.keys)
	d.keys = append(d.keys, key)
	d.vals = append(d.vals, value)
}

type noneKey struct{}

var errUnhashable = errors.New("unhashable type")

// hashKey returns what stands for v as a key: 1, 1.0 and True are one key.
func hashKey(v Value) (any, error) {
	switch x := v.(type) {
	case nil:
		return noneKey{}, nil
	case string, int64:
		return x, nil
	case bool:
		return asInt(x), nil
	case float64:
		if x == math.Trunc(x) && math.Abs(x) < 1<<62 {
			return int64(x), nil
		}
		return x, nil
	case undefined:
		return noneKey{}, errors.New("an undefined value is not supported as a key")
	}
	return nil, fmt.Errorf("%w: %s", errUnhashable, typeName(v))
}

func asInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// undefined is jinja2's Undefined: empty text, false, and no operations.
type undefined struct{ hint string }

func (u undefined) err() error { return errors.New(u.hint) }

// namespace is what namespace() returns: its attributes can be set.
type namespace struct{ attrs *Dict }

// function is a builtin or a bound method.
type function struct {
	name string
	call func(r *renderer, args []Value, kwargs []kwarg) (Value, error)
}

type kwarg struct {
	name  string
	value Value
}

// iterator is a Python generator: it is consumed once and always true.
type iterator struct{ next func() (Value, bool, error) }

// view is a dict's keys(), values() or items(), or a range: it has a length.
type view struct {
	kind  string
	items []Value
	dict  *Dict
}

func typeName(v Value) string {
	switch x := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case *List:
		if x.tuple {
			return "tuple"
		}
		return "list"
	case *Dict:
		return "dict"
	case undefined:
		return "Undefined"
	case *namespace:
		return "Namespace"
	case *iterator:
		return "generator"
	case *view:
		return x.kind
	case *macro:
		return "Macro"
	case *function:
		return "function"
	case *loopState:
		return "LoopContext"
	}
	return "object"
}

// truth is Python's bool(v).
func truth(v Value) bool {
	switch x := v.(type) {
	case nil, undefined:
		return false
	case bool:
		return x
	case int64:
		return x != 0
	case float64:
		return x != 0
	case string:
		return x != ""
	case *List:
		return len(x.Items) > 0
	case *Dict:
		return x.Len() > 0
	case *view:
		return len(x.items) > 0
	}
	return true
}

// number returns v as a float and as an integer where it is one.
func number(v Value) (f float64, i int64, isInt, ok bool) {
	switch x := v.(type) {
	case bool:
		return float64(asInt(x)), asInt(x), true, true
	case int64:
		return float64(x), x, true, true
	case float64:
		return x, 0, false, true
	}
	return 0, 0, false, false
}

// equal is Python's ==. Depth bounds the nesting.
func equal(a, b Value, depth int) (bool, error) {
	if depth <= 0 {
		return false, errDepth
	}
	if af, ai, aInt, ok := number(a); ok {
		bf, bi, bInt, ok := number(b)
		if !ok {
			return false, nil
		}
		if aInt && bInt {
			return ai == bi, nil
		}
		if aInt != bInt && (math.Abs(af) > 1<<53 || math.Abs(bf) > 1<<53) {
			return false, errors.New("comparing so large an integer to a float is not supported")
		}
		return af == bf, nil
	}
	switch x := a.(type) {
	case nil:
		return b == nil, nil
	case string:
		y, ok := b.(string)
		return ok && x == y, nil
	case undefined:
		_, ok := b.(undefined)
		return ok, nil
	case *List:
		y, ok := b.(*List)
		if !ok || x.tuple != y.tuple || len(x.Items) != len(y.Items) {
			return false, nil
		}
		for i := range x.Items {
			if same, err := equal(x.Items[i], y.Items[i], depth-1); err != nil || !same {
				return false, err
			}
		}
		return true, nil
	case *Dict:
		y, ok := b.(*Dict)
		if !ok || x.Len() != y.Len() {
			return false, nil
		}
		for hash, i := range x.at {
			j, ok := y.at[hash]
			if !ok {
				return false, nil
			}
			if same, err := equal(x.vals[i], y.vals[j], depth-1); err != nil || !same {
				return false, err
			}
		}
		return true, nil
	case *view:
		if _, ok := b.(*view); ok {
			return false, errors.New("comparing views is not supported")
		}
		return false, nil
	}
	return a == b, nil
}

// compare orders a and b as Python's < does, or fails as it does.
func compare(a, b Value, depth int) (int, error) {
	if depth <= 0 {
		return 0, errDepth
	}
	if af, ai, aInt, ok := number(a); ok {
		if bf, bi, bInt, ok := number(b); ok {
			if aInt && bInt {
				return order(ai, bi), nil
			}
			if math.IsNaN(af) || math.IsNaN(bf) {
				return 0, errors.New("ordering NaN is not supported")
			}
			if aInt != bInt && (math.Abs(af) > 1<<53 || math.Abs(bf) > 1<<53) {
				return 0, errors.New("comparing so large an integer to a float is not supported")
			}
			return order(af, bf), nil
		}
	}
	if x, ok := a.(string); ok {
		if y, ok := b.(string); ok {
			return order(x, y), nil
		}
	}
	if x, ok := a.(*List); ok {
		if y, ok := b.(*List); ok && x.tuple == y.tuple {
			for i := range min(len(x.Items), len(y.Items)) {
				same, err := equal(x.Items[i], y.Items[i], depth-1)
				if err != nil {
					return 0, err
				}
				if !same {
					return compare(x.Items[i], y.Items[i], depth-1)
				}
			}
			return order(len(x.Items), len(y.Items)), nil
		}
	}
	for _, v := range []Value{a, b} {
		if u, ok := v.(undefined); ok {
			return 0, u.err()
		}
	}
	return 0, fmt.Errorf("%s and %s have no order", typeName(a), typeName(b))
}

func order[T int | int64 | float64 | string](a, b T) int {
	if a < b {
		return -1
	}
	if a > b {
		return 1
	}
	return 0
}

// length is Python's len(v).
func length(v Value) (int, error) {
	switch x := v.(type) {
	case string:
		return utf8.RuneCountInString(x), nil
	case *List:
		return len(x.Items), nil
	case *Dict:
		return x.Len(), nil
	case *view:
		return len(x.items), nil
	case undefined:
		return 0, nil
	case *loopState:
		return len(x.items), nil
	}
	return 0, fmt.Errorf("object of type %s has no len()", typeName(v))
}
