package extract

import (
	"bytes"
	"regexp"
	"strings"

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
		w.page.robots(string(w.x.decode(content)), "", true)
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

// rels maps the relations of link elements (or Link headers) to kinds. Others (dns-prefetch,
// preconnect, pingback, profiles, the addresses of services) are not crawled.
var rels = map[string]link.Kind{
	"alternate": link.KindPage, "amphtml": link.KindPage, "appendix": link.KindPage, "archives": link.KindPage, "author": link.KindPage,
	"bookmark": link.KindPage, "canonical": link.KindPage, "chapter": link.KindPage, "contents": link.KindPage, "copyright": link.KindPage,
	"first": link.KindPage, "glossary": link.KindPage, "help": link.KindPage, "home": link.KindPage, "index": link.KindPage,
	"last": link.KindPage, "license": link.KindPage, "next": link.KindPage, "prev": link.KindPage, "previous": link.KindPage,
	"privacy-policy": link.KindPage, "search": link.KindPage, "section": link.KindPage, "shortlink": link.KindPage, "sitemap": link.KindPage, "start": link.KindPage,
	"subsection": link.KindPage, "tag": link.KindPage, "terms-of-service": link.KindPage, "toc": link.KindPage, "top": link.KindPage,
	"up": link.KindPage,

	"stylesheet": link.KindRequisite, "icon": link.KindRequisite, "apple-touch-icon": link.KindRequisite,
	"apple-touch-icon-precomposed": link.KindRequisite, "mask-icon": link.KindRequisite, "manifest": link.KindRequisite,
	"preload": link.KindRequisite, "modulepreload": link.KindRequisite,
}

// relation parses a list of relations. Ok is false if none of them is crawled; an alternate style
// sheet is a requisite.
func relation(list []byte) (kind link.Kind, nofollow, ok bool) {
	for word := range bytes.FieldsSeq(list) {
		lower := bytes.ToLower(word)
		if string(lower) == "nofollow" {
			nofollow = true
		}
		if k, known := rels[string(lower)]; known && (!ok || k == link.KindRequisite) {
			kind, ok = k, true
		}
	}
	return kind, nofollow, ok
}

// linkElement adds the target of a link element.
func (w *walk) linkElement(s *scanner) {
	value, hasHref := s.get(attrHref)
	list, hasRel := s.get(attrRel)
	if !hasRel {
		return
	}
	kind, nofollow, ok := relation(w.x.decode(list))
	if !ok || kind == link.KindRequisite && !w.opt.Requisites {
		return
	}
	if hasHref {
		w.x.add(w.page, value, href{kind: kind, nofollow: nofollow})
	}
	if kind == link.KindRequisite {
		w.srcset(s, attrImageSrcset)
	}
}

// hasRel reports whether the tag has a relation. Of nofollow, ugc and sponsored only nofollow
// requests crawlers not to follow the link.
func (w *walk) hasRel(s *scanner, word string) bool {
	list, ok := s.get(attrRel)
	if !ok || len(list) < len(word) {
		return false
	}
	for each := range bytes.FieldsSeq(w.x.decode(list)) {
		if equalFold(each, word) {
			return true
		}
	}
	return false
}

// robotsTag applies one X-Robots-Tag: directives for all, or after "name:" for the crawler of that
// name.
func (p *Page) robotsTag(value, agent string) { p.robots(value, agent, false) }

// robotsWord is a word of a list of directives with the colon (or equals sign) that follows a name
// or a directive with a value, and the digits behind that. Words are separated by commas,
// semicolons, white space and other characters.
var robotsWord = regexp.MustCompile(`([\w*./+-]+)(?:(\s*[:=])(\d*))?`)

// robots applies a list of robots directives; most directives have no effect.
func (p *Page) robots(list, agent string, all bool) {
	mine, value := true, false
	for _, match := range robotsWord.FindAllStringSubmatch(list, -1) {
		word, colon, digits := strings.ToLower(match[1]), match[2] != "", match[3]
		switch {
		case value: // may be the name of a directive: max-image-preview: none
			value = false
		case colon && strings.HasPrefix(word, "max-"):
			value = digits == ""
		case word == "none" || word == "noindex" || word == "nofollow":
			p.NoIndex = p.NoIndex || mine && word != "nofollow"
			p.NoFollow = p.NoFollow || mine && word != "noindex"
		case word == "unavailable_after": // a date follows, whose words are not directives
		case colon && digits == "" && strings.Trim(word, "0123456789.-+/") != "": // not of a time
			mine = all || isName(word, agent)
		}
	}
}

// isName reports whether the name before directives is that of this crawler: with a version after a
// slash or without.
func isName(word, agent string) bool {
	name, _, _ := strings.Cut(word, "/")
	return name == "*" || name == "robots" || agent != "" && strings.EqualFold(name, agent)
}
