package jinja

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// Limits bounds one rendering. A field that is 0 has the default.
type Limits struct {
	Steps  int // nodes evaluated, and bytes built by expressions / 16; default 20 million
	Output int // bytes of text, of the output and of every value; default 16 MiB
	Depth  int // of macro calls, and of nested values; default 200, at most 1000
}

var (
	errSteps  = errors.New("jinja: the template takes too many steps")
	errOutput = errors.New("jinja: the text is too long")
)

// Render appends the text of the template with vars as its variables. now is
// the local time that strftime_now tells. It fails where Python raises, on
// what the package does not support, and on the limits; dst is then returned
// as it was.
func (t *Template) Render(dst []byte, vars *Dict, now time.Time, limits Limits) ([]byte, error) {
	r := &renderer{now: now, steps: limits.Steps, limit: limits.Output, depth: limits.Depth}
	if r.steps <= 0 {
		r.steps = 20_000_000
	}
	if r.limit <= 0 {
		r.limit = 16 << 20
	}
	if r.depth <= 0 {
		r.depth = 200
	}
	r.depth = min(r.depth, 1000)
	s := &scope{vars: map[string]Value{}, up: &scope{vars: globals}}
	for i, key := range vars.keys {
		if name, ok := key.(string); ok {
			s.vars[name] = vars.vals[i]
		}
	}
	r.out = dst
	r.base = len(dst)
	if _, err := r.run(t.body, s); err != nil {
		return dst, err
	}
	return r.out, nil
}

type renderer struct {
	out   []byte
	base  int // where out begins
	now   time.Time
	steps int
	limit int
	depth int
}

// spend takes n steps.
func (r *renderer) spend(n int) error {
	if r.steps -= n; r.steps < 0 {
		return errSteps
	}
	return nil
}

// built accounts for a text or list of n bytes or items that an expression made.
func (r *renderer) built(n int) error {
	if n > r.limit {
		return errOutput
	}
	return r.spend(n/16 + 1)
}

func (r *renderer) str(v Value) (string, error) {
	if s, ok := v.(string); ok {
		return s, nil
	}
	b, err := r.text(nil, v)
	if err == nil {
		err = r.built(len(b))
	}
	return string(b), err
}

type scope struct {
	vars map[string]Value
	up   *scope
}

func (s *scope) child() *scope { return &scope{vars: map[string]Value{}, up: s} }

func (s *scope) find(name string) Value {
	for ; s != nil; s = s.up {
		if v, ok := s.vars[name]; ok {
			return v
		}
	}
	return undefined{"'" + name + "' is undefined"}
}

// control is how a statement ended: "", "break" or "continue".
type control string

type stmt interface {
	run(r *renderer, s *scope) (control, error)
}

func (r *renderer) run(body []stmt, s *scope) (control, error) {
	for _, st := range body {
		if err := r.spend(1); err != nil {
			return "", err
		}
		if c, err := st.run(r, s); err != nil || c != "" {
			return c, err
		}
	}
	return "", nil
}

// capture runs body and returns its text.
func (r *renderer) capture(body []stmt, s *scope) (string, error) {
	out, base := r.out, r.base
	r.out, r.base = nil, 0
	_, err := r.run(body, s)
	text := string(r.out)
	r.out, r.base = out, base
	if err == nil {
		err = r.built(len(text))
	}
	return text, err
}

type (
	dataStmt  string
	printStmt struct{ e expr }
	scopeStmt struct{ body []stmt }
	ifStmt    struct {
		cond        expr
		then, other []stmt
	}
	forStmt struct {
		targets     []string
		over, cond  expr
		body, other []stmt
	}
	setStmt struct {
		names   []string
		attr    string
		value   expr
		body    []stmt
		isBlock bool
	}
	macroStmt struct {
		name     string
		params   []string
		defaults []expr
		body     []stmt
		caller   bool // the body names caller
	}
	callStmt struct {
		call *callExpr
		m    *macroStmt
	}
	controlStmt string
)

func (d dataStmt) run(r *renderer, _ *scope) (control, error) {
	r.out = append(r.out, d...)
	return "", r.fits()
}

func (r *renderer) fits() error {
	if len(r.out)-r.base > r.limit {
		return errOutput
	}
	return r.spend(1)
}

func (p printStmt) run(r *renderer, s *scope) (control, error) {
	v, err := p.e.eval(r, s)
	if err != nil {
		return "", err
	}
	if r.out, err = r.text(r.out, v); err != nil {
		return "", err
	}
	return "", r.fits()
}

func (b scopeStmt) run(r *renderer, s *scope) (control, error) { return r.run(b.body, s.child()) }

func (c controlStmt) run(*renderer, *scope) (control, error) { return control(c), nil }

func (i ifStmt) run(r *renderer, s *scope) (control, error) {
	v, err := i.cond.eval(r, s)
	if err != nil {
		return "", err
	}
	if truth(v) {
		return r.run(i.then, s)
	}
	return r.run(i.other, s)
}

func (st setStmt) run(r *renderer, s *scope) (control, error) {
	var v Value
	var err error
	if st.isBlock {
		v, err = r.capture(st.body, s.child())
	} else {
		v, err = st.value.eval(r, s)
	}
	if err != nil {
		return "", err
	}
	if st.attr != "" {
		ns, ok := s.find(st.names[0]).(*namespace)
		if !ok {
			return "", errors.New("cannot assign attribute on non-namespace object")
		}
		ns.attrs.Set(st.attr, v)
		return "", nil
	}
	return "", r.assign(st.names, v, s)
}

func (r *renderer) assign(names []string, v Value, s *scope) error {
	if len(names) == 1 {
		s.vars[names[0]] = v
		return nil
	}
	items, err := r.list(v)
	if err != nil {
		return err
	}
	if len(items) != len(names) {
		return fmt.Errorf("%d values for %d names", len(items), len(names))
	}
	for i, n := range names {
		s.vars[n] = items[i]
	}
	return nil
}

// list returns what iterating over v gives.
func (r *renderer) list(v Value) ([]Value, error) {
	var items []Value
	switch x := v.(type) {
	case *List:
		items = x.Items
	case *Dict:
		items = x.keys
	case *view:
		items = x.items
	case undefined:
	case string:
		if err := r.built(16 * len(x)); err != nil {
			return nil, err
		}
		items = make([]Value, 0, utf8.RuneCountInString(x))
		for _, c := range x {
			items = append(items, string(c))
		}
	case *iterator:
		for {
			item, ok, err := x.next()
			if err != nil {
				return nil, err
			}
			if !ok {
				break
			}
			if err := r.spend(1); err != nil {
				return nil, err
			}
			items = append(items, item)
		}
	default:
		return nil, fmt.Errorf("%s object is not iterable", typeName(v))
	}
	return items, r.spend(1 + len(items)/16)
}

type loopState struct {
	items []Value
	at    int
	depth int
}

func (f forStmt) run(r *renderer, s *scope) (control, error) {
	v, err := f.over.eval(r, s)
	if err != nil {
		return "", err
	}
	items, err := r.list(v)
	if err != nil {
		return "", err
	}
	if f.cond != nil {
		if items, err = f.filter(r, s, items); err != nil {
			return "", err
		}
	}
	if len(items) == 0 {
		return r.run(f.other, s.child())
	}
	state := &loopState{items: items, depth: 1}
	for i, item := range items {
		if err := r.spend(1); err != nil {
			return "", err
		}
		state.at = i
		inner := s.child()
		inner.vars["loop"] = state
		if err := r.assign(f.targets, item, inner); err != nil {
			return "", err
		}
		c, err := r.run(f.body, inner)
		if err != nil {
			return "", err
		}
		if c == "break" {
			break
		}
	}
	return "", nil
}

func (f forStmt) filter(r *renderer, s *scope, items []Value) ([]Value, error) {
	var kept []Value
	for _, item := range items {
		inner := s.child()
		inner.vars["loop"] = undefined{"'loop' is undefined. the filter section of a loop as well as the else block don't have access to the special 'loop' variable of the current loop."}
		if err := r.assign(f.targets, item, inner); err != nil {
			return nil, err
		}
		v, err := f.cond.eval(r, inner)
		if err != nil {
			return nil, err
		}
		if truth(v) {
			kept = append(kept, item)
		}
	}
	return kept, nil
}

// macro is a macro with the scope it was defined in.
type macro struct {
	*macroStmt
	scope *scope
}

func (m *macroStmt) run(_ *renderer, s *scope) (control, error) {
	s.vars[m.name] = &macro{m, s}
	return "", nil
}

func (c callStmt) run(r *renderer, s *scope) (control, error) {
	f, err := c.call.of.eval(r, s)
	if err != nil {
		return "", err
	}
	m, ok := f.(*macro)
	if !ok {
		return "", fmt.Errorf("a call block of a %s is not supported", typeName(f))
	}
	args, kwargs, err := c.call.evaluate(r, s)
	if err != nil {
		return "", err
	}
	text, err := r.callMacro(m, args, kwargs, &macro{c.m, s})
	if err != nil {
		return "", err
	}
	r.out = append(r.out, text...)
	return "", r.fits()
}

func (r *renderer) callMacro(m *macro, args []Value, kwargs []kwarg, caller Value) (string, error) {
	if r.depth <= 0 {
		return "", errDepth
	}
	r.depth -= 4
	defer func() { r.depth += 4 }()
	s := m.scope.child()
	if len(args) > len(m.params) {
		return "", fmt.Errorf("macro %s takes not more than %d arguments", m.name, len(m.params))
	}
	if caller != nil {
		if !m.caller {
			return "", fmt.Errorf("macro %s takes no caller", m.name)
		}
		s.vars["caller"] = caller
	}
	for i, a := range args {
		s.vars[m.params[i]] = a
	}
	for _, k := range kwargs {
		at := -1
		for i, p := range m.params {
			if p == k.name {
				at = i
			}
		}
		if at < len(args) {
			return "", fmt.Errorf("macro %s takes no argument %s", m.name, k.name)
		}
		s.vars[k.name] = k.value
	}
	first := len(m.params) - len(m.defaults)
	for i, p := range m.params {
		if _, ok := s.vars[p]; ok {
			continue
		}
		if i < first {
			s.vars[p] = undefined{"parameter '" + p + "' was not provided"}
			continue
		}
		v, err := m.defaults[i-first].eval(r, s)
		if err != nil {
			return "", err
		}
		s.vars[p] = v
	}
	return r.capture(m.body, s)
}
