package extract

import (
	"bytes"
	"iter"
)

// Token is a tag, or text up to the next tag or comment.
type Token struct {
	Raw  []byte // as written
	Name []byte // of a tag, in lower case, cut to 24 bytes; valid for this token only. Nil for text
	End  bool   // of an end tag
	// Void reports a self-closed tag of XHTML, which has no content.
	Void bool
}

// Tokens iterates over the tags and text of an HTML document in UTF-8, without comments. The
// content of script, style, title, noscript and the like is one text, also in SVG and MathML, where
// browsers find markup in it.
func Tokens(doc []byte, xml bool) iter.Seq[Token] {
	return func(yield func(Token) bool) {
		s := scanner{src: doc, handler: &walk{xml: xml}}
		for text, i := 0, 0; i < len(doc); {
			j := bytes.IndexByte(doc[i:], '<')
			if j < 0 || i+j+1 == len(doc) {
				yield(Token{Raw: doc[text:]})
				return
			}
			i += j
			next, end := i+1, doc[i+1] == '/' && i+2 < len(doc)
			isTag := isLetter(doc[i+1]) || end && isLetter(doc[i+2])
			switch c := doc[i+1]; {
			case isTag:
			case end:
				next = s.through(i+2, ">")
			case c == '!':
				next = s.declaration(i + 2)
			case c == '?':
				next = s.through(i+1, ">")
			default: // the sign is text
				i = next
				continue
			}
			if text < i && !yield(Token{Raw: doc[text:i]}) {
				return
			}
			if isTag {
				next = s.token(i, end, yield)
			}
			if next < 0 {
				return
			}
			text, i = next, next
		}
	}
}

// token yields the tag at i, and its raw text. It returns the index after it; -1 at the end.
func (s *scanner) token(i int, end bool, yield func(Token) bool) int {
	begin := i + 1
	if end {
		begin++
	}
	nameEnd, upper := s.nameEnd(begin)
	next := s.skipAttributes(nameEnd)
	if next < 0 {
		return -1
	}
	name := s.lowered(s.src[begin:nameEnd], upper)
	t := Token{Raw: s.src[i:next], Name: name[:min(len(name), maxName)], End: end, Void: s.handler.xml && s.src[next-2] == '/'}
	raw := next
	if !end && !t.Void {
		switch string(t.Name) {
		case "script":
			raw = s.script(next)
		case "style", "title", "textarea", "iframe", "noembed", "noframes", "noscript", "xmp":
			raw = s.rawText(next, t.Name)
		case "plaintext":
			raw = -1
		}
	}
	if !yield(t) {
		return -1
	}
	if raw < 0 {
		yield(Token{Raw: s.src[next:]})
	} else if raw > next && !yield(Token{Raw: s.src[next:raw]}) {
		return -1
	}
	return raw
}
