package extract

import (
	"bytes"

	"github.com/apoidea/apoidea/crawl/link"
)

// requisite adds the requisite in an attribute.
func (w *walk) requisite(s *scanner, a attr) {
	if value, ok := s.get(a); ok && len(trimSpace(value)) > 0 {
		w.x.add(w.page, value, href{kind: link.KindRequisite})
	}
}

// requisites adds the requisites of an element.
func (w *walk) requisites(s *scanner, el element) {
	switch el {
	case elImg, elSource:
		w.requisite(s, attrSrc)
		w.srcset(s, attrSrcset)
	case elVideo:
		w.requisite(s, attrSrc)
		w.requisite(s, attrPoster)
	case elScript, elAudio, elTrack, elEmbed:
		w.requisite(s, attrSrc)
	case elInput:
		if s.is(attrType, "image") {
			w.requisite(s, attrSrc)
		}
	case elObject:
		w.requisite(s, attrData)
	case elBody:
		w.requisite(s, attrBackground)
	}
}

// style adds the requisites of a style attribute.
func (w *walk) style(s *scanner) {
	if value, ok := s.get(attrStyle); ok && w.opt.Requisites && w.inert == 0 {
		w.x.css(w.page, w.x.decode(value))
	}
}

// styleElement adds the requisites of a style element's text, in which character references do not
// exist.
func (w *walk) styleElement(text []byte) {
	if w.opt.Requisites && w.inert == 0 {
		w.x.css(w.page, w.x.text(text))
	}
}

// srcset adds the candidates of a srcset.
func (w *walk) srcset(s *scanner, a attr) {
	value, ok := s.get(a)
	if !ok {
		return
	}
	list := bytes.Clone(w.x.decode(value))
	for len(list) > 0 {
		var url []byte
		if url, list = nextCandidate(list); len(url) > 0 {
			w.x.add(w.page, url, href{kind: link.KindRequisite, literal: true})
		}
	}
}

// nextCandidate splits off the first URL of a srcset (HTML standard, "parse a srcset attribute"): a
// comma within a URL is part of it, one at its end is not, and one in parentheses is part of the
// descriptor.
func nextCandidate(s []byte) (url, rest []byte) {
	for len(s) > 0 && (isSpace(s[0]) || s[0] == ',') {
		s = s[1:]
	}
	n := 0
	for n < len(s) && !isSpace(s[n]) {
		n++
	}
	url, rest = s[:n], s[n:]
	if n > 0 && url[n-1] == ',' {
		return bytes.TrimRight(url, ","), rest
	}
	depth := 0
	for i, c := range rest {
		switch {
		case c == '(':
			depth = 1
		case c == ')':
			depth = 0
		case c == ',' && depth == 0:
			return url, rest[i+1:]
		}
	}
	return url, nil
}
