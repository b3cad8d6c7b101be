package bpe

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

func (l *loader) readNormalizer(what, json string, depth int) error {
	if json == "" {
		return nil
	}
	o := newObject(what, json)
	var n normalizer
	growth := 1
	switch kind := o.text("type"); kind {
	case "NFC":
		n, growth = unicodeForm{norm.NFC, true}, 3
	case "NFD":
		n, growth = unicodeForm{norm.NFD, false}, 4
	case "NFKC":
		n, growth = unicodeForm{norm.NFKC, true}, 11
	case "NFKD":
		n, growth = unicodeForm{norm.NFKD, false}, 11
	case "Lowercase":
		n, growth = lowercase{}, 2
	case "Strip":
		n = strip{o.bool("strip_left", true), o.bool("strip_right", true)}
		l.moves = true
	case "Prepend":
		text := o.text("prepend")
		n, growth = prepend(text), 1+len(text)
		l.moves = true
	case "Replace":
		r := l.readReplace(o)
		n, growth = r, (len(r.to)+max(1, len(r.from))-1)/max(1, len(r.from))
		l.moves = l.moves || r.to == ""
	case "Sequence":
		l.sequence(o, "normalizers", depth, l.readNormalizer)
	default:
		o.fail(unknownType(kind))
	}
	if n != nil {
		l.normalizers = append(l.normalizers, n)
	}
	if len(l.normalizers) > maxSteps {
		o.fail(fmt.Errorf("there are more than %d normalizers", maxSteps))
	}
	// Each may only lengthen what the one before it wrote: two growing ones are
	// seen (NFKC and a replaced space), a bomb is not let in.
	if l.growth *= max(1, growth); l.growth > maxGrowth {
		o.fail(fmt.Errorf("the normalizers can make a text more than %d times as long", maxGrowth))
		l.growth = 1
	}
	return o.refuseRest()
}

func (l *loader) readReplace(o *object) replace {
	r := replace{from: pattern(o, "pattern"), to: o.text("content")}
	if len(r.from) > maxContent || len(r.to) > maxContent {
		o.fail(fmt.Errorf("more than %d bytes", maxContent))
	}
	return r
}

// pattern returns a pattern that is a plain text, not empty.
func pattern(o *object, name string) string {
	p := newObject(o.what+"."+name, o.take(name))
	s := p.text("String")
	if r := p.text("Regex"); r != "" {
		p.fail(fmt.Errorf("the regular expression %.80q is not supported here", r))
	}
	if s == "" {
		p.fail(errors.New("the pattern is empty"))
	}
	o.fail(p.refuseRest())
	return s
}

func (l *loader) readPreTokenizer(what, json string, depth int) error {
	if json == "" {
		return nil
	}
	o := newObject(what, json)
	if l.isolated {
		o.fail(errors.New("nothing may follow ByteLevel"))
	}
	var s stage
	switch kind := o.text("type"); kind {
	case "ByteLevel":
		b := &byteLevel{prefixSpace: o.bool("add_prefix_space", true)}
		o.bool("trim_offsets", true) // of offsets, which nobody reads here
		if o.bool("use_regex", true) {
			b.split = &split{finder: &gpt2{classes()}}
		}
		s = b
		l.isolated = true
	case "Split":
		s = readSplit(o)
	case "Digits":
		d := &split{finder: &oneOf{t: classes(), want: number}, behavior: contiguous}
		if o.bool("individual_digits", false) {
			d.behavior = isolated
		}
		s = d
	case "Punctuation":
		o.fail(errors.New("the type Punctuation is not supported: tokenizers has it from Unicode tables of 2015"))
	case "Metaspace":
		s = l.readMetaspace(o)
	case "Sequence":
		l.sequence(o, "pretokenizers", depth, l.readPreTokenizer)
	default:
		o.fail(unknownType(kind))
	}
	if s != nil {
		l.stages = append(l.stages, s)
	}
	if len(l.stages) > maxSteps {
		o.fail(fmt.Errorf("there are more than %d pre-tokenizers", maxSteps))
	}
	return o.refuseRest()
}

func readBehavior(o *object) behavior {
	name := o.text("behavior")
	b, ok := behaviors[name]
	if !ok && name != "" {
		o.fail(fmt.Errorf("the behavior %.40q is not known", name))
	}
	return b
}

func readSplit(o *object) *split {
	s := &split{behavior: readBehavior(o), invert: o.bool("invert", false)}
	p := newObject(o.what+".pattern", o.take("pattern"))
	text, regex := p.text("String"), p.text("Regex")
	switch known, ok := patternOf(regex); {
	case text != "" && len(text) <= maxContent && regex == "":
		s.finder = literal(text)
	case ok && text == "":
		s.finder = known
	case regex != "":
		p.fail(fmt.Errorf("the regular expression %.200q is not known", regex))
	default:
		p.fail(errors.New("the pattern is empty or too long"))
	}
	o.fail(p.refuseRest())
	return s
}

func (l *loader) readMetaspace(o *object) *metaspace {
	m := &metaspace{mark: o.text("replacement"), prefix: always}
	if utf8.RuneCountInString(m.mark) != 1 {
		o.fail(errors.New("\"replacement\" must be one character"))
	}
	scheme := o.text("prepend_scheme")
	switch scheme {
	case "first":
		m.prefix = onlyFirst
		l.cuttable = false
		if l.moves {
			o.fail(errors.New("a prefix of the first piece only, after a normalizer that moves the beginning, is not supported"))
		}
	case "never":
		m.prefix = never
	case "always", "":
	default:
		o.fail(fmt.Errorf("prepend_scheme %.20q is not known", scheme))
	}
	if !o.bool("add_prefix_space", true) {
		if scheme == "first" || scheme == "always" {
			o.fail(errors.New("\"add_prefix_space\" contradicts \"prepend_scheme\""))
		}
		m.prefix = never
	}
	o.take("str_rep") // written by old versions; a copy of the replacement
	if o.bool("split", true) && o.err == nil {
		m.split = &split{finder: literal(m.mark), behavior: mergedWithNext}
	}
	return m
}
