package bpe

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

func (l *loader) readModel(json string) error {
	o := newObject("model", json)
	if kind := o.text("type"); kind != "BPE" && (kind != "" || o.members["merges"] == "") {
		o.fail(unknownType(kind))
	}
	for _, option := range []string{"continuing_subword_prefix", "end_of_word_suffix"} {
		if o.text(option) != "" {
			o.fail(fmt.Errorf("%q is not supported", option))
		}
	}
	if d := o.take("dropout"); d != "" && d != "0" && d != "0.0" {
		o.fail(errors.New("\"dropout\" draws lots and is not supported"))
	}
	m := &l.model
	m.fuseUnknown, m.ignoreMerges = o.bool("fuse_unk", false), o.bool("ignore_merges", false)
	unknown, fallback := o.take("unk_token"), o.bool("byte_fallback", false)
	if o.err == nil {
		o.fail(l.readVocab(o.take("vocab")))
	}
	if o.err == nil {
		o.fail(l.readMerges(o.take("merges")))
	}
	if o.err == nil {
		o.fail(l.readAlphabet(unknown, fallback))
	}
	return o.refuseRest()
}

func (l *loader) readVocab(json string) error {
	l.vocab = make(map[string]uint32, min(len(json)/24, maxVocab))
	ids := map[uint32]struct{}{}
	var dense []bool // ids in order need no map
	c := scan{s: json}
	err := c.each('{', '}', func(token string) error {
		if len(l.vocab) >= maxVocab {
			return fmt.Errorf("the vocabulary has more than %d tokens", maxVocab)
		}
		id, err := c.number()
		if err != nil {
			return err
		}
		if _, twice := l.vocab[token]; twice {
			return fmt.Errorf("the token %.40q stands there twice", token)
		}
		l.vocab[token] = id
		var twice bool
		if id < maxVocab {
			for int(id) >= len(dense) {
				dense = append(dense, make([]bool, 1<<16)...)
			}
			twice = dense[id]
			dense[id] = true
		} else {
			_, twice = ids[id]
			ids[id] = struct{}{}
		}
		if twice {
			return fmt.Errorf("two tokens have the id %d", id)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("vocab: %w", err)
	}
	return nil
}

// readMerges reads pairs, written as lists of two or as two words in a string.
func (l *loader) readMerges(json string) error {
	n := strings.Count(json, ",") + 1 // at least as many as there are merges
	if strings.HasPrefix(strings.TrimLeft(strings.TrimPrefix(json, "["), " \t\r\n"), "[") {
		n = strings.Count(json, "]")
	}
	m := &l.model
	m.pairs = newPairTable(min(n, maxMerges))
	joints := &jointSet{}
	if l.isolated || m.ignoreMerges {
		joints = nil // bytes come in words; and a piece as a whole may be a token
	}
	m.joints = joints
	var whole []byte
	rank := uint32(0)
	c := scan{s: json}
	err := c.each('[', ']', func(string) error {
		if rank >= maxMerges {
			return fmt.Errorf("there are more than %d", maxMerges)
		}
		a, b, err := c.merge()
		if err != nil {
			return err
		}
		if a == "" { // a comment
			return nil
		}
		whole = append(append(whole[:0], a...), b...)
		left, ok := l.vocab[a]
		right, ok2 := l.vocab[b]
		id, ok3 := l.vocab[string(whole)]
		if !ok || !ok2 || !ok3 {
			return fmt.Errorf("merge %d is of tokens that the vocabulary does not have", rank)
		}
		if !m.pairs.put(merge{left, right, rank, id}) {
			return errors.New("too many pairs fall into one place, or lists and lines are mixed")
		}
		if joints != nil {
			last, _ := utf8.DecodeLastRuneInString(a)
			first, _ := utf8.DecodeRuneInString(b)
			joints.add(last, first)
		}
		rank++
		return nil
	})
	if err != nil {
		return fmt.Errorf("merges: %w", err)
	}
	return nil
}

// merge returns the next pair; "", "" for a comment.
func (c *scan) merge() (a, b string, err error) {
	if c.peek() == '"' {
		line, err := c.text()
		if err != nil || strings.HasPrefix(line, "#version") {
			return "", "", err
		}
		a, b, _ = strings.Cut(line, " ")
		if a == "" || b == "" || strings.Contains(b, " ") {
			return "", "", errors.New("a line is not two words")
		}
		return a, b, nil
	}
	if !c.take('[') {
		return "", "", errors.New("an element is no pair")
	}
	if a, err = c.text(); err != nil || !c.take(',') {
		return "", "", errCut
	}
	if b, err = c.text(); err != nil || !c.take(']') {
		return "", "", errCut
	}
	if a == "" || b == "" {
		return "", "", errors.New("a token of a pair is empty")
	}
	return a, b, nil
}

// readAlphabet notes the tokens of single bytes or characters, and what stands for
// those that have none.
func (l *loader) readAlphabet(unknown string, fallback bool) error {
	m := &l.model
	m.unknown = none
	if unknown != "" {
		c := scan{s: unknown}
		name, err := c.text()
		id, ok := l.vocab[name]
		if err != nil || !ok {
			return errors.New("\"unk_token\" is not in the vocabulary")
		}
		m.unknown = id
	}
	if l.isolated {
		return l.readBytes(fallback)
	}
	for token, id := range l.vocab {
		if r, n := utf8.DecodeRuneInString(token); n == len(token) && n > 0 {
			m.ofRune.put(r, id)
		}
	}
	if !fallback {
		return nil
	}
	m.fallback = new([256]uint32)
	for b := range m.fallback {
		id, ok := l.vocab[fmt.Sprintf("<0x%02X>", b)]
		if !ok {
			return fmt.Errorf("\"byte_fallback\" needs the token <0x%02X>", b)
		}
		m.fallback[b] = id
	}
	return nil
}

func (l *loader) readBytes(fallback bool) error {
	ids := new([256]uint32)
	for b, r := range byteRunes() {
		id, ok := l.vocab[string(r)]
		if !ok {
			id = none
			if fallback {
				return errors.New("\"byte_fallback\" with ByteLevel needs all bytes in the vocabulary")
			}
		}
		ids[b] = id
	}
	l.model.ofByte = ids
	return nil
}

// byteRunes is the character that stands for each byte in a vocabulary of bytes
// (GPT-2): itself if it can be printed, else the next from U+0100 on.
func byteRunes() (runes [256]rune) {
	next := rune(0x100)
	for b := range runes {
		if r := rune(b); r >= '!' && r <= '~' || r >= 0xa1 && r <= 0xac || r >= 0xae {
			runes[b] = r
		} else {
			runes[b] = next
			next++
		}
	}
	return runes
}

// learnWords fills model.words and forgets the file's vocabulary. That a token's
// text becomes the token is found by merging it, once.
func (l *loader) learnWords() {
	m := &l.model
	size := 0
	for token := range l.vocab {
		size += len(token)
	}
	var texts strings.Builder // one string for all: keys that point into the file would keep it
	texts.Grow(size)
	var bytes map[rune]byte
	if m.ofByte != nil {
		bytes = map[rune]byte{}
		for b, r := range byteRunes() {
			bytes[r] = byte(b)
		}
	}
	words := make(map[string]uint32, len(l.vocab))
	var sc scratch
	var out []uint32
	for token, id := range l.vocab {
		from := texts.Len()
		if !writeText(&texts, token, bytes) || texts.Len() == from {
			continue // no text has such a piece
		}
		text := texts.String()[from:]
		if !m.ignoreMerges {
			sc.ids = m.begin(sc.ids[:0], text)
			if out = m.merge(out[:0], &sc); len(out) != 1 || out[0] != id {
				continue
			}
		}
		words[text] = id
	}
	m.words = words
}

// writeText writes the text of a token: of a vocabulary of bytes those that its
// characters stand for; false if one stands for none.
func writeText(out *strings.Builder, token string, bytes map[rune]byte) bool {
	if bytes == nil {
		out.WriteString(token)
		return true
	}
	for _, r := range token {
		b, ok := bytes[r]
		if !ok {
			return false
		}
		out.WriteByte(b)
	}
	return true
}
