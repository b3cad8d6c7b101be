package bpe

import (
	"errors"
	"fmt"
	"sync"
	"unicode/utf8"
)

// Bounds of a file. The largest that is known, Gemma 3's, has 33 MB, 262 k tokens,
// 515 k merges and 6 k added tokens.
const (
	MaxFile    = 128 << 20 // bytes
	maxVocab   = 1 << 20
	maxMerges  = 1 << 21
	maxAdded   = 1 << 16
	maxContent = 256 // bytes of an added token, or of what a normalizer writes
	maxSteps   = 16  // normalizers, pre-tokenizers, post-processors, each
	maxGrowth  = 100 // times that normalizers may lengthen a text
	maxAround  = 16  // tokens put around a text
)

// Tokenizer is a loaded tokenizer.json. It never changes.
type Tokenizer struct {
	verbatim, normalized addedSet // added tokens looked for in the text as it is, and after normalizers
	normalizers          []normalizer
	stages               []stage
	model                model
	before, after        []uint32
	cuttable             bool // no piece knows whether it is the first of the text
	encoders             sync.Pool
}

// loader is a Tokenizer being read.
type loader struct {
	*Tokenizer
	vocab    map[string]uint32 // of the model, as the file writes it
	growth   int               // times that the normalizers lengthen a text at most
	moves    bool              // a normalizer can change where the text begins
	isolated bool              // a pre-tokenizer of bytes was read: the last
}

// Load reads a tokenizer.json. Whatever in it is not known to give the same tokens
// as tokenizers (Rust) is an error that names it.
func Load(file []byte) (*Tokenizer, error) {
	if len(file) > MaxFile {
		return nil, fmt.Errorf("the file has %d bytes, more than %d", len(file), MaxFile)
	}
	if !utf8.Valid(file) {
		return nil, errors.New("the file is not UTF-8")
	}
	o := newObject("tokenizer.json", string(file))
	l := &loader{Tokenizer: &Tokenizer{cuttable: true}, growth: 1}
	if v := o.text("version"); v != "1.0" && o.err == nil {
		o.fail(fmt.Errorf("version %.20q is not known", v))
	}
	for _, name := range []string{"truncation", "padding"} {
		if o.take(name) != "" {
			o.fail(fmt.Errorf("%q is not supported", name))
		}
	}
	o.take("decoder") // ids to text: not our business
	normalizer, cut, post, model := o.take("normalizer"), o.take("pre_tokenizer"), o.take("post_processor"), o.take("model")
	if o.err == nil {
		o.err = l.readNormalizer("normalizer", normalizer, 0)
	}
	if o.err == nil {
		o.err = l.readPreTokenizer("pre_tokenizer", cut, 0)
	}
	if o.err == nil {
		o.err = l.readModel(model)
	}
	if o.err == nil {
		l.readAdded(o)
	}
	if o.err == nil {
		o.err = l.readPostProcessor("post_processor", post, 0)
	}
	if err := o.refuseRest(); err != nil {
		return nil, err
	}
	l.learnWords()
	t := l.Tokenizer // the function must not keep the loader, which has the file
	t.encoders.New = func() any { return &encoder{t: t} }
	return t, nil
}

// readAdded reads the added tokens. Their ids are not the file's but those that
// tokenizers gives: of the model's vocabulary, else the next free ones. A file
// that says otherwise is refused.
func (l *loader) readAdded(o *object) {
	next, count, ids := uint32(len(l.vocab)), 0, map[uint32]string{}
	o.list("added_tokens", func(what, json string) error {
		if count++; count > maxAdded {
			return fmt.Errorf("there are more than %d", maxAdded)
		}
		a := newObject(what, json)
		t := added{content: a.text("content"), singleWord: a.bool("single_word", false), lstrip: a.bool("lstrip", false), rstrip: a.bool("rstrip", false)}
		normalized := a.bool("normalized", true)
		a.bool("special", false) // matters for decoding only
		c := scan{s: a.take("id")}
		said, err := c.number()
		a.fail(err)
		switch {
		case t.content == "":
			a.fail(errors.New("\"content\" is empty"))
		case len(t.content) > maxContent:
			a.fail(fmt.Errorf("\"content\" has more than %d bytes", maxContent))
		case t.rstrip && (strip{left: true}).normalize(t.content) == "":
			a.fail(errors.New("a token of spaces alone that takes the space after it is not supported"))
		}
		id, known := l.vocab[t.content]
		if !known {
			id = next
			next++
		}
		if said != id {
			a.fail(fmt.Errorf("its id is %d in the file and %d by its place", said, id))
		}
		if other, twice := ids[id]; twice {
			a.fail(fmt.Errorf("it has the id of %.40q", other))
		}
		ids[id], t.id = t.content, id
		if err := a.refuseRest(); err != nil {
			return err
		}
		return l.keepAdded(what, t, normalized)
	})
}

func (l *loader) keepAdded(what string, t added, normalized bool) error {
	set := &l.verbatim
	if normalized {
		set = &l.Tokenizer.normalized
		for _, n := range l.normalizers {
			t.content = n.normalize(t.content)
		}
	}
	if t.content == "" || !set.add(t) {
		return fmt.Errorf("%s: its normalized content is empty or another token's", what)
	}
	return nil
}

// readPostProcessor reads what is put around a text. One inside a sequence goes
// around what those before it put.
func (l *loader) readPostProcessor(what, json string, depth int) error {
	if json == "" {
		return nil
	}
	o := newObject(what, json)
	switch kind := o.text("type"); kind {
	case "ByteLevel":
		for _, option := range []string{"add_prefix_space", "trim_offsets", "use_regex"} {
			o.bool(option, true) // of offsets, which nobody reads here
		}
	case "TemplateProcessing":
		l.readTemplate(o)
	case "Sequence":
		l.sequence(o, "processors", depth, l.readPostProcessor)
	default:
		o.fail(unknownType(kind))
	}
	return o.refuseRest()
}

func unknownType(kind string) error { return fmt.Errorf("the type %.40q is not supported", kind) }

// sequence reads the members of a sequence, one after the other.
func (l *loader) sequence(o *object, name string, depth int, read func(what, json string, depth int) error) {
	if depth > maxNesting/8 {
		o.fail(errors.New("sequences lie too deep in one another"))
		return
	}
	n := 0
	o.list(name, func(what, json string) error {
		if n++; n > maxSteps {
			return fmt.Errorf("%q has more than %d members", name, maxSteps)
		}
		return read(what, json, depth+1)
	})
}

func (l *loader) readTemplate(o *object) {
	o.take("pair")
	tokens := map[string][]uint32{}
	if all := o.take("special_tokens"); all != "" {
		s := newObject(o.what+".special_tokens", all)
		for name, json := range s.members {
			t := newObject(s.what, json)
			t.take("id")
			t.take("tokens")
			t.list("ids", func(_, json string) error {
				c := scan{s: json}
				id, err := c.number()
				tokens[name] = append(tokens[name], id)
				return err
			})
			s.fail(t.refuseRest())
		}
		o.fail(s.err)
	}
	var before, after []uint32
	seen := 0
	o.list("single", func(what, json string) error {
		p := newObject(what, json)
		if special := p.take("SpecialToken"); special != "" {
			t := newObject(what, special)
			ids, known := tokens[t.text("id")]
			t.take("type_id")
			if !known {
				t.fail(errors.New("a special token is not listed"))
			}
			if seen == 0 {
				before = append(before, ids...)
			} else {
				after = append(after, ids...)
			}
			p.fail(t.refuseRest())
		} else {
			t := newObject(what, p.take("Sequence"))
			if t.text("id") != "A" {
				t.fail(errors.New("it is no special token and not the text"))
			}
			t.take("type_id")
			seen++
			p.fail(t.refuseRest())
		}
		return p.refuseRest()
	})
	l.before = append(before, l.before...)
	l.after = append(l.after, after...)
	if seen != 1 {
		o.fail(errors.New("the text must stand in \"single\" once"))
	}
	if len(l.before)+len(l.after) > maxAround {
		o.fail(fmt.Errorf("more than %d tokens are put around a text", maxAround))
	}
}
