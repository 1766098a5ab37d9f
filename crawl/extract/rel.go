package extract

import (
	"bytes"

	"github.com/apoidea/apoidea/crawl/link"
)

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
