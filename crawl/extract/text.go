package extract

import "github.com/cespare/xxhash/v2"

// reader digests the text of a document outside links, with its title, its description and the
// addresses of its images.
type reader struct {
	text, masked xxhash.Digest
	buf          [4096]byte // of text that is not digested yet
	n            int
	space        bool // white space came last
	digit        bool // a digit came last of what is digested
	some         bool // there was text
	inLink       bool
}

// begin forgets the last document.
func (r *reader) begin() {
	r.text.Reset()
	r.masked.Reset()
	r.n, r.space, r.digit, r.some, r.inLink = 0, false, false, false, false
}

// words takes a piece of text in, each run of white space as one space.
func (r *reader) words(text []byte) {
	if r.inLink {
		return
	}
	for _, c := range text {
		if c <= ' ' {
			r.space = true
			continue
		}
		if r.n >= len(r.buf)-2 {
			r.flush()
		}
		if r.space && r.some {
			r.buf[r.n] = ' '
			r.n++
		}
		r.buf[r.n] = c
		r.n++
		r.space, r.some = false, true
	}
}

// part takes a value in that is apart from the text around it.
func (r *reader) part(value []byte) {
	inLink := r.inLink
	r.inLink, r.space = false, true
	r.words(value)
	r.inLink, r.space = inLink, true
}

// image takes an image in by its address, whose query may be of this visit only.
func (r *reader) image(src []byte) {
	for i, c := range src {
		if c == '?' || c == '#' {
			src = src[:i]
			break
		}
	}
	r.flush()
	_, _ = r.text.Write(src)
	_, _ = r.masked.Write(src) // digits too: the images of a gallery may differ in nothing else
}

func (r *reader) flush() {
	_, _ = r.text.Write(r.buf[:r.n])
	masked := r.buf[:0]
	for _, c := range r.buf[:r.n] {
		digit := '0' <= c && c <= '9'
		switch {
		case !digit:
			masked = append(masked, c)
		case !r.digit:
			masked = append(masked, '0') // for all digits of a number
		}
		r.digit = digit
	}
	_, _ = r.masked.Write(masked)
	r.n = 0
}

// digests returns the digest of the text and that of the text with digits masked, never 0.
func (r *reader) digests() (text, masked uint64) {
	r.flush()
	return max(r.text.Sum64(), 1), max(r.masked.Sum64(), 1)
}
