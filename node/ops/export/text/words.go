package text

import (
	"cmp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/abadojack/whatlanggo"
	"github.com/cespare/xxhash/v2"

	"github.com/apoidea/apoidea/crawl/extract"
)

// Language is the language of a text. The zero Language is unknown.
type Language struct {
	// Code is of ISO 639-1, or of ISO 639-3 for a language without one there.
	Code string
	// Code3 is of ISO 639-3, of the macrolanguage where Common Crawl has that, such as zho or ara.
	Code3      string
	Confidence float64 // 0 to 1
	Reliable   bool
}

// Codes of the library that are not those of Language.
var (
	codes  = map[string]string{"pes": "fa", "ydd": "yi", "bho": "bho"}
	codes3 = map[string]string{"arb": "ara", "azj": "aze", "cmn": "zho", "nob": "nor", "pes": "fas", "ydd": "yid"}
)

// Detection takes time for each trigram, and is not better with more text.
const (
	sampleBytes = 500
	minLetters  = 20 // bytes of letters
	longLine    = 60 // bytes of a line that is probably a sentence
)

// Detect returns the language of a text, by a sample of its longer lines.
func Detect(text string) Language {
	s := sample(text)
	letters := 0
	for _, r := range s {
		if unicode.IsLetter(r) {
			letters += utf8.RuneLen(r)
		}
	}
	info := whatlanggo.Info{Lang: -1}
	if letters >= minLetters {
		info = whatlanggo.Detect(s)
	}
	code := info.Lang.Iso6393()
	if code == "" || info.Confidence <= 0 {
		return Language{}
	}
	code3 := cmp.Or(codes3[code], code)
	return Language{Code: cmp.Or(codes[code], info.Lang.Iso6391(), code3), Code3: code3, Confidence: info.Confidence, Reliable: info.IsReliable()}
}

// sample returns the long lines of a text up to sampleBytes; the start of the text if they are few.
func sample(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if len(line) >= longLine {
			b.WriteString(cut(line, sampleBytes-b.Len()))
		}
		if b.Len() > sampleBytes-longLine {
			break
		}
	}
	if b.Len() < sampleBytes/4 {
		return cut(text, sampleBytes)
	}
	return b.String()
}

// SimHash returns the SimHash of the words of a text (Charikar 2002, with xxHash, each occurrence
// has weight 1): texts with most words in common differ in few bits. A word is a run of letters and
// digits in lower case. In scripts without spaces it is each pair of adjacent characters.
func SimHash(text string) uint64 {
	var h extract.SimHash
	add := func(word []byte) { h.Add(xxhash.Sum64(word)) }
	word := make([]byte, 0, 64)
	last := -1 // start in text of the last character of a script without spaces, if it is adjacent
	for i, r := range text {
		pairs := r >= 0x80 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
		switch {
		case pairs:
		case 'a' <= r && r <= 'z' || '0' <= r && r <= '9':
			word = append(word, byte(r)) //nolint:gosec // ASCII
			continue
		case 'A' <= r && r <= 'Z':
			word = append(word, byte(r|0x20)) //nolint:gosec // ASCII
			continue
		case r >= 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)):
			word = utf8.AppendRune(word, unicode.ToLower(r))
			continue
		}
		if len(word) > 0 {
			add(word)
			word, last = word[:0], -1
		}
		if !pairs {
			last = -1
			continue
		}
		if last < 0 {
			last = i
		}
		add([]byte(text[last : i+utf8.RuneLen(r)]))
		last = i
	}
	if len(word) > 0 {
		add(word)
	}
	return h.Sum()
}
