package jinja

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// maxSource is the longest template taken, in bytes.
const maxSource = 1 << 20

// Template is a parsed template.
type Template struct{ body []stmt }

type parser struct {
	src    string
	tokens []token
	at     int
	depth  int
	loops  int
}

var errDepth = errors.New("jinja: nested too deep")

// Parse reads a template. It fails on what jinja2 rejects, and on constructs
// this package does not know, with their names.
func Parse(source string) (*Template, error) {
	if len(source) > maxSource {
		return nil, fmt.Errorf("jinja: the template has %d bytes, %d are the most", len(source), maxSource)
	}
	tokens, err := lex(source)
	if err != nil {
		return nil, err
	}
	p := &parser{src: source, tokens: tokens}
	body, _, err := p.body()
	if err != nil {
		return nil, err
	}
	return &Template{body}, nil
}

func (p *parser) peek() token { return p.tokens[p.at] }

func (p *parser) take() token {
	t := p.tokens[p.at]
	if t.kind != tEOF {
		p.at++
	}
	return t
}

func (p *parser) fault(format string, args ...any) error {
	return fmt.Errorf("jinja: line %d: %s", lineAt(p.src, p.peek().pos), fmt.Sprintf(format, args...))
}

func (p *parser) isOp(op string) bool { t := p.peek(); return t.kind == tOp && t.text == op }

func (p *parser) isWord(w string) bool { t := p.peek(); return t.kind == tName && t.text == w }

func (p *parser) skipOp(op string) bool {
	if p.isOp(op) {
		p.at++
		return true
	}
	return false
}

func (p *parser) skipWord(w string) bool {
	if p.isWord(w) {
		p.at++
		return true
	}
	return false
}

func (p *parser) wantOp(op string) error {
	if !p.skipOp(op) {
		return p.fault("expected %s, found %q", op, p.peek().text)
	}
	return nil
}

func (p *parser) wantEnd() error {
	if p.peek().kind != tBlockEnd {
		return p.fault("expected the end of the tag, found %q", p.peek().text)
	}
	p.at++
	return nil
}

func (p *parser) name() (string, error) {
	t := p.peek()
	if t.kind != tName || t.text[0] >= '0' && t.text[0] <= '9' {
		return "", p.fault("expected a name, found %q", t.text)
	}
	p.at++
	return t.text, nil
}

func (p *parser) enter() error {
	p.depth++
	if p.depth > 200 {
		return errDepth
	}
	return nil
}

// body reads statements up to a tag in ends, whose name it returns and whose
// end it leaves.
func (p *parser) body(ends ...string) ([]stmt, string, error) {
	if err := p.enter(); err != nil {
		return nil, "", err
	}
	defer func() { p.depth-- }()
	var out []stmt
	for {
		switch t := p.take(); t.kind {
		case tEOF:
			if len(ends) > 0 {
				return nil, "", p.fault("the template ends before %s", ends[0])
			}
			return out, "", nil
		case tData:
			out = append(out, dataStmt(t.text))
		case tVarBegin:
			e, err := p.tuple(p.expr)
			if err != nil {
				return nil, "", err
			}
			if p.peek().kind != tVarEnd {
				return nil, "", p.fault("expected the end of the expression, found %q", p.peek().text)
			}
			p.at++
			out = append(out, printStmt{e})
		case tBlockBegin:
			word, err := p.name()
			if err != nil {
				return nil, "", err
			}
			if slices.Contains(ends, word) {
				return out, word, nil
			}
			s, err := p.statement(word)
			if err != nil {
				return nil, "", err
			}
			out = append(out, s)
		}
	}
}

// block reads the end of a tag, statements up to the tag END, and its end.
func (p *parser) block(end string) ([]stmt, error) {
	if err := p.wantEnd(); err != nil {
		return nil, err
	}
	body, _, err := p.body(end)
	if err != nil {
		return nil, err
	}
	return body, p.wantEnd()
}

func (p *parser) statement(word string) (stmt, error) {
	switch word {
	case "if":
		return p.ifStatement()
	case "for":
		return p.forStatement()
	case "set":
		return p.setStatement()
	case "macro":
		return p.macroStatement()
	case "generation":
		loops := p.loops
		p.loops = 0
		body, err := p.block("endgeneration")
		p.loops = loops
		return scopeStmt{body}, err
	case "call":
		return p.callStatement()
	case "break", "continue":
		if p.loops == 0 {
			return nil, p.fault("%s outside a loop", word)
		}
		return controlStmt(word), p.wantEnd()
	}
	return nil, p.fault("the tag %q is not supported", word)
}

func (p *parser) ifStatement() (stmt, error) {
	cond, err := p.tuple(p.or)
	if err != nil {
		return nil, err
	}
	if err := p.wantEnd(); err != nil {
		return nil, err
	}
	s := ifStmt{cond: cond}
	var end string
	if s.then, end, err = p.body("elif", "else", "endif"); err != nil {
		return nil, err
	}
	if end == "elif" {
		if err := p.enter(); err != nil {
			return nil, err
		}
		next, err := p.ifStatement()
		p.depth--
		s.other = []stmt{next}
		return s, err
	}
	if end == "else" {
		s.other, err = p.block("endif")
		return s, err
	}
	return s, p.wantEnd()
}

func (p *parser) forStatement() (stmt, error) {
	targets, err := p.targets()
	if err != nil {
		return nil, err
	}
	if !p.skipWord("in") {
		return nil, p.fault("expected in, found %q", p.peek().text)
	}
	s := forStmt{targets: targets}
	if slices.Contains(targets, "loop") {
		return nil, p.fault("the loop's variable cannot be named loop")
	}
	if s.over, err = p.tuple(p.or); err != nil {
		return nil, err
	}
	if p.skipWord("if") {
		if s.cond, err = p.expr(); err != nil {
			return nil, err
		}
	}
	if p.isWord("recursive") {
		return nil, p.fault("recursive loops are not supported")
	}
	if err := p.wantEnd(); err != nil {
		return nil, err
	}
	p.loops++
	body, end, err := p.body("else", "endfor")
	p.loops--
	if err != nil {
		return nil, err
	}
	s.body = body
	if end == "else" {
		s.other, err = p.block("endfor")
		return s, err
	}
	return s, p.wantEnd()
}

func (p *parser) targets() ([]string, error) {
	var names []string
	paren := p.skipOp("(")
	for {
		n, err := p.name()
		if err != nil {
			return nil, err
		}
		if slices.Contains([]string{"true", "false", "none", "True", "False", "None"}, n) {
			return nil, p.fault("cannot assign to %s", n)
		}
		names = append(names, n)
		if !p.skipOp(",") {
			break
		}
	}
	if paren {
		return names, p.wantOp(")")
	}
	return names, nil
}

func (p *parser) setStatement() (stmt, error) {
	names, err := p.targets()
	if err != nil {
		return nil, err
	}
	s := setStmt{names: names}
	if len(names) == 1 && p.skipOp(".") {
		if s.attr, err = p.name(); err != nil {
			return nil, err
		}
	}
	if p.skipOp("=") {
		if s.value, err = p.tuple(p.expr); err != nil {
			return nil, err
		}
		return s, p.wantEnd()
	}
	if len(names) > 1 || p.isOp("|") {
		return nil, p.fault("this form of set is not supported")
	}
	loops := p.loops
	p.loops = 0
	s.body, err = p.block("endset")
	p.loops = loops
	s.isBlock = true
	return s, err
}

func (p *parser) macroStatement() (stmt, error) {
	name, err := p.name()
	if err != nil {
		return nil, err
	}
	if err := p.wantOp("("); err != nil {
		return nil, err
	}
	m := &macroStmt{name: name}
	return m, p.macroRest(m, "endmacro")
}

// macroRest reads parameters after their parenthesis, and the body.
func (p *parser) macroRest(m *macroStmt, end string) error {
	for !p.isOp(")") {
		if len(m.params) > 0 {
			if err := p.wantOp(","); err != nil {
				return err
			}
		}
		n, err := p.name()
		if err != nil {
			return err
		}
		if n == "caller" || slices.Contains(m.params, n) {
			return p.fault("the parameter %s is not supported", n)
		}
		m.params = append(m.params, n)
		if p.skipOp("=") {
			d, err := p.expr()
			if err != nil {
				return err
			}
			m.defaults = append(m.defaults, d)
		} else if len(m.defaults) > 0 {
			return p.fault("a parameter without default follows one with")
		}
	}
	p.at++
	loops, start := p.loops, p.at
	p.loops = 0
	var err error
	m.body, err = p.block(end)
	p.loops = loops
	m.caller = slices.ContainsFunc(p.tokens[start:p.at], func(t token) bool { return t.kind == tName && t.text == "caller" })
	return err
}

func (p *parser) callStatement() (stmt, error) {
	m := &macroStmt{name: "caller"}
	if p.isOp("(") {
		return nil, p.fault("call with parameters is not supported")
	}
	e, err := p.expr()
	if err != nil {
		return nil, err
	}
	c, ok := e.(*callExpr)
	if !ok {
		return nil, p.fault("expected a call")
	}
	loops := p.loops
	p.loops = 0
	m.body, err = p.block("endcall")
	p.loops = loops
	return callStmt{c, m}, err
}

// tuple reads one expression, or several with commas between as a tuple.
func (p *parser) tuple(one func() (expr, error)) (expr, error) {
	first, err := one()
	if err != nil || !p.isOp(",") {
		return first, err
	}
	items := []expr{first}
	for p.skipOp(",") {
		if k := p.peek().kind; k == tVarEnd || k == tBlockEnd || p.isOp(")") {
			break
		}
		e, err := one()
		if err != nil {
			return nil, err
		}
		items = append(items, e)
	}
	return listExpr{items, true}, nil
}

func (p *parser) expr() (expr, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	e, err := p.or()
	for err == nil && p.skipWord("if") {
		c := condExpr{then: e}
		if c.cond, err = p.or(); err != nil {
			return nil, err
		}
		if p.skipWord("else") {
			c.other, err = p.expr()
		}
		e = c
	}
	return e, err
}

func (p *parser) or() (expr, error) {
	left, err := p.and()
	for err == nil && p.skipWord("or") {
		var right expr
		right, err = p.and()
		left = logicExpr{left, right, true}
	}
	return left, err
}

func (p *parser) and() (expr, error) {
	left, err := p.not()
	for err == nil && p.skipWord("and") {
		var right expr
		right, err = p.not()
		left = logicExpr{left, right, false}
	}
	return left, err
}

func (p *parser) not() (expr, error) {
	if !p.skipWord("not") {
		return p.comparison()
	}
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	e, err := p.not()
	return notExpr{e}, err
}

func (p *parser) comparison() (expr, error) {
	first, err := p.sum()
	c := compareExpr{first: first}
	for err == nil {
		op := p.peek().text
		switch {
		case p.peek().kind == tOp && slices.Contains([]string{"==", "!=", "<", "<=", ">", ">="}, op):
			p.at++
		case p.skipWord("in"):
		case p.isWord("not") && p.tokens[p.at+1].kind == tName && p.tokens[p.at+1].text == "in":
			p.at += 2
			op = "not in"
		default:
			if len(c.ops) == 0 {
				return first, nil
			}
			return c, nil
		}
		var e expr
		e, err = p.sum()
		c.ops, c.rest = append(c.ops, op), append(c.rest, e)
	}
	return nil, err
}

func (p *parser) binary(next func() (expr, error), ops ...string) (expr, error) {
	left, err := next()
	for err == nil && p.peek().kind == tOp && slices.Contains(ops, p.peek().text) {
		op := p.take().text
		var right expr
		right, err = next()
		left = binaryExpr{op, left, right}
	}
	return left, err
}

func (p *parser) sum() (expr, error)     { return p.binary(p.concat, "+", "-") }
func (p *parser) concat() (expr, error)  { return p.binary(p.product, "~") }
func (p *parser) product() (expr, error) { return p.binary(p.filtered, "*", "/", "//", "%") }

func (p *parser) filtered() (expr, error) { return p.unary(true) }

func (p *parser) unary(filters bool) (expr, error) {
	var e expr
	var err error
	if p.isOp("-") || p.isOp("+") {
		if err := p.enter(); err != nil {
			return nil, err
		}
		op := p.take().text
		e, err = p.unary(false)
		p.depth--
		e = signExpr{op, e}
	} else {
		e, err = p.primary()
	}
	if err == nil {
		e, err = p.postfix(e)
	}
	if err == nil && filters {
		e, err = p.filters(e)
	}
	if err == nil && p.isOp("**") {
		err = p.fault("** is not supported")
	}
	return e, err
}

func (p *parser) primary() (expr, error) {
	t := p.peek()
	switch t.kind {
	case tName:
		p.at++
		switch t.text {
		case "true", "True":
			return constExpr{true}, nil
		case "false", "False":
			return constExpr{false}, nil
		case "none", "None":
			return constExpr{nil}, nil
		}
		return nameExpr(t.text), nil
	case tString:
		s := ""
		for p.peek().kind == tString {
			s += p.take().text
		}
		return constExpr{s}, nil
	case tInt, tFloat:
		p.at++
		if t.kind == tFloat {
			f, err := strconv.ParseFloat(t.text, 64)
			return constExpr{f}, err
		}
		i, err := strconv.ParseInt(t.text, 10, 64)
		if err != nil {
			return nil, p.fault("the integer %.40s is beyond 64 bits", t.text)
		}
		return constExpr{i}, nil
	case tOp:
		switch t.text {
		case "(":
			p.at++
			if p.skipOp(")") {
				return listExpr{nil, true}, nil
			}
			e, err := p.tuple(p.expr)
			if err != nil {
				return nil, err
			}
			return e, p.wantOp(")")
		case "[":
			p.at++
			items, err := p.items("]")
			return listExpr{items, false}, err
		case "{":
			p.at++
			return p.dict()
		}
	}
	return nil, p.fault("unexpected %q", t.text)
}

func (p *parser) items(end string) ([]expr, error) {
	var items []expr
	for !p.skipOp(end) {
		if len(items) > 0 {
			if err := p.wantOp(","); err != nil {
				return nil, err
			}
			if p.skipOp(end) {
				break
			}
		}
		e, err := p.expr()
		if err != nil {
			return nil, err
		}
		items = append(items, e)
	}
	return items, nil
}

func (p *parser) dict() (expr, error) {
	var d dictExpr
	for !p.skipOp("}") {
		if len(d.keys) > 0 {
			if err := p.wantOp(","); err != nil {
				return nil, err
			}
			if p.skipOp("}") {
				break
			}
		}
		k, err := p.expr()
		if err != nil {
			return nil, err
		}
		if err := p.wantOp(":"); err != nil {
			return nil, err
		}
		v, err := p.expr()
		if err != nil {
			return nil, err
		}
		d.keys, d.values = append(d.keys, k), append(d.values, v)
	}
	return d, nil
}

func (p *parser) postfix(e expr) (expr, error) {
	for n := 0; ; n++ {
		if n > 200 {
			return nil, errDepth
		}
		var err error
		switch {
		case p.isOp("("):
			e, err = p.call(e)
		case p.skipOp("."):
			if p.peek().kind == tInt {
				return nil, p.fault("an attribute that is a number is not supported")
			}
			var name string
			if name, err = p.name(); err == nil {
				if len(name) > 1 && name[:2] == "__" {
					return nil, p.fault("the attribute %s is not supported", name)
				}
				e = attrExpr{e, name}
			}
		case p.skipOp("["):
			e, err = p.subscript(e)
		default:
			return e, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (p *parser) subscript(of expr) (expr, error) {
	var parts [3]expr
	n := 0
	for {
		if p.skipOp(":") {
			if n++; n > 2 {
				return nil, p.fault("a slice has three parts")
			}
			continue
		}
		if p.skipOp("]") {
			break
		}
		if parts[n] != nil {
			return nil, p.fault("expected ], found %q", p.peek().text)
		}
		e, err := p.expr()
		if err != nil {
			return nil, err
		}
		parts[n] = e
	}
	if n > 0 {
		return sliceExpr{of, parts}, nil
	}
	if parts[0] == nil {
		return nil, p.fault("expected an index")
	}
	return itemExpr{of, parts[0]}, nil
}

func (p *parser) call(of expr) (*callExpr, error) {
	c := &callExpr{of: of}
	if err := p.wantOp("("); err != nil {
		return nil, err
	}
	for !p.skipOp(")") {
		if len(c.args)+len(c.names) > 0 {
			if err := p.wantOp(","); err != nil {
				return nil, err
			}
			if p.skipOp(")") {
				break
			}
		}
		if next := p.tokens[min(p.at+1, len(p.tokens)-1)]; p.peek().kind == tName && next.kind == tOp && next.text == "=" {
			name, err := p.name()
			if err != nil {
				return nil, err
			}
			p.at++
			e, err := p.expr()
			if err != nil {
				return nil, err
			}
			if slices.Contains(c.names, name) {
				return nil, p.fault("the argument %s is given twice", name)
			}
			c.names, c.values = append(c.names, name), append(c.values, e)
			continue
		}
		if len(c.names) > 0 {
			return nil, p.fault("an argument without name follows one with")
		}
		e, err := p.expr()
		if err != nil {
			return nil, err
		}
		c.args = append(c.args, e)
	}
	return c, nil
}

func (p *parser) filters(e expr) (expr, error) {
	for n := 0; ; n++ {
		if n > 200 {
			return nil, errDepth
		}
		switch {
		case p.skipOp("|"):
			name, err := p.name()
			if err != nil {
				return nil, err
			}
			f, ok := filters[name]
			if !ok {
				return nil, p.fault("the filter %q is not supported", name)
			}
			c := &callExpr{}
			if p.isOp("(") {
				if c, err = p.call(nil); err != nil {
					return nil, err
				}
			}
			e = filterExpr{e, name, f, c}
		case p.skipWord("is"):
			t, err := p.test(e)
			if err != nil {
				return nil, err
			}
			e = t
		case p.isOp("("):
			c, err := p.call(e)
			if err != nil {
				return nil, err
			}
			e = c
		default:
			return e, nil
		}
	}
}

func (p *parser) test(of expr) (expr, error) {
	negated := p.skipWord("not")
	name, err := p.name()
	if err != nil {
		return nil, err
	}
	f, ok := tests[name]
	if !ok {
		return nil, p.fault("the test %q is not supported", name)
	}
	t := testExpr{of: of, test: f}
	next := p.peek()
	switch {
	case p.isOp("("):
		c, err := p.call(nil)
		if err != nil {
			return nil, err
		}
		if len(c.names) > 0 {
			return nil, p.fault("named arguments of a test are not supported")
		}
		t.args = c.args
	case p.isWord("is"):
		return nil, p.fault("tests cannot be chained with is")
	case next.kind == tString || next.kind == tInt || next.kind == tFloat || p.isOp("[") || p.isOp("{") ||
		next.kind == tName && !slices.Contains([]string{"else", "or", "and"}, next.text):
		e, err := p.primary()
		if err == nil {
			e, err = p.postfix(e)
		}
		if err != nil {
			return nil, err
		}
		t.args = []expr{e}
	}
	if len(t.args) != f.args {
		return nil, p.fault("the test %q takes %d arguments", name, f.args)
	}
	if negated {
		return notExpr{t}, nil
	}
	return t, nil
}
