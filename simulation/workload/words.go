package workload

// The made-up language has 65,536 words of five letters, consonant and vowel
// in turn; each is one token. Its ids lie above those of single bytes and
// markers, so that a tokenizer can tell them apart.
const (
	Words     = 1 << 16
	FirstWord = 512
	wordLen   = 5
)

const (
	consonants = "bcdfghjklmnprstv"
	vowels     = "aeio"
)

// Word is the word of a token id in [FirstWord, FirstWord+Words); "" for
// others.
func Word(id uint32) string {
	if id < FirstWord || id >= FirstWord+Words {
		return ""
	}
	n := id - FirstWord
	return string([]byte{
		consonants[n>>12&15], vowels[n>>10&3], consonants[n>>6&15], vowels[n>>4&3], consonants[n&15],
	})
}

// WordID is the token id of a word of the made-up language.
func WordID(word string) (uint32, bool) {
	if len(word) != wordLen {
		return 0, false
	}
	c1, v1, c2 := letter[word[0]], letter[word[1]], letter[word[2]]
	v2, c3 := letter[word[3]], letter[word[4]]
	if c1 < 4 || v1 > 3 || c2 < 4 || v2 > 3 || c3 < 4 {
		return 0, false
	}
	if c1 == other || c2 == other || c3 == other {
		return 0, false
	}
	n := uint32(c1-4)<<12 | uint32(v1)<<10 | uint32(c2-4)<<6 | uint32(v2)<<4 | uint32(c3-4)
	return FirstWord + n, true
}

// other marks letters that no word holds.
const other = 0xff

// letter maps vowels to 0-3 and consonants to 4-19.
var letter = func() (t [256]uint8) {
	for i := range t {
		t[i] = other
	}
	for i := range vowels {
		t[vowels[i]] = uint8(i)
	}
	for i := range consonants {
		t[consonants[i]] = uint8(4 + i)
	}
	return t
}()
