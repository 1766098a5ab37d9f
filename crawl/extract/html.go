package extract

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/text/encoding"

	"github.com/apoidea/apoidea/crawl/link"
)

// walk is the state of one HTML document: the meaning of its elements.
type walk struct {
	x    *Extractor
	page *Page
	opt  Options

	charset charset
	xml     bool   // XHTML: a self-closed tag has no content, CDATA is text
	base    []byte // href of the first base element with one
	hasBase bool

	framesetOK bool // no element yet after which a frameset is ignored
	frameset   bool // frames count
	regions    []region
	templates  []bool // open templates: whether each is inert
	inert      int    // number of inert ones
}

// html scans a document and resolves its links.
func (x *Extractor) html(page *Page, base *link.Base, contentType string, body []byte, opt Options) {
	w := &x.walk
	*w = walk{x: x, page: page, opt: opt, xml: isXHTML(contentType), framesetOK: true, regions: w.regions[:0], templates: w.templates[:0]}
	w.charset = detect(contentType, body)
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	whole := w.charset.whole()
	if whole {
		body = transcode(w.charset.enc, body)
	} else {
		x.decodeFrom(w.charset)
	}
	x.scan.reader.begin()
	x.scan.run(body, w)
	page.Text, page.Masked = x.scan.reader.digests()
	page.Words = x.scan.reader.features.Sum()
	if !whole {
		x.decodeFrom(w.charset) // a meta element may have changed it
	}
	base.Encoding = queryEncoding(w.charset)
	if w.hasBase {
		base = base.Rebase(x.decode(w.base))
	}
	x.resolve(page, base)
	w.base, w.x, w.page = nil, nil, nil
}

// transcode returns body in UTF-8 without its byte order mark. Invalid bytes become U+FFFD.
func transcode(enc encoding.Encoding, body []byte) []byte {
	text, err := enc.NewDecoder().Bytes(body)
	if err != nil {
		return nil
	}
	return bytes.TrimPrefix(text, []byte("\uFEFF"))
}

// queryEncoding returns the encoding of queries in a document's links (URL standard, "get an output
// encoding"); nil for UTF-8.
func queryEncoding(c charset) encoding.Encoding {
	switch c.name {
	case "utf-8", "utf-16le", "utf-16be", "replacement":
		return nil
	}
	return c.enc
}

// decodeFrom sets the encoding of hrefs.
func (x *Extractor) decodeFrom(c charset) {
	x.enc = nil
	if c.name != "utf-8" {
		x.enc = c.enc.NewDecoder()
	}
}

// decode returns an attribute's value as text: transcoded, with character references replaced.
// Valid until the next call.
func (x *Extractor) decode(value []byte) []byte {
	value = x.text(value)
	if bytes.IndexByte(value, '&') >= 0 {
		x.scratch = appendUnescaped(x.scratch[:0], value)
		value = x.scratch
	}
	return value
}

// text returns a transcoded piece of the document.
func (x *Extractor) text(value []byte) []byte {
	if !slices.ContainsFunc(value, func(c byte) bool { return c >= 0x80 || c == 0 }) {
		return value
	}
	if x.enc != nil {
		if text, err := x.enc.Bytes(value); err == nil {
			value = text
		}
	}
	return bytes.ReplaceAll(value, []byte{0}, []byte("\uFFFD"))
}

// Content after a start tag.
type content int

const (
	textMarkup content = iota
	textRaw            // text up to the end tag of the same name
	textScript         // the same, with the escapes of scripts
	textToEnd          // text up to the document's end
)

// wants reports whether start must be called for an element.
func (w *walk) wants(el element) bool {
	if el == elNone {
		return false
	}
	return w.framesetOK || len(w.regions) > 0 || el < elRequisites || w.opt.Requisites
}

// start handles a start tag, whose attributes are in s.attr.
func (w *walk) start(s *scanner, el element, closed bool) content {
	if w.foreign() {
		if !breaksOut(s, el) {
			w.startForeign(s, el, closed)
			return textMarkup
		}
		w.leaveForeign()
	}
	if flags[el]&notFrameset != 0 && !(el == elInput && s.is(attrType, "hidden")) {
		w.framesetOK = false
	}
	if w.inert == 0 {
		w.links(s, el)
	}
	return w.open(s, el, closed)
}

// open handles what a start tag opens.
func (w *walk) open(s *scanner, el element, closed bool) content {
	if closed && (w.xml || el == elSVG || el == elMath) {
		return textMarkup
	}
	switch el {
	case elSVG:
		w.enter(regionSVG)
	case elMath:
		w.enter(regionMath)
	case elTemplate:
		w.openTemplate(s)
	case elScript:
		return textScript
	case elTitle, elTextarea, elStyle, elXMP, elIframe, elNoembed, elNoframes:
		return textRaw
	case elPlaintext:
		return textToEnd
	}
	return textMarkup
}

// maxTemplates bounds the tracked nesting of templates; deeper ones are inert.
const maxTemplates = 256

// openTemplate enters a template. Its content is not part of the document, except for that of a
// declarative shadow root.
func (w *walk) openTemplate(s *scanner) {
	shadow := s.is(attrShadowRootMode, "open") || s.is(attrShadowRootMode, "closed")
	if len(w.templates) < maxTemplates {
		w.templates = append(w.templates, !shadow)
		if !shadow {
			w.inert++
		}
	}
}

// end handles an end tag.
func (w *walk) end(el element) {
	if el == elTemplate && !w.foreign() {
		if n := len(w.templates) - 1; n >= 0 {
			if w.templates[n] {
				w.inert--
			}
			w.templates = w.templates[:n]
		}
		return
	}
	w.endForeign(el)
}

// is reports whether the tag has an attribute with this value, ignoring case and surrounding white
// space.
func (s *scanner) is(a attr, word string) bool {
	return s.has&(1<<a) != 0 && equalFold(trimSpace(s.attr[a]), word)
}

// get returns an attribute's value as written; ok is false without it.
func (s *scanner) get(a attr) (value []byte, ok bool) {
	if s.has&(1<<a) == 0 {
		return nil, false
	}
	return s.attr[a], true
}

// links adds the links of an element.
func (w *walk) links(s *scanner, el element) {
	switch el {
	case elA, elArea:
		w.document(s, attrHref, w.hasRel(s, "nofollow"))
	case elIframe:
		w.document(s, attrSrc, false)
	case elFrameset:
		w.frameset = w.frameset || w.framesetOK
	case elFrame:
		if w.frameset {
			w.document(s, attrSrc, false)
		}
	case elLink:
		w.linkElement(s)
	case elBase:
		if href, ok := s.get(attrHref); ok && !w.hasBase {
			w.base, w.hasBase = href, true
		}
	case elMeta:
		w.metaElement(s)
	default:
		if w.opt.Requisites {
			w.requisites(s, el)
		}
	}
}

// document adds the document in an attribute.
func (w *walk) document(s *scanner, a attr, nofollow bool) {
	if value, ok := s.get(a); ok {
		w.x.add(w.page, value, href{kind: link.KindPage, nofollow: nofollow})
	}
}

// Inside SVG and MathML titles and styles are ordinary markup, CDATA sections exist, and links are
// those of SVG. The tree builder keeps a stack of all open elements for this; for links a stack of
// regions is sufficient, and differs only where end tags do not match.

// region is the language of a part of the document: an open svg, math or integration point (HTML
// within them).
type region uint8

const (
	regionSVG region = iota
	regionMath
	regionHTML // within an integration point
)

// maxRegions bounds the nesting of languages; deeper ones count as the one around them.
const maxRegions = 256

func (w *walk) foreign() bool {
	n := len(w.regions)
	return n > 0 && w.regions[n-1] != regionHTML
}

// cdata reports whether CDATA sections exist here.
func (w *walk) cdata() bool { return w.xml || w.foreign() }

func (w *walk) enter(r region) {
	if len(w.regions) < maxRegions {
		w.regions = append(w.regions, r)
	}
}

// leaveForeign closes SVG and MathML up to the HTML around them.
func (w *walk) leaveForeign() {
	for w.foreign() {
		w.regions = w.regions[:len(w.regions)-1]
	}
}

// breaksOut reports whether a start tag within SVG or MathML is one of HTML that closes them (HTML
// standard, "parsing tokens in foreign content").
func breaksOut(s *scanner, el element) bool {
	return flags[el]&breakout != 0 || el == elFont && s.has&(1<<attrColor|1<<attrFace|1<<attrSize) != 0
}

// startForeign handles a start tag of SVG or MathML.
func (w *walk) startForeign(s *scanner, el element, closed bool) {
	svg := w.regions[len(w.regions)-1] == regionSVG
	if w.inert == 0 && svg {
		w.linksSVG(s, el)
	}
	if closed {
		return
	}
	switch {
	case el == elSVG:
		w.enter(regionSVG)
	case el == elMath:
		w.enter(regionMath)
	case svg && flags[el]&pointSVG != 0, !svg && flags[el]&pointMath != 0:
		w.enter(regionHTML)
	case !svg && el == elAnnotationXML && (s.is(attrEncoding, "text/html") || s.is(attrEncoding, "application/xhtml+xml")):
		w.enter(regionHTML)
	}
}

// linksSVG adds the links of an SVG element; href takes precedence over the older xlink:href.
func (w *walk) linksSVG(s *scanner, el element) {
	at := attrHref
	if _, ok := s.get(at); !ok {
		at = attrXlinkHref
	}
	switch el {
	case elA:
		w.document(s, at, w.hasRel(s, "nofollow"))
	case elScript, elImg: // image in SVG, img in HTML
		if w.opt.Requisites {
			w.requisite(s, at)
		}
	}
}

// endForeign handles an end tag while SVG or MathML is open.
func (w *walk) endForeign(el element) {
	switch {
	case el == elSVG:
		w.closeRegion(regionSVG)
	case el == elMath:
		w.closeRegion(regionMath)
	case !w.foreign() && flags[el]&(pointSVG|pointMath) != 0 || el == elAnnotationXML:
		w.closeRegion(regionHTML)
	case w.foreign() && flags[el]&breakout != 0:
		w.leaveForeign() // the end of an HTML element around
	}
}

// closeRegion closes the innermost region of a kind, and regions open within it.
func (w *walk) closeRegion(r region) {
	for i, open := range slices.Backward(w.regions) {
		if open == r {
			w.regions = w.regions[:i]
			return
		}
	}
}

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
	features     SimHash     // of parts of the text
	recent       [256]uint64 // features, by their last bits
}

// begin forgets the last document.
func (r *reader) begin() {
	r.text.Reset()
	r.masked.Reset()
	r.n, r.space, r.digit, r.some, r.inLink = 0, false, false, false, false
	r.features, r.recent = SimHash{}, [256]uint64{}
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

// dense is how many parts of a text its SimHash has before it takes fewer of them.
const dense = 64

// compare adds a piece of text to the SimHash of the document: the eight bytes after each byte that
// ends in 00001, once if they recur soon. These bytes are the letter a, which is one of 12 to 16 in
// most languages that have it, and about as many of UTF-8 in other scripts. All words would cost
// three times as much; of a short text, bytes that end in 001 count too.
func (r *reader) compare(text []byte) {
	ending := byte(0b111)
	for i := 0; i < len(text)-8; i++ {
		if text[i]&ending != 1 {
			continue
		}
		feature := binary.LittleEndian.Uint64(text[i+1:])
		for range 2 { // as MurmurHash3 mixes
			feature ^= feature >> 33
			feature *= 0xff51afd7ed558ccd
		}
		feature ^= feature >> 33
		if known := &r.recent[feature%uint64(len(r.recent))]; *known != feature {
			*known = feature
			r.features.Add(feature)
		}
		if r.features.n >= dense {
			ending = 0b11111
		}
	}
}

func (r *reader) flush() {
	_, _ = r.text.Write(r.buf[:r.n])
	r.compare(r.buf[:r.n])
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
