package bpe

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// scan walks over JSON without copying it: encoding/json takes three times as long
// for half a million merges and forgets which keys it did not know. It checks
// what it steps on; what it skips is checked by whoever reads it.
type scan struct {
	s string
	i int
}

var errCut = errors.New("the JSON is cut short or not well-formed")

// maxNesting bounds brackets in brackets.
const maxNesting = 64

// peek returns the next byte that is no blank; 0 at the end.
func (c *scan) peek() byte {
	for c.i < len(c.s) {
		switch b := c.s[c.i]; b {
		case ' ', '\t', '\n', '\r':
			c.i++
		default:
			return b
		}
	}
	return 0
}

func (c *scan) take(b byte) bool {
	if c.peek() != b {
		return false
	}
	c.i++
	return true
}

// quoted returns the next string with its quotes.
func (c *scan) quoted() (string, error) {
	if c.peek() != '"' {
		return "", errCut
	}
	from := c.i
	for c.i++; c.i < len(c.s); c.i++ {
		switch b := c.s[c.i]; {
		case b == '\\':
			c.i++
		case b == '"':
			c.i++
			return c.s[from:c.i], nil
		case b < ' ':
			return "", errCut
		}
	}
	return "", errCut
}

// text returns the next string.
func (c *scan) text() (string, error) {
	q, err := c.quoted()
	if err != nil {
		return "", err
	}
	return unquoted(q)
}

// unquoted decodes a JSON string. Half a surrogate pair is an error: it stands for
// no character.
func unquoted(q string) (string, error) {
	if strings.IndexByte(q, '\\') < 0 {
		return q[1 : len(q)-1], nil
	}
	var s string
	if err := json.Unmarshal([]byte(q), &s); err != nil {
		return "", errCut
	}
	if strings.Count(s, "\ufffd") != strings.Count(strings.ToLower(strings.ReplaceAll(q, `\\`, "")), `\ufffd`)+strings.Count(q, "\ufffd") {
		return "", errors.New("a string holds half a surrogate pair")
	}
	return s, nil
}

// number returns the next value, a number of at most 7 digits.
func (c *scan) number() (uint32, error) {
	c.peek()
	from, n := c.i, uint32(0)
	for c.i < len(c.s) && c.s[c.i] >= '0' && c.s[c.i] <= '9' && c.i-from < 7 {
		n = n*10 + uint32(c.s[c.i]-'0')
		c.i++
	}
	if c.i == from || c.i < len(c.s) && !strings.ContainsRune(",}] \t\n\r", rune(c.s[c.i])) {
		return 0, errors.New("an id is no number below 10,000,000")
	}
	return n, nil
}

// value returns the next value, whatever it is.
func (c *scan) value() (string, error) {
	first := c.peek()
	from := c.i
	switch first {
	case 0, ',', ':', '}', ']':
		return "", errCut
	case '"':
		return c.quoted()
	case '{', '[':
		return c.nested()
	}
	for c.i < len(c.s) && !strings.ContainsRune(",}] \t\n\r", rune(c.s[c.i])) {
		c.i++
	}
	return c.s[from:c.i], nil
}

func (c *scan) nested() (string, error) {
	from, depth := c.i, 0
	for c.i < len(c.s) {
		switch c.s[c.i] {
		case '"':
			if _, err := c.quoted(); err != nil {
				return "", err
			}
			continue
		case '{', '[':
			if depth++; depth > maxNesting {
				return "", fmt.Errorf("more than %d brackets lie in one another", maxNesting)
			}
		case '}', ']':
			if depth--; depth == 0 {
				c.i++
				return c.s[from:c.i], nil
			}
		}
		c.i++
	}
	return "", errCut
}

// each calls f before every element of the next value, an object or a list; f
// steps over the element. An object's key goes with it.
func (c *scan) each(open, end byte, f func(key string) error) error {
	if !c.take(open) {
		return fmt.Errorf("a %q is missing", string(open))
	}
	if c.take(end) {
		return nil
	}
	for {
		key := ""
		if open == '{' {
			var err error
			if key, err = c.text(); err != nil {
				return err
			}
			if !c.take(':') {
				return errCut
			}
		}
		if err := f(key); err != nil {
			return err
		}
		if c.take(end) {
			return nil
		}
		if !c.take(',') {
			return errCut
		}
	}
}

// object is a JSON object whose members are asked for by name; what nobody asked
// for is refused by refuseRest.
type object struct {
	what    string // its place in the file
	members map[string]string
	err     error // the first
}

func newObject(what, json string) *object {
	o := &object{what: what, members: map[string]string{}}
	c := scan{s: json}
	err := c.each('{', '}', func(key string) error {
		if _, twice := o.members[key]; twice {
			return fmt.Errorf("%q stands there twice", key)
		}
		v, err := c.value()
		o.members[key] = v
		return err
	})
	if err == nil && c.peek() != 0 {
		err = errCut
	}
	o.fail(err)
	return o
}

func (o *object) fail(err error) {
	if err != nil && o.err == nil {
		o.err = fmt.Errorf("%s: %w", o.what, err)
	}
}

// take returns a member and forgets it; "" if it is missing or null.
func (o *object) take(name string) string {
	v := o.members[name]
	delete(o.members, name)
	if v == "null" {
		return ""
	}
	return v
}

func (o *object) bool(name string, otherwise bool) bool {
	switch v := o.take(name); v {
	case "true":
		return true
	case "false":
		return false
	case "":
	default:
		o.fail(fmt.Errorf("%q must be true or false", name))
	}
	return otherwise
}

// text returns a member; missing is "".
func (o *object) text(name string) string {
	v := o.take(name)
	if v == "" {
		return ""
	}
	c := scan{s: v}
	s, err := c.text()
	if err != nil {
		o.fail(fmt.Errorf("%q: %w", name, err))
	}
	return s
}

// list calls f for every element of a member; missing is empty.
func (o *object) list(name string, f func(what, json string) error) {
	v := o.take(name)
	if v == "" {
		return
	}
	c, n := scan{s: v}, 0
	o.fail(c.each('[', ']', func(string) error {
		e, err := c.value()
		if err != nil {
			return err
		}
		n++
		return f(fmt.Sprintf("%s.%s[%d]", o.what, name, n-1), e)
	}))
}

// refuseRest fails if there are members that nobody took and that are not null.
func (o *object) refuseRest() error {
	for name, v := range o.members {
		if v != "null" {
			o.fail(fmt.Errorf("the option %.40q is not known", name))
		}
	}
	return o.err
}
