package jinja

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

type expr interface {
	eval(r *renderer, s *scope) (Value, error)
}

type (
	constExpr struct{ v Value }
	nameExpr  string
	listExpr  struct {
		items []expr
		tuple bool
	}
	dictExpr    struct{ keys, values []expr }
	condExpr    struct{ then, cond, other expr }
	notExpr     struct{ e expr }
	compareExpr struct {
		first expr
		ops   []string
		rest  []expr
	}
	logicExpr struct {
		left, right expr
		or          bool
	}
	binaryExpr struct {
		op          string
		left, right expr
	}
	signExpr struct {
		op string
		e  expr
	}
	attrExpr struct {
		of   expr
		name string
	}
	itemExpr  struct{ of, key expr }
	sliceExpr struct {
		of    expr
		parts [3]expr
	}
	callExpr struct {
		of     expr
		args   []expr
		names  []string
		values []expr
	}
	filterExpr struct {
		of   expr
		name string
		f    filter
		call *callExpr
	}
	testExpr struct {
		of   expr
		test test
		args []expr
	}
)

func (c constExpr) eval(*renderer, *scope) (Value, error) { return c.v, nil }

func (n nameExpr) eval(r *renderer, s *scope) (Value, error) { return s.find(string(n)), r.spend(1) }

func (r *renderer) evals(es []expr, s *scope) ([]Value, error) {
	out := make([]Value, len(es))
	for i, e := range es {
		var err error
		if out[i], err = e.eval(r, s); err != nil {
			return nil, err
		}
	}
	return out, r.spend(1 + len(es))
}

func (l listExpr) eval(r *renderer, s *scope) (Value, error) {
	items, err := r.evals(l.items, s)
	return &List{Items: items, tuple: l.tuple}, err
}

func (d dictExpr) eval(r *renderer, s *scope) (Value, error) {
	out := NewDict()
	for i := range d.keys {
		kv, err := r.evals([]expr{d.keys[i], d.values[i]}, s)
		if err != nil {
			return nil, err
		}
		h, err := hashKey(kv[0])
		if err != nil {
			return nil, err
		}
		out.put(h, kv[0], kv[1])
	}
	return out, nil
}

func (c condExpr) eval(r *renderer, s *scope) (Value, error) {
	v, err := c.cond.eval(r, s)
	if err != nil {
		return nil, err
	}
	if truth(v) {
		return c.then.eval(r, s)
	}
	if c.other == nil {
		return undefined{"the inline if-expression evaluated to false and no else section was defined."}, nil
	}
	return c.other.eval(r, s)
}

func (n notExpr) eval(r *renderer, s *scope) (Value, error) {
	v, err := n.e.eval(r, s)
	return !truth(v), err
}

func (l logicExpr) eval(r *renderer, s *scope) (Value, error) {
	v, err := l.left.eval(r, s)
	if err != nil || truth(v) == l.or {
		return v, err
	}
	return l.right.eval(r, s)
}

func (c compareExpr) eval(r *renderer, s *scope) (Value, error) {
	left, err := c.first.eval(r, s)
	if err != nil {
		return nil, err
	}
	for i, op := range c.ops {
		right, err := c.rest[i].eval(r, s)
		if err != nil {
			return nil, err
		}
		ok, err := r.compare(op, left, right)
		if err != nil || !ok {
			return false, err
		}
		left = right
	}
	return true, nil
}

func (r *renderer) compare(op string, a, b Value) (bool, error) {
	if err := r.spend(1); err != nil {
		return false, err
	}
	switch op {
	case "==", "!=":
		same, err := r.same(a, b)
		return same == (op == "=="), err
	case "in", "not in":
		has, err := r.contains(b, a)
		return has == (op == "in"), err
	}
	if err := r.measure(a, measure{}); err != nil {
		return false, err
	}
	n, err := compare(a, b, r.depth)
	switch op {
	case "<":
		return n < 0, err
	case "<=":
		return n <= 0, err
	case ">":
		return n > 0, err
	}
	return n >= 0, err
}

func (r *renderer) contains(in, v Value) (bool, error) {
	switch x := in.(type) {
	case string:
		s, ok := v.(string)
		if !ok {
			return false, fmt.Errorf("'in <string>' requires string as left operand, not %s", typeName(v))
		}
		return strings.Contains(x, s), r.spend(len(x)/64 + 1)
	case *Dict:
		if _, ok := v.(undefined); ok {
			return false, nil
		}
		h, err := hashKey(v)
		_, ok := x.at[h]
		return ok, err
	}
	items, err := r.list(in)
	if err != nil {
		return false, err
	}
	for _, item := range items {
		if err := r.spend(1); err != nil {
			return false, err
		}
		if same, err := r.same(item, v); err != nil || same {
			return same, err
		}
	}
	return false, nil
}

func (e signExpr) eval(r *renderer, s *scope) (Value, error) {
	v, err := e.e.eval(r, s)
	if err != nil {
		return nil, err
	}
	if u, ok := v.(undefined); ok {
		return nil, u.err()
	}
	f, i, isInt, ok := number(v)
	switch {
	case !ok:
		return nil, fmt.Errorf("bad operand type for unary %s: %s", e.op, typeName(v))
	case isInt && e.op == "+":
		return i, nil
	case isInt:
		return checked(-i, i == math.MinInt64)
	case e.op == "-":
		return -f, nil
	}
	return f, nil
}

var errBig = errors.New("an integer beyond 64 bits is not supported")

func checked(i int64, over bool) (Value, error) {
	if over {
		return nil, errBig
	}
	return i, nil
}

func (b binaryExpr) eval(r *renderer, s *scope) (Value, error) {
	vs, err := r.evals([]expr{b.left, b.right}, s)
	if err != nil {
		return nil, err
	}
	return r.binary(b.op, vs[0], vs[1])
}

func (r *renderer) binary(op string, a, b Value) (Value, error) {
	if op == "~" {
		x, err := r.str(a)
		if err != nil {
			return nil, err
		}
		y, err := r.str(b)
		if err != nil {
			return nil, err
		}
		return x + y, r.built(len(x) + len(y))
	}
	for _, v := range []Value{a, b} {
		if u, ok := v.(undefined); ok {
			return nil, u.err()
		}
	}
	switch x := a.(type) {
	case string:
		if y, ok := b.(string); ok && op == "+" {
			if err := r.built(len(x) + len(y)); err != nil {
				return nil, err
			}
			return x + y, nil
		}
	case *List:
		if y, ok := b.(*List); ok && op == "+" && x.tuple == y.tuple {
			if err := r.built(16 * (len(x.Items) + len(y.Items))); err != nil {
				return nil, err
			}
			items := append(append([]Value{}, x.Items...), y.Items...)
			return &List{Items: items, tuple: x.tuple}, nil
		}
	}
	if op == "*" {
		if v, ok, err := r.repeat(a, b); ok || err != nil {
			return v, err
		}
	}
	af, ai, aInt, aok := number(a)
	bf, bi, bInt, bok := number(b)
	if !aok || !bok {
		return nil, fmt.Errorf("unsupported operands for %s: %s and %s", op, typeName(a), typeName(b))
	}
	if aInt && bInt && op != "/" {
		return integers(op, ai, bi)
	}
	return floats(op, af, bf)
}

func (r *renderer) repeat(a, b Value) (Value, bool, error) {
	s, ok := a.(string)
	n, isInt := b.(int64)
	if !ok {
		s, ok = b.(string)
		n, isInt = a.(int64)
	}
	if !ok || !isInt {
		return nil, false, nil
	}
	n = max(n, 0)
	if len(s) > 0 && n > int64(r.limit/len(s)) {
		return nil, true, errOutput
	}
	return strings.Repeat(s, int(min(n, int64(r.limit)))), true, r.built(len(s) * int(min(n, int64(r.limit))))
}

func integers(op string, a, b int64) (Value, error) {
	switch op {
	case "+":
		c := a + b
		return checked(c, (c > a) != (b > 0) && b != 0)
	case "-":
		c := a - b
		return checked(c, (c < a) != (b > 0) && b != 0)
	case "*":
		if a != 0 && b != 0 && math.Abs(float64(a))*math.Abs(float64(b)) > 1<<62 {
			return nil, errBig
		}
		return a * b, nil
	}
	if b == 0 {
		return nil, errors.New("division by zero")
	}
	if b == -1 {
		if op == "%" {
			return int64(0), nil
		}
		return checked(-a, a == math.MinInt64)
	}
	q, m := a/b, a%b
	if m != 0 && (m < 0) != (b < 0) {
		q, m = q-1, m+b
	}
	if op == "%" {
		return m, nil
	}
	return q, nil
}

func floats(op string, a, b float64) (Value, error) {
	switch op {
	case "+":
		return a + b, nil
	case "-":
		return a - b, nil
	case "*":
		return a * b, nil
	case "/":
		if b == 0 {
			return nil, errors.New("division by zero")
		}
		if math.Abs(a) > 1<<53 || math.Abs(b) > 1<<53 {
			return nil, errors.New("dividing such large numbers is not supported")
		}
		return a / b, nil
	}
	return nil, fmt.Errorf("%s of floats is not supported", op)
}

func (a attrExpr) eval(r *renderer, s *scope) (Value, error) {
	of, err := a.of.eval(r, s)
	if err != nil {
		return nil, err
	}
	if err := r.spend(1); err != nil {
		return nil, err
	}
	return attribute(of, a.name, true)
}

func (i itemExpr) eval(r *renderer, s *scope) (Value, error) {
	vs, err := r.evals([]expr{i.of, i.key}, s)
	if err != nil {
		return nil, err
	}
	return item(vs[0], vs[1])
}

func item(of, key Value) (Value, error) {
	if u, ok := of.(undefined); ok {
		return nil, u.err()
	}
	if x, ok := of.(*Dict); ok {
		h, err := hashKey(key)
		if errors.Is(err, errUnhashable) {
			return undefined{"the dict has no such element"}, nil
		}
		if err != nil {
			return nil, err
		}
		if i, ok := x.at[h]; ok {
			return x.vals[i], nil
		}
	}
	if name, ok := key.(string); ok {
		return attribute(of, name, false)
	}
	_, n, isInt, _ := number(key)
	if !isInt {
		return undefined{fmt.Sprintf("%s has no such element", typeName(of))}, nil
	}
	switch x := of.(type) {
	case string:
		return charAt(x, n), nil
	case *List:
		return elementAt(x.Items, n), nil
	case *view:
		if x.kind == "range" {
			return elementAt(x.items, n), nil
		}
	}
	return undefined{fmt.Sprintf("%s has no element %d", typeName(of), n)}, nil
}

func elementAt(items []Value, n int64) Value {
	if n < 0 {
		n += int64(len(items))
	}
	if n < 0 || n >= int64(len(items)) {
		return undefined{"the list has no such element"}
	}
	return items[n]
}

func charAt(s string, n int64) Value {
	if n < 0 {
		n += int64(utf8.RuneCountInString(s))
	}
	if n >= 0 {
		for _, c := range s {
			if n == 0 {
				return string(c)
			}
			n--
		}
	}
	return undefined{"the string has no such element"}
}

func (e sliceExpr) eval(r *renderer, s *scope) (Value, error) {
	of, err := e.of.eval(r, s)
	if err != nil {
		return nil, err
	}
	var parts [3]*int64
	bad := false
	for i, p := range e.parts {
		if p == nil {
			continue
		}
		v, err := p.eval(r, s)
		if err != nil {
			return nil, err
		}
		if v == nil {
			continue
		}
		_, n, isInt, _ := number(v)
		if bad = bad || !isInt; isInt {
			parts[i] = &n
		}
	}
	if u, ok := of.(undefined); ok {
		return nil, u.err()
	}
	var items []Value
	switch x := of.(type) {
	case string:
		if items, err = r.list(x); err != nil {
			return nil, err
		}
	case *List:
		items = x.Items
	case *Dict:
		bad = true
	case *view:
		return nil, fmt.Errorf("a slice of a %s is not supported", x.kind)
	default:
		bad = true
	}
	if bad {
		return undefined{fmt.Sprintf("%s has no such slice", typeName(of))}, nil
	}
	cut, err := slice(items, parts)
	if err != nil {
		return nil, err
	}
	if err := r.built(len(cut)); err != nil {
		return nil, err
	}
	if x, ok := of.(*List); ok {
		return &List{Items: cut, tuple: x.tuple}, nil
	}
	var b strings.Builder
	for _, c := range cut {
		b.WriteString(c.(string))
	}
	return b.String(), nil
}

// slice is Python's items[start:stop:step].
func slice(items []Value, parts [3]*int64) ([]Value, error) {
	n, step := int64(len(items)), int64(1)
	if parts[2] != nil {
		step = *parts[2]
	}
	if step == 0 {
		return nil, errors.New("slice step cannot be zero")
	}
	start, stop, low, high := int64(0), n, int64(0), n
	if step < 0 {
		start, stop, low, high = n-1, -1, -1, n-1
	}
	for i, to := range []*int64{&start, &stop} {
		if parts[i] == nil {
			continue
		}
		if *to = *parts[i]; *to < 0 {
			*to += n
		}
		*to = min(max(*to, low), high)
	}
	step = min(max(step, -n-1), n+1)
	var out []Value
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		out = append(out, items[i])
	}
	return out, nil
}

func (c *callExpr) evaluate(r *renderer, s *scope) ([]Value, []kwarg, error) {
	args, err := r.evals(c.args, s)
	if err != nil {
		return nil, nil, err
	}
	values, err := r.evals(c.values, s)
	if err != nil {
		return nil, nil, err
	}
	var kwargs []kwarg
	for i, name := range c.names {
		kwargs = append(kwargs, kwarg{name, values[i]})
	}
	return args, kwargs, nil
}

func (c *callExpr) eval(r *renderer, s *scope) (Value, error) {
	f, err := c.of.eval(r, s)
	if err != nil {
		return nil, err
	}
	args, kwargs, err := c.evaluate(r, s)
	if err != nil {
		return nil, err
	}
	switch x := f.(type) {
	case *function:
		return x.call(r, args, kwargs)
	case *macro:
		return r.callMacro(x, args, kwargs, nil)
	case undefined:
		return nil, x.err()
	}
	return nil, fmt.Errorf("%s object is not callable", typeName(f))
}

func (f filterExpr) eval(r *renderer, s *scope) (Value, error) {
	of, err := f.of.eval(r, s)
	if err != nil {
		return nil, err
	}
	args, kwargs, err := f.call.evaluate(r, s)
	if err != nil {
		return nil, err
	}
	v, err := f.f(r, of, args, kwargs)
	if err != nil {
		return nil, fmt.Errorf("filter %s: %w", f.name, err)
	}
	return v, nil
}

func (t testExpr) eval(r *renderer, s *scope) (Value, error) {
	of, err := t.of.eval(r, s)
	if err != nil {
		return nil, err
	}
	args, err := r.evals(t.args, s)
	if err != nil {
		return nil, err
	}
	return t.test.f(r, of, args)
}
