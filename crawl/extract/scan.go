package extract

import (
	"bytes"
	"html"
	"unicode/utf8"
)

// Classes of the bytes that end a tag's name, or an attribute's.
const (
	inName    = 0
	nameUpper = 1 // part of the name, in upper case
	nameEnd   = 2 // white space, slash, >
	nameEqual = 4 // ends an attribute's name, not a tag's
)

var nameClass = func() (t [256]uint8) {
	for c := range t {
		switch {
		case 'A' <= c && c <= 'Z':
			t[c] = nameUpper
		case isSpace(byte(c)) || c == '/' || c == '>':
			t[c] = nameEnd
		case c == '=':
			t[c] = nameEqual
		}
	}
	return t
}()

// maxName exceeds the longest name of a relevant element or attribute; longer ones are truncated.
const maxName = 24

// scanner iterates over the tags of markup, with the part of the tree builder's state that
// distinguishes tags from text. It calls the handler for the elements in the table of names, with
// their attributes in attr.
type scanner struct {
	src     []byte
	handler *walk
	reader  reader

	attr  [attrCount][]byte // values of the current tag
	has   uint32            // attributes present; the first of a name counts
	lower [maxName]byte
}

// run scans src.
func (s *scanner) run(src []byte, w *walk) {
	s.src, s.handler = src, w
	for i := 0; i >= 0 && i < len(src); {
		j := 0
		if src[i] != '<' { // tags are often adjacent
			if j = bytes.IndexByte(src[i:], '<'); j < 0 {
				s.reader.words(src[i:])
				break
			}
			s.reader.words(src[i : i+j])
		}
		if w.framesetOK && !blank(src[i:i+j]) {
			w.framesetOK = false
		}
		if i += j + 1; i == len(src) {
			break
		}
		switch c := src[i]; {
		case isLetter(c):
			i = s.startTag(i)
		case c == '/':
			i = s.endTag(i + 1)
		case c == '!':
			i = s.declaration(i + 1)
		case c == '?':
			i = s.through(i, ">")
		default:
			w.framesetOK = false // the sign is text
		}
	}
	s.src, s.handler = nil, nil
	clear(s.attr[:])
}

// nameEnd returns the end of the tag name that begins at i, and the classes of its letters; at the
// end of the document there is none.
func (s *scanner) nameEnd(i int) (end int, upper uint8) {
	for ; i < len(s.src); i++ {
		k := nameClass[s.src[i]]
		if k&nameEnd != 0 {
			break
		}
		upper |= k
	}
	return i, upper
}

// startTag handles the start tag whose name is at i, and returns where to continue; -1 at the end
// of the document.
func (s *scanner) startTag(i int) int {
	begin := i
	i, upper := s.nameEnd(i)
	if i == len(s.src) {
		return -1
	}
	name := s.lowered(s.src[begin:i], upper)
	if len(name) == 1 && name[0] == 'a' {
		s.reader.inLink = true
	}
	w := s.handler
	if len(w.regions) == 0 && !w.framesetOK && !interesting(name) {
		return s.passAttributes(i)
	}
	el := elements[string(name)]
	if el != elImg && !w.wants(el) {
		return s.passAttributes(i)
	}
	i, closed := s.readAttributes(i)
	if i < 0 {
		return -1
	}
	if el == elImg {
		if src, ok := s.get(attrSrc); ok {
			s.reader.image(src)
		}
	}
	what := w.start(s, el, closed)
	w.style(s)
	switch what {
	case textRaw:
		end := s.rawText(i, name)
		if el == elStyle && end >= 0 {
			w.styleElement(s.src[i:end])
		} else if el == elStyle {
			w.styleElement(s.src[i:])
		} else if el == elTitle && end >= 0 {
			s.reader.part(s.src[i:end])
		}
		return end
	case textScript:
		return s.script(i)
	case textToEnd:
		return -1
	default:
		return i
	}
}

// endTag handles what follows </ .
func (s *scanner) endTag(i int) int {
	if i == len(s.src) {
		return -1
	}
	if !isLetter(s.src[i]) {
		return s.through(i, ">") // a bogus comment, or nothing for </>
	}
	begin := i
	i, upper := s.nameEnd(i)
	if i == len(s.src) {
		return -1
	}
	name := s.src[begin:i]
	if len(name) == 1 && name[0]|0x20 == 'a' {
		s.reader.inLink = false
	}
	if s.src[i] == '>' {
		i++
	} else if i = s.skipAttributes(i); i < 0 {
		return -1
	}
	if w := s.handler; len(w.regions) > 0 || len(w.templates) > 0 {
		w.end(elements[string(s.lowered(name, upper))])
	}
	return i
}

// lowered returns a name in lower case, truncated to maxName; valid until the next call.
func (s *scanner) lowered(name []byte, upper uint8) []byte {
	if upper&nameUpper == 0 {
		return name
	}
	n := copy(s.lower[:], name)
	for i, c := range s.lower[:n] {
		if 'A' <= c && c <= 'Z' {
			s.lower[i] = c | 0x20
		}
	}
	return s.lower[:n]
}

// skipAttributes returns the index after the tag whose attributes begin at i; -1 if the document
// ends within, which discards the tag.
func (s *scanner) skipAttributes(i int) int {
	src := s.src
	for i < len(src) {
		for i < len(src) && (isSpace(src[i]) || src[i] == '/') {
			i++
		}
		if i == len(src) {
			break
		}
		if src[i] == '>' {
			return i + 1
		}
		for i++; i < len(src) && nameClass[src[i]] < nameEnd; i++ {
		}
		if i, _, _ = s.value(i); i < 0 {
			break
		}
	}
	return -1
}

// passAttributes is skipAttributes, and adds the requisites of a style attribute.
func (s *scanner) passAttributes(i int) int {
	end := s.skipAttributes(i)
	if w := s.handler; w.opt.Requisites && end >= 0 && bytes.IndexByte(s.src[i:end], '(') >= 0 {
		s.readAttributes(i)
		w.style(s)
	}
	return end
}

// readAttributes is skipAttributes, and stores the values of relevant attributes; closed reports a
// slash before the end.
func (s *scanner) readAttributes(i int) (next int, closed bool) {
	src := s.src
	s.has = 0
	for i < len(src) {
		for i < len(src) && (isSpace(src[i]) || src[i] == '/') {
			closed = src[i] == '/'
			i++
		}
		if i == len(src) {
			break
		}
		if src[i] == '>' {
			return i + 1, closed
		}
		closed = false
		begin, upper := i, nameClass[src[i]]
		for i++; i < len(src) && nameClass[src[i]] < nameEnd; i++ {
			upper |= nameClass[src[i]]
		}
		name := src[begin:i]
		from, to := 0, 0
		if i, from, to = s.value(i); i < 0 {
			break
		}
		if a := attribute(s.lowered(name, upper)); a != attrNone && s.has&(1<<a) == 0 {
			s.has |= 1 << a
			s.attr[a] = src[from:to]
		}
	}
	return -1, false
}

// value parses the optional value of an attribute at i: an equals sign and a value, src[from:to].
// Next is -1 at the end of the document.
func (s *scanner) value(i int) (next, from, to int) {
	src := s.src
	for i < len(src) && src[i] != '=' && isSpace(src[i]) {
		i++
	}
	if i == len(src) || src[i] != '=' {
		return i, 0, 0
	}
	for i++; i < len(src) && isSpace(src[i]); i++ {
	}
	if i == len(src) {
		return -1, 0, 0
	}
	switch q := src[i]; q {
	case '"', '\'':
		n := bytes.IndexByte(src[i+1:], q)
		if n < 0 {
			return -1, 0, 0
		}
		return i + n + 2, i + 1, i + n + 1
	case '>':
		return i, i, i
	}
	from = i
	for i < len(src) && !isSpace(src[i]) && src[i] != '>' {
		i++
	}
	return i, from, i
}

// declaration returns the index after the comment, doctype or CDATA section whose text begins at i,
// after <! .
func (s *scanner) declaration(i int) int {
	rest := s.src[i:]
	switch {
	case bytes.HasPrefix(rest, []byte("--")):
		return s.comment(i + 2)
	case s.handler.cdata() && bytes.HasPrefix(rest, []byte("[CDATA[")):
		return s.through(i, "]]>")
	default:
		return s.through(i, ">")
	}
}

// comment returns the index after the comment whose text begins at i.
func (s *scanner) comment(i int) int {
	switch rest := s.src[i:]; {
	case bytes.HasPrefix(rest, []byte(">")):
		return i + 1
	case bytes.HasPrefix(rest, []byte("->")):
		return i + 2
	}
	for {
		j := bytes.Index(s.src[i:], []byte("--"))
		if j < 0 {
			return -1
		}
		switch rest := s.src[i+j+2:]; {
		case bytes.HasPrefix(rest, []byte(">")):
			return i + j + 3
		case bytes.HasPrefix(rest, []byte("!>")):
			return i + j + 4
		}
		i += j + 1
	}
}

// through returns the index after the next end, or -1.
func (s *scanner) through(i int, end string) int {
	j := bytes.Index(s.src[i:], []byte(end))
	if j < 0 {
		return -1
	}
	return i + j + len(end)
}

// rawText returns the index of the end tag of an element with raw text. Lower is its name.
func (s *scanner) rawText(i int, lower []byte) int {
	var buf [maxName]byte
	name := string(buf[:copy(buf[:], lower)]) // lower may be in the scanner's buffer
	for {
		j := bytes.Index(s.src[i:], []byte("</"))
		if j < 0 {
			return -1
		}
		i += j
		if s.named(i+2, name) {
			return i
		}
		i += 2
	}
}

// named reports whether there is a complete tag name at i.
func (s *scanner) named(i int, name string) bool {
	end := i + len(name)
	return end < len(s.src) && equalFold(s.src[i:end], name) && nameClass[s.src[end]]&nameEnd != 0
}

// script returns the index of the end tag of a script. Between <!-- and --> a script may contain
// <script> and </script> (HTML standard, "script data double escaped state").
func (s *scanner) script(i int) int {
	const (
		open    = iota // ordinary script
		escaped        // after <!--
		double         // after a <script within
	)
	state := open
	escape := 0 // end of the next --> at or after i; -1 without one
	for i < len(s.src) {
		j := bytes.IndexByte(s.src[i:], '<')
		if state != open {
			// The escape ends with --> , whose dashes may be those of <!-- .
			if 0 <= escape && escape < i+len("-->") {
				escape = s.through(i, "-->")
			}
			if escape >= 0 && (j < 0 || escape <= i+j) {
				state = open
				i = escape
				continue
			}
		}
		if j < 0 {
			return -1
		}
		i += j
		switch {
		case state != double && s.named(i+2, "script") && s.src[i+1] == '/':
			return i
		case state == double && s.named(i+2, "script") && s.src[i+1] == '/':
			state = escaped
			i += len("</script")
		case state == escaped && s.named(i+1, "script"):
			state = double
			i += len("<script")
		case state == open && bytes.HasPrefix(s.src[i:], []byte("<!--")):
			state = escaped
			i += len("<!")
		default:
			i++
		}
	}
	return -1
}

// blank reports whether s holds white space only.
func blank(s []byte) bool {
	for _, c := range s {
		if !isSpace(c) {
			return false
		}
	}
	return true
}

// maxEntity exceeds the longest name of a character reference.
const maxEntity = 32

// appendUnescaped appends an attribute's value with its character references replaced. In
// attributes a reference without semicolon before a letter, a digit or an equals sign is literal
// (HTML standard, "named character reference state"): ?a=1&copy=2 is unchanged.
func appendUnescaped(dst, s []byte) []byte {
	for {
		i := bytes.IndexByte(s, '&')
		if i < 0 {
			return append(dst, s...)
		}
		dst, s = append(dst, s[:i]...), s[i:]
		text, n := reference(s)
		if n == 0 {
			text, n = "&", 1
		}
		dst, s = append(dst, text...), s[n:]
	}
}

// reference returns the text of the character reference at the front of s, and its length; 0 if
// there is none.
func reference(s []byte) (string, int) {
	if bytes.HasPrefix(s, []byte("&amp;")) {
		return "&", len("&amp;")
	}
	if len(s) > 1 && s[1] == '#' {
		return numericReference(s)
	}
	n := 1
	for n < len(s) && n <= maxEntity && isAlnum(s[n]) {
		n++
	}
	if n == 1 || n > maxEntity {
		return "", 0
	}
	if n < len(s) && s[n] == ';' {
		// The library decodes by the rules of text, where &notit; is a sign and "it;". Here only a
		// complete name is valid.
		if text := html.UnescapeString(string(s[:n+1])); text[0] != '&' && (text == ";" || text[len(text)-1] != ';') || text == "&" {
			return text, n + 1
		}
		return "", 0
	}
	if n < len(s) && s[n] == '=' {
		return "", 0
	}
	// Names that need no semicolon stand for one character; more than one is a name with a rest.
	if text := html.UnescapeString(string(s[:n])); utf8.RuneCountInString(text) == 1 {
		return text, n
	}
	return "", 0
}

// numericReference decodes &#38; and &#x26; , with or without the semicolon.
func numericReference(s []byte) (string, int) {
	n, isDigit := 2, isDecimal
	if n < len(s) && s[n]|0x20 == 'x' {
		n, isDigit = 3, isHexadecimal
	}
	first := n
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	if n == first {
		return "", 0
	}
	digits := bytes.TrimLeft(s[first:n], "0")
	text := "\uFFFD"
	if 0 < len(digits) && len(digits) <= 7 { // U+10FFFF is 1114111
		text = html.UnescapeString("&" + string(s[1:first]) + string(digits) + ";")
	}
	if n < len(s) && s[n] == ';' {
		n++
	}
	return text, n
}

func isAlnum(c byte) bool       { return isLetter(c) || isDecimal(c) }
func isLetter(c byte) bool      { return (c|0x20)-'a' < 26 }
func isDecimal(c byte) bool     { return '0' <= c && c <= '9' }
func isHexadecimal(c byte) bool { return isDecimal(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }
func isSpace(c byte) bool       { return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' }

// equalFold reports whether s equals the lower-case word, ignoring ASCII case.
func equalFold(s []byte, word string) bool {
	if len(s) != len(word) {
		return false
	}
	for i, c := range s {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != word[i] {
			return false
		}
	}
	return true
}

// trimSpace removes HTML white space at both ends.
func trimSpace(s []byte) []byte {
	for len(s) > 0 && isSpace(s[0]) {
		s = s[1:]
	}
	for len(s) > 0 && isSpace(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}
