package openai

import (
	"bytes"
	"encoding/binary"
	"unicode/utf16"
	"unicode/utf8"
)

// wideForm is how Python's json.loads tells an encoding that is not UTF-8, by a
// mark or by the zeros of its first bytes (json.detect_encoding): Width bytes a
// unit after Mark bytes.
type wideForm struct {
	width, mark int
	order       binary.ByteOrder
}

// wideFormOf returns the encoding of a body; ok is false for UTF-8.
func wideFormOf(b []byte) (form wideForm, ok bool) {
	for _, f := range []struct {
		mark string
		form wideForm
	}{
		{"\xff\xfe\x00\x00", wideForm{4, 4, binary.LittleEndian}},
		{"\x00\x00\xfe\xff", wideForm{4, 4, binary.BigEndian}},
		{"\xff\xfe", wideForm{2, 2, binary.LittleEndian}},
		{"\xfe\xff", wideForm{2, 2, binary.BigEndian}},
	} {
		if bytes.HasPrefix(b, []byte(f.mark)) {
			return f.form, true
		}
	}
	switch {
	case len(b) < 2 || b[0] != 0 && b[1] != 0:
		return form, false
	case b[0] != 0:
		form.order = binary.LittleEndian
		form.width = widthOf(len(b) >= 4 && b[2] == 0 && b[3] == 0)
	default:
		form.order = binary.BigEndian
		form.width = widthOf(len(b) >= 4 && b[1] == 0)
	}
	return form, true
}

func widthOf(quad bool) int {
	if quad {
		return 4
	}
	return 2
}

// IsWide reports whether an engine would take a body for UTF-16 or UTF-32.
func IsWide(body []byte) bool {
	_, ok := wideFormOf(body)
	return ok
}

// WidestGrowth is how many times longer a body may be in UTF-8 than in UTF-16:
// three bytes for two.
const WidestGrowth = 1.5

// Narrow returns a body of UTF-16 or UTF-32 in UTF-8; any other as it is. An
// engine reads the same in it, and the router reads what the engine does. The
// error is an *Error: half characters and numbers that are none, and text that
// is UTF-16 or UTF-32 once more.
func Narrow(body []byte) ([]byte, error) {
	form, ok := wideFormOf(body)
	if !ok {
		return body, nil
	}
	broken := Invalid("", "the body is not valid UTF-8, UTF-16 or UTF-32")
	body = body[form.mark:]
	if len(body)%form.width != 0 {
		return nil, broken
	}
	out := make([]byte, 0, int(WidestGrowth*float64(len(body)))+utf8.UTFMax)
	for i := 0; i < len(body); i += form.width {
		var r rune
		if form.width == 4 {
			r = rune(form.order.Uint32(body[i:]))
		} else if r = rune(form.order.Uint16(body[i:])); utf16.IsSurrogate(r) {
			i += 2
			if i == len(body) {
				return nil, broken
			}
			if r = utf16.DecodeRune(r, rune(form.order.Uint16(body[i:]))); r == utf8.RuneError {
				return nil, broken
			}
		}
		if !utf8.ValidRune(r) {
			return nil, broken
		}
		out = utf8.AppendRune(out, r)
	}
	if IsWide(out) {
		return nil, broken
	}
	return out, nil
}
