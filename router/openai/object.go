package openai

import (
	"fmt"
	"slices"
)

// maxMembers bounds the fields of an object that is taken apart, repeated ones
// counted each time; engines know about 80.
const maxMembers = 256

// member is one field of an object: its name decoded, its key and value as
// they were written.
type member struct {
	name  string
	key   []byte // with quotes
	value []byte
}

// object is a JSON object taken apart one level deep.
type object struct {
	raw     []byte // as parsed; nil once edited
	members []member
}

// parseObject takes apart the object that b is, white space around it allowed.
// Of a name that occurs twice the last value is kept, as engines do, and the
// object renders without the others (I3).
func parseObject(b []byte, depth int) (object, error) {
	o := object{raw: b, members: make([]member, 0, 16)}
	seen := 0
	end, err := eachMember(b, skipSpace(b, 0), depth, func(key, value []byte) error {
		if seen++; seen > maxMembers {
			return fmt.Errorf("has more than %d fields", maxMembers)
		}
		name := unquote(key)
		if i := o.find(name); i >= 0 {
			o.members[i], o.raw = member{name, key, value}, nil
			return nil
		}
		o.members = append(o.members, member{name, key, value})
		return nil
	})
	if err != nil {
		return o, err
	}
	if end = skipSpace(b, end); end != len(b) {
		return o, unexpected(b, end)
	}
	return o, nil
}

// clip shortens a name from outside for use in a message.
func clip(name string) string {
	const most = 64
	if len(name) > most {
		return name[:most] + "..."
	}
	return name
}

func (o *object) find(name string) int {
	for i := range o.members {
		if o.members[i].name == name {
			return i
		}
	}
	return -1
}

// get returns the raw value, nil if the field is missing.
func (o *object) get(name string) []byte {
	if i := o.find(name); i >= 0 {
		return o.members[i].value
	}
	return nil
}

// set replaces the value in place or appends the field. name must need no
// escapes.
func (o *object) set(name string, value []byte) {
	o.raw = nil
	if i := o.find(name); i >= 0 {
		o.members[i].value = value
		return
	}
	o.members = append(o.members, member{name, []byte(`"` + name + `"`), value})
}

// remove deletes the field and reports whether it was there.
func (o *object) remove(name string) bool {
	i := o.find(name)
	if i < 0 {
		return false
	}
	o.raw = nil
	o.members = slices.Delete(o.members, i, i+1)
	return true
}

// bytes renders the object; the parsed bytes themselves if nothing was edited.
func (o *object) bytes() []byte {
	if o.raw != nil {
		return o.raw
	}
	size := 2
	for i := range o.members {
		size += len(o.members[i].key) + len(o.members[i].value) + 2
	}
	dst := append(make([]byte, 0, size), '{')
	for i := range o.members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, o.members[i].key...), ':'), o.members[i].value...)
	}
	return append(dst, '}')
}
