package extract

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"slices"

	"github.com/apoidea/apoidea/crawl/link"
)

// Fingerprint is a simhash of a page's words (Charikar): pages that differ in about one word of a hundred have fingerprints that differ in
// three bits of 64 or less. It says what a page says, not how: markup, numbers, upper case, and words of the page's own URL do not count, so
// that the pages of a server which makes them up by the address that it is asked for look alike.
type Fingerprint struct {
	// Text is of the words beside links, All of those of links as well. Zero: the document is no HTML.
	Text, All uint64
	// Words is a hash of the same as Text, numbers included: that of two pages is the same only if they say exactly the same.
	Words uint64
}

const (
	// planes of counters: so many features, less one, can be counted as powers of two.
	planes      = 16
	maxFeatures = 1<<planes - 1
	// maxWord is where a longer word is cut, as it is in languages that do not part words.
	maxWord = 16
	// ownWords of a URL are left out of its page at most.
	ownWords = 32
	// imageWeight is for how many features an image stands: those of a gallery are what is new on its pages.
	imageWeight = 8
	// plenty of words: of what follows them only an eighth of all pieces of so many bytes count, as reading takes time.
	plenty = 512
	chunk  = 256
	// noWords is the fingerprint of an HTML page without any.
	noWords = 1
)

// letters has a random number for each byte of words, the same for both cases; zero for what parts them. Digits are odd, letters even.
var letters = func() (t [256]uint64) {
	for c := range t {
		switch {
		case '0' <= c && c <= '9':
			t[c] = mix(uint64(c)) | digit
		case 'a' <= c && c <= 'z', c == '_', c >= 0x80:
			t[c] = mix(uint64(c)) &^ digit
		}
	}
	for c := 'A'; c <= 'Z'; c++ {
		t[c] = t[c|0x20]
	}
	return t
}()

const digit = 1

// counter counts, for each bit, in how many features it is set. Its planes are the digits of 64 binary numbers that stand beside each other,
// so that a feature is added to all of them at once; eight together cost little more than one.
type counter struct {
	plane [planes]uint64
	wait  [8]uint64
	n     int
	last  uint64 // word: a feature is two that follow one another
}

func (c *counter) add(feature uint64) {
	if c.n == maxFeatures {
		return
	}
	c.wait[c.n&7] = feature
	if c.n++; c.n&7 == 0 {
		c.eight()
	}
}

// eight adds what waits.
func (c *counter) eight() {
	w, p := &c.wait, &c.plane
	ones, a := sum(p[0], w[0], w[1])
	ones, b := sum(ones, w[2], w[3])
	ones, d := sum(ones, w[4], w[5])
	ones, e := sum(ones, w[6], w[7])
	twos, a := sum(p[1], a, b)
	twos, b = sum(twos, d, e)
	fours, a := sum(p[2], a, b)
	p[0], p[1], p[2] = ones, twos, fours
	c.ripple(3, a)
}

// sum adds three numbers of one digit.
func sum(a, b, c uint64) (ones, twos uint64) {
	u := a ^ b
	return u ^ c, a&b | u&c
}

// ripple adds a feature from a plane on.
func (c *counter) ripple(i int, feature uint64) {
	for ; feature != 0; i++ {
		c.plane[i], feature = c.plane[i]^feature, c.plane[i]&feature
	}
}

// settle adds what waits for more.
func (c *counter) settle() {
	for _, feature := range c.wait[:c.n&7] {
		c.ripple(0, feature)
	}
}

// merge adds what another has counted; both have settled.
func (c *counter) merge(o *counter) {
	if c.n += o.n; c.n > maxFeatures {
		*c = *o // there is no room for both: the words beside links tell enough
		return
	}
	carry := uint64(0)
	for i := range c.plane {
		c.plane[i], carry = sum(c.plane[i], o.plane[i], carry)
	}
}

// majority has the bits set that more than half of the features have.
func (c *counter) majority() uint64 {
	if c.n == 0 {
		return noWords
	}
	half := uint(c.n / 2)
	more, same := uint64(0), ^uint64(0)
	for i := planes - 1; i >= 0; i-- {
		if half>>i&1 == 0 {
			more |= same & c.plane[i]
			same &^= c.plane[i]
		} else {
			same &= c.plane[i]
		}
	}
	return max(more, noWords)
}

// reader takes the words of a document.
type reader struct {
	text, links counter
	inLink      bool
	exact       uint64 // see Fingerprint.Words
	own         [ownWords]uint64
	owned       int
	ownMask     uint64 // bit w>>58 of each own word w
}

// begin forgets the last document, and notes the words of the next one's URL. An item's number that is the only one of the path is none of them: it says
// which of many this is, while several are a date or a place, which anybody can make up.
func (r *reader) begin(url string) {
	*r = reader{}
	path := len(url) - len(link.PathQuery(url))
	r.note([]byte(url[:path]))
	host := r.owned
	if item := r.note([]byte(url[path:])); item >= host {
		r.owned--
		r.own[item] = r.own[r.owned]
	}
}

// note takes the words of a part of the URL, and returns where that item's number is, or -1.
func (r *reader) note(text []byte) (item int) {
	item = -1
	numbers := 0
	for len(text) > 0 && r.owned < ownWords {
		word, number, rest := readWord(text)
		if word == 0 {
			break
		}
		if number {
			numbers++
			item = -1
			if numbers == 1 && numbered(text[:len(text)-len(rest)]) {
				item = r.owned
			}
		}
		r.own[r.owned] = word
		r.owned++
		r.ownMask |= 1 << (word >> 58)
		text = rest
	}
	return item
}

// numbered says whether a word is a number or ends in one, as IMG_1234 does and 3f2a9c does not.
func numbered(word []byte) bool {
	digits := bytes.TrimRight(word, "0123456789")
	return len(digits) < len(word) && !bytes.ContainsAny(digits, "0123456789")
}

// words counts those of a piece of text.
func (r *reader) words(text []byte) {
	for len(text) > 0 {
		end := min(len(text), chunk)
		for end < min(len(text), chunk+maxWord) && letters[text[end]] != 0 {
			end++ // up to the end of the word
		}
		if r.text.n+r.links.n < plenty || sampled(text[:end]) {
			r.all(text[:end])
		} else if !r.inLink {
			r.exact = mix(r.exact ^ uint64(crc32.Checksum(text[:end], castagnoli)))
		}
		text = text[end:]
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sampled picks an eighth of all pieces of text, by what they begin with and their length.
func sampled(part []byte) bool {
	h := uint64(len(part))
	for _, c := range part[:min(len(part), 8)] {
		h = h<<7 ^ uint64(c)
	}
	return mix(h)&7 == 0
}

// all counts all words.
func (r *reader) all(text []byte) {
	c := &r.text
	if r.inLink {
		c = &r.links
	}
	last := c.last
	for len(text) > 0 {
		var word uint64
		var number bool
		if word, number, text = readWord(text); word == 0 || r.ownMask>>(word>>58)&1 != 0 && r.isOwn(word) {
			continue
		}
		if !r.inLink {
			r.exact = mix(r.exact ^ word)
		}
		if number {
			continue
		}
		c.add(mix(last ^ word))
		last = bits.RotateLeft64(word, 23)
	}
	c.last = last
}

func (r *reader) isOwn(word uint64) bool { return slices.Contains(r.own[:r.owned], word) }

// image counts one by its address, whose query may be of this visit only.
func (r *reader) image(src []byte) {
	for i, c := range src {
		if c == '?' || c == '#' {
			src = src[:i]
			break
		}
	}
	h := uint64(len(src))
	for len(src) >= 8 {
		h = mix(h ^ binary.LittleEndian.Uint64(src))
		src = src[8:]
	}
	for _, c := range src {
		h = mix(h ^ uint64(c))
	}
	r.exact = mix(r.exact ^ h)
	for range imageWeight {
		r.text.add(h)
		h = mix(h)
	}
}

// fingerprint is that of what was read.
func (r *reader) fingerprint() Fingerprint {
	r.text.settle()
	r.links.settle()
	f := Fingerprint{Text: r.text.majority(), Words: max(r.exact, noWords)}
	r.links.merge(&r.text)
	f.All = r.links.majority()
	return f
}

// readWord finds the first word of a text, and what follows it. The word is its hash, 0 if there is none; a number is one with a digit.
func readWord(text []byte) (word uint64, number bool, rest []byte) {
	i := 0
	for i < len(text) && letters[text[i]] == 0 {
		i++
	}
	digits := uint64(0)
	for end := min(len(text), i+maxWord); i < end; i++ {
		v := letters[text[i]]
		if v == 0 {
			break
		}
		digits |= v
		word = bits.RotateLeft64(word, 5) ^ v
	}
	return word, digits&digit != 0, text[i:]
}

// mix spreads what is in a number over all of its bits (SplitMix64's finalizer).
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
