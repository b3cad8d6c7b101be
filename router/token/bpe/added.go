package bpe

import (
	"unicode"
	"unicode/utf8"
)

// added is a token that is cut out of the text before anything else.
type added struct {
	id                         uint32
	content                    string // what is looked for: normalized, if the token says so
	singleWord, lstrip, rstrip bool
}

// addedSet finds added tokens: the leftmost, of those the longest.
type addedSet struct {
	tokens []added
	begins [256]bool
	nodes  []trieNode
	words  bool // one of them must be a single word
}

// trieNode is a node of a trie of bytes; 0 is the root and nobody's child. Its
// children are a list, for most have one.
type trieNode struct {
	token   int32 // its number + 1
	child   int32 // the first of the children
	sibling int32
	label   byte
}

// add adds a token; false if its content is there already.
func (a *addedSet) add(t added) bool {
	if len(a.nodes) == 0 {
		a.nodes = []trieNode{{}}
	}
	at := int32(0)
	for i := range len(t.content) {
		next := a.child(at, t.content[i])
		if next == 0 {
			next = int32(len(a.nodes))
			a.nodes = append(a.nodes, trieNode{label: t.content[i], sibling: a.nodes[at].child})
			a.nodes[at].child = next
		}
		at = next
	}
	if a.nodes[at].token != 0 {
		return false
	}
	a.tokens = append(a.tokens, t)
	a.nodes[at].token = int32(len(a.tokens))
	a.begins[t.content[0]] = true
	a.words = a.words || t.singleWord
	return true
}

func (a *addedSet) child(at int32, label byte) int32 {
	next := a.nodes[at].child
	for next != 0 && a.nodes[next].label != label {
		next = a.nodes[next].sibling
	}
	return next
}

// find returns the first token at or after byte i and where its content lies; nil
// if there is none.
func (a *addedSet) find(s string, i int) (t *added, start, end int) {
	if len(a.tokens) == 0 {
		return nil, 0, 0
	}
	for ; i < len(s); i++ {
		if !a.begins[s[i]] {
			continue
		}
		at := int32(0)
		for j := i; j < len(s); {
			if at = a.child(at, s[j]); at == 0 {
				break
			}
			j++
			if n := a.nodes[at].token; n > 0 {
				t, end = &a.tokens[n-1], j
			}
		}
		if t != nil {
			return t, i, end
		}
	}
	return nil, 0, 0
}

// refused reports whether t, found at start:end, is a part of a word and must not
// be.
func (t *added) refused(s string, start, end int) bool {
	if !t.singleWord {
		return false
	}
	before, _ := utf8.DecodeLastRuneInString(s[:start])
	after, _ := utf8.DecodeRuneInString(s[end:])
	return start > 0 && classes().of(before)&word != 0 || end < len(s) && classes().of(after)&word != 0
}

// reach widens start:end by the space that t takes with it, not below done.
func (t *added) reach(s string, start, end, done int) (int, int) {
	for t.lstrip && start > done {
		r, n := utf8.DecodeLastRuneInString(s[:start])
		if !unicode.IsSpace(r) {
			break
		}
		start -= n
	}
	for t.rstrip && end < len(s) {
		r, n := utf8.DecodeRuneInString(s[end:])
		if !unicode.IsSpace(r) {
			break
		}
		end += n
	}
	return max(start, done), end
}
