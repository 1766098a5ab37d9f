package extract

import (
	"bytes"
	"slices"

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
