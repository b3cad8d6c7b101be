package bpe

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"unicode/utf8"
)

// plainTexts are texts people write, and those that splitters get wrong.
var plainTexts = []string{
	"", " ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "\u000b", "\u0085", "\u200b", "a", " a", "a ", "  a", "a  ",
	"Hello world", "Hello, world! How's it going? I'LL see; we'RE, they'Ve, I'm, he'd, it'ſ 'S 'T 'x 'rx 'l 'll 'r",
	"don't DON'T don’t l'été d'accord 'tis rock'n'roll a's's",
	"    if x == 1:\n\t\treturn  [i for i in range(10)]\n\n\n    # done\n",
	"for (int i = 0; i < n; ++i) { a[i] = b[i] / c; } // x\n/* y */\n/// z\r\n\r\n",
	"https://example.com/a/b?c=d&e=%20f#g user@example.org +49 (0)89 123456-7890 3.14159 1,000,000 ½ ² Ⅷ ١٢٣ 一二三",
	"Der schnelle braune Fuchs springt über den faulen Hund. Straße, Äpfel, ÜBER",
	"El zorro marrón salta. ¿Qué? ¡Sí! L’été à Paris coûte 12 €.",
	"Быстрая коричневая лиса. ПРИВЕТ Мир", "Η γρήγορη καφέ αλεπού", "השועל החום המהיר", "الثعلب البني السريع قفز فوق الكلب الكسول",
	"तेज भूरी लोमड़ी आलसी कुत्ते पर कूदती है", "สุนัขจิ้งจอกสีน้ำตาล", "敏捷的棕色狐狸跳过了懒狗。", "素早い茶色の狐がのろまな犬を飛び越える。カタカナ々〆〇",
	"빠른 갈색 여우가 게으른 개를 뛰어넘습니다", "ᄒ\u200bᅡᆫ글 한글 각", "Con cáo nâu nhanh nhẹn nhảy qua", "Hızlı kahverengi İstanbul ıI",
	"😀👍🏽👨‍👩‍👧‍👦🇩🇪❤️🏳️‍🌈 a😀b", "e\u0301 é o\u0308\u0323 ạ\u0302 \u0301x q\u0307\u0323 \u1e9b\u0323 Å Ω ﬁ ① ㎏ ￦ ｶﾞ",
	"\x00\x01\x02\x1b[0m\x7f\u0080\u009f\ufeff\ufffd\u2028\u2029", "a\u200db\u200cc \u00adsoft",
	"<s>[INST] x [/INST]</s> <unk> <0x0A> <bos> ▁ ▁▁x", "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>  <|eot_id|>x<|eot_id", "<|im_start|>user\nHi<|im_end|>\n",
	"ABCdefGHIjklMNO aBcD XMLHttpRequest HTTPServer2 snake_case camelCase SCREAMING_SNAKE 1a2b3c ABC123def", "\n \n \n \n", " \n  \n   x", "a\n\n b\n\n\nc  \n  d",
	"!!!??? ... --- *** ### $$$ @#%^&*()_+{}|:\"<>?`-=[]\\;',./", "/////// // / a/b/c //\n/ \n", "१२३४५ 1234567 12 34 567890123456789",
	"<table><tr><td>x</td></tr></table>\n\n\n\n\t\t  ", "ǅ ǈ ǋ ᾈ ʰ ˈ ª º ꙮ 𝒜𝓑 𝟘𝟙 𐐀𐐨", "한\u1100\u1161\u11a8 각",
}

// manyTexts is the plain ones, long repetitions and n made of what splitters look
// at.
func manyTexts(seed uint64, n int) []string {
	texts := append([]string{}, plainTexts...)
	for _, s := range []string{"a", " ", "\n", "A", "1", "!", "é", "▁", "ab", " \n", "Aa", "\u0301", "e\u0301", "漢", "😀", "<|eot_id|>", "'s"} {
		for _, times := range []int{2, 3, 5, 31, 33, 700} {
			texts = append(texts, strings.Repeat(s, times), "x"+strings.Repeat(s, times)+" y")
		}
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	parts := strings.Split("a b e s t x A B S É é ß ſ İ 1 2 ٣ Ⅷ ² . , ! ? ' ’ \" - _ / // ( ) < > | # $ + = ^ ~ 漢 字 か カ 한 ᄒ ᅡ ᆫ я Я ω अ ् ก ิ \u0301 \u0323 \u0308 😀 🏽 \u200d \ufe0f ▁ \u00a0 \u3000 \u000b \x00 \x7f \u200b \ufeff the ing tion 's 'S 'll 're 'VE <|eot_id|> <|im_end|> <s> </s> <0x41> ǅ ʰ º € ① 々 〇 ー", " ")
	parts = append(parts, " ", " ", " ", "  ", "\n", "\n", "\r\n", "\t")
	for range n {
		var b strings.Builder
		for range 1 + rng.IntN(24) {
			b.WriteString(parts[rng.IntN(len(parts))])
		}
		texts = append(texts, b.String())
	}
	for range n / 4 {
		var b strings.Builder
		for range 1 + rng.IntN(16) {
			if r := rune(rng.IntN(0x3100)); utf8.ValidRune(r) {
				b.WriteRune(r)
			}
		}
		texts = append(texts, b.String())
	}
	return texts
}

// everyCharacter is texts that hold each scalar value between others.
func everyCharacter() (texts []string) {
	const each = 16
	for from := rune(0); from <= utf8.MaxRune; from += each {
		var b strings.Builder
		for r := from; r < from+each; r++ {
			if utf8.ValidRune(r) {
				fmt.Fprintf(&b, "a%cb %c 1%c\n%c%c'", r, r, r, r, r)
			}
		}
		if b.Len() > 0 {
			texts = append(texts, b.String())
		}
	}
	return texts
}
