package openai

import (
	"encoding/binary"
	"testing"
	"unicode/utf16"
)

// encodings of one text, by what json.loads of Python takes.
func encodings(text string) map[string][]byte {
	little, big := binary.LittleEndian.AppendUint16, binary.BigEndian.AppendUint16
	out := map[string][]byte{"utf-8": []byte(text)}
	for _, u := range utf16.Encode([]rune(text)) {
		out["utf-16-le"] = little(out["utf-16-le"], u)
		out["utf-16-be"] = big(out["utf-16-be"], u)
	}
	for _, r := range text {
		out["utf-32-le"] = binary.LittleEndian.AppendUint32(out["utf-32-le"], uint32(r))
		out["utf-32-be"] = binary.BigEndian.AppendUint32(out["utf-32-be"], uint32(r))
	}
	for name, mark := range map[string]string{"utf-16-le": "\xff\xfe", "utf-16-be": "\xfe\xff", "utf-32-le": "\xff\xfe\x00\x00", "utf-32-be": "\x00\x00\xfe\xff"} {
		out[name+" marked"] = append([]byte(mark), out[name]...)
	}
	return out
}

func TestNarrow(t *testing.T) {
	const text = `{"model":"m","messages":[{"role":"user","content":"größer 你好 😀"}]}`
	for name, body := range encodings(text) {
		got, err := Narrow(body)
		if err != nil || string(got) != text || IsWide(body) == (name == "utf-8") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	wide := encodings(text)
	twice := encodings(string(wide["utf-16-le"]))
	for name, body := range map[string][]byte{
		"half a unit":     append(wide["utf-16-le"][:20:20], 'x'),
		"half a pair":     append(wide["utf-16-le"][:20:20], 0, 0xd8),
		"a pair reversed": append(wide["utf-16-le"][:20:20], 0, 0xdc, 0, 0xd8),
		"no character":    append(wide["utf-32-le"][:20:20], 0, 0, 0x11, 0),
		"a surrogate":     append(wide["utf-32-le"][:20:20], 0, 0xd8, 0, 0),
		"wide twice":      twice["utf-16-be marked"],
	} {
		if got, err := Narrow(body); err == nil {
			t.Errorf("%s: taken for %q", name, got)
		}
	}
}
