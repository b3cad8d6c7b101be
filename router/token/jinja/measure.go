package jinja

// measure accounts for a walk through a value before it is made: one that holds
// another one twice, again and again, is small in memory and endless to walk. Each
// value costs a step and so many bytes of text besides its own, and as many more
// for each level that it lies below the top.
type measure struct {
	each, level int
	bytes       int
}

func (r *renderer) measure(v Value, m measure) error { return r.walk(v, &m, r.depth) }

func (r *renderer) walk(v Value, m *measure, depth int) error {
	if depth <= 0 {
		return errDepth
	}
	if s, ok := v.(string); ok {
		m.bytes += len(s)
	}
	if m.bytes += m.each + m.level*(r.depth-depth+1); m.bytes > r.limit {
		return errOutput
	}
	if err := r.spend(1); err != nil {
		return err
	}
	switch x := v.(type) {
	case *List:
		return r.walkAll(x.Items, m, depth)
	case *view:
		return r.walkAll(x.items, m, depth)
	case *Dict:
		if err := r.walkAll(x.keys, m, depth); err != nil {
			return err
		}
		return r.walkAll(x.vals, m, depth)
	}
	return nil
}

func (r *renderer) walkAll(items []Value, m *measure, depth int) error {
	for _, item := range items {
		if err := r.walk(item, m, depth-1); err != nil {
			return err
		}
	}
	return nil
}

// text is Python's str(v), appended to dst.
func (r *renderer) text(dst []byte, v Value) ([]byte, error) {
	if err := r.measure(v, measure{each: len(", ")}); err != nil {
		return dst, err
	}
	return appendText(dst, v, r.depth)
}

// same is Python's ==.
func (r *renderer) same(a, b Value) (bool, error) {
	if err := r.measure(a, measure{}); err != nil {
		return false, err
	}
	return equal(a, b, r.depth)
}
