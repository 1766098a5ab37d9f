package extract

import (
	"bytes"

	"github.com/apoidea/apoidea/crawl/link"
)

// metaElement handles a refresh, robots directives and a late declaration of the encoding.
func (w *walk) metaElement(s *scanner) {
	if w.charset.tentative {
		w.metaCharset(s)
	}
	content, ok := s.get(attrContent)
	if !ok {
		return
	}
	switch name, _ := s.get(attrName); {
	case s.is(attrName, "description"):
		s.reader.part(content)
	case s.is(attrHTTPEquiv, "refresh"):
		if url := refreshURL(w.x.decode(content)); url != nil {
			w.x.add(w.page, bytes.Clone(url), href{kind: link.KindPage, literal: true})
		}
	case s.is(attrHTTPEquiv, "x-robots-tag"):
		w.page.robotsTag(string(w.x.decode(content)), w.opt.Agent)
	case s.is(attrName, "robots"), w.opt.Agent != "" && bytes.EqualFold(trimSpace(name), []byte(w.opt.Agent)):
		w.page.directives(string(w.x.decode(content)))
	}
}

// metaCharset applies the encoding that a meta element declares, if it is known. The first such
// element counts.
func (w *walk) metaCharset(s *scanner) {
	var c charset
	if label, ok := s.get(attrCharset); ok {
		c = lookupMeta(label)
	} else if pragma, _ := s.get(attrHTTPEquiv); equalFold(pragma, "content-type") {
		content, _ := s.get(attrContent)
		c = lookupMeta(contentCharset(content))
	}
	if c.enc != nil {
		w.charset = c
		w.x.decodeFrom(c)
	}
}

// refreshURL returns the URL of a refresh (HTML standard, "shared declarative refresh steps"), nil
// if it is the document itself.
func refreshURL(s []byte) []byte {
	s = bytes.TrimLeft(s, " \t\n\f\r")
	n := 0
	for n < len(s) && isDecimal(s[n]) {
		n++
	}
	if n == 0 && (len(s) == 0 || s[0] != '.') {
		return nil
	}
	s = bytes.TrimLeft(s[n:], "0123456789.")
	if len(s) == 0 || s[0] != ';' && s[0] != ',' && !isSpace(s[0]) {
		return nil
	}
	s = bytes.TrimLeft(s, " \t\n\f\r")
	if len(s) > 0 && (s[0] == ';' || s[0] == ',') {
		s = s[1:]
	}
	if s = bytes.TrimLeft(s, " \t\n\f\r"); len(s) == 0 {
		return nil
	}
	if s[0]|0x20 == 'u' {
		if len(s) < 3 || !equalFold(s[:3], "url") {
			return s
		}
		after := bytes.TrimLeft(s[3:], " \t\n\f\r")
		if len(after) == 0 || after[0] != '=' {
			return s
		}
		s = bytes.TrimLeft(after[1:], " \t\n\f\r")
	}
	if len(s) > 0 && (s[0] == '"' || s[0] == '\'') {
		s, _, _ = bytes.Cut(s[1:], s[:1])
	}
	return s
}
