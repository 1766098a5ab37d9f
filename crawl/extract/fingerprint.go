package extract

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"slices"

	"github.com/apoidea/apoidea/crawl/link"
)

// Fingerprint is a simhash of a page's words (Charikar): pages that differ in about one word of a
// hundred differ in three bits of 64 or less. Markup, numbers, upper case and the words of the
// page's own URL do not count: so the pages of a server that makes them up by the address look
// alike.
type Fingerprint struct {
	// Text is of the words beside links, All of those of links as well. Zero: the document is no
	// HTML.
	Text, All uint64
	// Words is a hash of the same as Text, numbers included: that of two pages is the same only if
	// they say exactly the same.
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
	// imageWeight is for how many features an image stands: those of a gallery are what is new on
	// its pages.
	imageWeight = 8
	// plenty of words: of what follows them only an eighth of all pieces of so many bytes count, as
	// reading takes time.
	plenty = 512
	chunk  = 256
	// noWords is the fingerprint of an HTML page without any.
	noWords = 1
	// termSlots hold the different terms of a page, of which maxTerms are taken.
	termSlots = 2048
	maxTerms  = 1024
)

// Number marks a term that has a digit.
const Number = 1

// inWord says of each byte whether it is part of a word: letters, digits, underscores, and all that
// is not ASCII.
var inWord = func() (t [256]bool) {
	for c := range t {
		lower := c | 0x20
		t[c] = 'a' <= lower && lower <= 'z' || '0' <= c && c <= '9' || c == '_' || c >= 0x80
	}
	return t
}()

// counter counts, for each bit, in how many features it is set. Its planes are the digits of 64
// binary numbers that stand beside each other, so that a feature is added to all of them at once;
// eight together cost little more than one.
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

// flush adds what waits for more.
func (c *counter) flush() {
	for _, feature := range c.wait[:c.n&7] {
		c.ripple(0, feature)
	}
}

// merge adds what another has counted; both were flushed.
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
	exact       uint64            // see Fingerprint.Words
	terms       []uint32          // different ones, see Page.Terms
	slots       [termSlots]uint32 // the same by their hash
	own         [ownWords]uint64
	owned       int
	ownMask     [16]uint64 // has for each own word the bit that its highest ten say
}

// begin forgets the last document, and notes the words of the next one's URL. If its path has one
// number that is an item's, that is left out: it says which of many items this is. Several are a
// date or a place, which anybody can make up.
func (r *reader) begin(url string) {
	*r = reader{terms: r.terms[:0]}
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
		r.ownMask[word>>60] |= 1 << (word >> 54 & 63)
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
		for end < min(len(text), chunk+maxWord) && inWord[text[end]] {
			end++ // up to the end of the word
		}
		if r.text.n+r.links.n < plenty || sampled(text[:end]) {
			r.all(text[:end])
		} else if !r.inLink {
			r.exact = fold(r.exact^uint64(crc32.Checksum(text[:end], castagnoli)), first)
		}
		text = text[end:]
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sampled picks an eighth of all pieces of text, by what they begin with and their length.
func sampled(part []byte) bool {
	var begin [8]byte
	copy(begin[:], part)
	return fold(binary.LittleEndian.Uint64(begin[:])^first, uint64(len(part))^second)&7 == 0
}

// all counts all words of a piece of text.
func (r *reader) all(text []byte) {
	if cap(text)-len(text) < window {
		r.allOfLast(text)
		return
	}
	c := &r.text
	if r.inLink {
		c = &r.links
	}
	last, exact := c.last, r.exact
	for at := 0; at < len(text); {
		next := at + window
		words, digits := classes(text[at:next])
		words &= ^uint64(0) >> max(next-len(text), 0)
		for words != 0 {
			begin := bits.TrailingZeros64(words)
			n := bits.TrailingZeros64(^(words >> begin))
			if begin+n == window && begin > 0 {
				next = at + begin // it may go on
				break
			}
			n = min(n, maxWord)
			words &= ^uint64(0) << (begin + n)
			number := digits>>begin&(1<<n-1) != 0
			b := text[at+begin : at+begin+maxWord]
			word := hashWord(binary.LittleEndian.Uint64(b)&cut[n][0], binary.LittleEndian.Uint64(b[8:])&cut[n][1])
			if r.ownMask[word>>60]>>(word>>54&63)&1 != 0 && r.isOwn(word) {
				continue
			}
			exact = fold(exact^word, first)
			if !r.inLink {
				r.term(word, number)
			}
			if number {
				continue
			}
			c.add(fold(last^word, second))
			last = bits.RotateLeft64(word, 23)
		}
		at = next
	}
	c.last = last
	if !r.inLink {
		r.exact = exact
	}
}

// allOfLast is all for a piece behind which no memory may be read.
func (r *reader) allOfLast(text []byte) {
	var room [chunk + maxWord + window]byte
	r.all(room[:copy(room[:], text)])
}

// term notes a word or the address of an image, if it is new on the page.
func (r *reader) term(word uint64, number bool) {
	t := max(uint32(word>>32)&^Number, 2) // the upper half
	if number {
		t |= Number
	}
	at := word >> 16 % termSlots
	for r.slots[at] != 0 {
		if r.slots[at] == t {
			return
		}
		at = (at + 1) % termSlots
	}
	if len(r.terms) < maxTerms {
		r.slots[at] = t
		r.terms = append(r.terms, t)
	}
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
		h = fold(h^binary.LittleEndian.Uint64(src), first)
		src = src[8:]
	}
	for _, c := range src {
		h = fold(h^uint64(c), second)
	}
	r.exact = fold(r.exact^h, first)
	r.term(h, false)
	for range imageWeight {
		r.text.add(h)
		h = fold(h^first, second)
	}
}

// fingerprint is that of what was read.
func (r *reader) fingerprint() Fingerprint {
	r.text.flush()
	r.links.flush()
	f := Fingerprint{Text: r.text.majority(), Words: max(r.exact, noWords)}
	r.links.merge(&r.text)
	f.All = r.links.majority()
	return f
}

// readWord finds the first word of a text, and what follows it. The word is its hash, 0 if there is
// none; a number is one with a digit.
func readWord(text []byte) (word uint64, number bool, rest []byte) {
	for len(text) > 0 && !inWord[text[0]] {
		text = text[1:]
	}
	if len(text) == 0 {
		return 0, false, nil
	}
	var letters [maxWord]byte
	n := 0
	for n < min(len(text), maxWord) && inWord[text[n]] {
		letters[n] = text[n]
		number = number || '0' <= text[n] && text[n] <= '9'
		n++
	}
	return hashWord(binary.LittleEndian.Uint64(letters[:]), binary.LittleEndian.Uint64(letters[8:])), number, text[n:]
}

// Eight bytes at once: one and the high bit of each of them.
const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
	// window is how many bytes are looked at for where words are, at once.
	window = 64
)

// classes says of each byte of a window whether it is part of a word, and whether it is a digit.
func classes(text []byte) (words, digits uint64) {
	text = text[:window]
	some := uint64(0)
	for i := 0; i < window; i += 8 {
		x := binary.LittleEndian.Uint64(text[i:])
		ascii := x &^ highs
		lower := ascii | 0x20*ones
		// The high bit of a byte's sum says that it is not below a bound.
		letter := (lower + (0x80-'a')*ones) &^ (lower + (0x80-'z'-1)*ones)
		digit := digit(x)
		other := (ascii ^ '_'*ones) + 0x7f*ones
		words |= gather(letter|digit|^other|x) << i
		some |= digit
	}
	if some&highs != 0 {
		for i := 0; i < window; i += 8 {
			digits |= gather(digit(binary.LittleEndian.Uint64(text[i:]))) << i
		}
	}
	return words, digits
}

// digit has the high bits of the bytes that are digits.
func digit(x uint64) uint64 {
	ascii := x &^ highs
	return (ascii + (0x80-'0')*ones) &^ (ascii + (0x80-'9'-1)*ones) &^ x
}

// gather moves the high bits of eight bytes beside one another.
func gather(x uint64) uint64 { return (x & highs >> 7) * 0x0102040810204080 >> 56 }

// cut has, for each length of a word, what of 16 bytes is part of it.
var cut = func() (t [maxWord + 1][2]uint64) {
	for n := range t {
		t[n] = [2]uint64{1<<(8*n) - 1, 1<<(8*max(n-8, 0)) - 1}
	}
	return t
}()

// hashWord is the same for both cases of a word, whose bytes stand in two numbers with zeros behind
// it.
func hashWord(a, b uint64) uint64 {
	a |= 0x20 * ones &^ (a & highs >> 2)
	b |= 0x20 * ones &^ (b & highs >> 2)
	return fold(a^first, b^second)
}

// Random numbers.
const (
	first  = 0x9e3779b97f4a7c15
	second = 0xe7037ed1a0b428db
)

// fold spreads what is in two numbers over all bits of one.
func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}
