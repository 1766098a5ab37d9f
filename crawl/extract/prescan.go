package extract

import "bytes"

// prescan implements the standard's "prescan a byte stream to determine its encoding".
func prescan(s []byte) charset {
	for i := 0; i < len(s); {
		j := bytes.IndexByte(s[i:], '<')
		if j < 0 {
			break
		}
		i += j
		switch rest := s[i:]; {
		case bytes.HasPrefix(rest, []byte("<!--")):
			end := bytes.Index(rest[2:], []byte("-->")) // may share the dashes of <!--
			if end < 0 {
				return charset{}
			}
			i += 2 + end + 3
		case len(rest) > 5 && equalFold(rest[1:5], "meta") && (isSpace(rest[5]) || rest[5] == '/'):
			var c charset
			if c, i = prescanMeta(s, i+6); c.enc != nil {
				return c
			}
		case len(rest) > 1 && isLetter(rest[1]), len(rest) > 2 && rest[1] == '/' && isLetter(rest[2]):
			for i < len(s) && !isSpace(s[i]) && s[i] != '>' {
				i++
			}
			for ok := true; ok; {
				_, _, i, ok = prescanAttribute(s, i)
			}
			i++ // the >
		case len(rest) > 1 && (rest[1] == '!' || rest[1] == '/' || rest[1] == '?'):
			end := bytes.IndexByte(rest, '>')
			if end < 0 {
				return charset{}
			}
			i += end + 1
		default:
			i++
		}
	}
	return charset{}
}

// prescanMeta parses the attributes of a meta element from s[i:]. A document that ends within has
// no result.
func prescanMeta(s []byte, i int) (charset, int) {
	var m meta
	for {
		name, value, next, ok := prescanAttribute(s, i)
		i = next
		if !ok {
			break
		}
		m.set(name, value)
	}
	if i >= len(s) {
		return charset{}, i
	}
	return m.charset(), i + 1
}

// meta is the encoding declaration of a meta element.
type meta struct {
	seen               uint8 // attributes present, by their bit below
	pragma             bool  // http-equiv is content-type
	direct, indirect   charset
	hasDirect, hasText bool
}

func (m *meta) set(name, value []byte) {
	switch {
	case equalFold(name, "http-equiv") && m.seen&1 == 0:
		m.seen |= 1
		m.pragma = equalFold(value, "content-type")
	case equalFold(name, "content") && m.seen&2 == 0:
		m.seen |= 2
		if label := contentCharset(value); label != nil {
			m.hasText, m.indirect = true, lookupMeta(label)
		}
	case equalFold(name, "charset") && m.seen&4 == 0:
		m.seen |= 4
		m.hasDirect, m.direct = true, lookupMeta(value)
	}
}

// charset returns the declared encoding; enc is nil if there is none or it is unknown.
func (m *meta) charset() charset {
	switch {
	case m.hasDirect:
		return m.direct
	case m.hasText && m.pragma:
		return m.indirect
	default:
		return charset{}
	}
}

// contentCharset extracts an encoding's label from a meta element's content (HTML standard, the
// algorithm of that name).
func contentCharset(s []byte) []byte {
	for {
		i := indexFold(s, "charset")
		if i < 0 {
			return nil
		}
		s = s[i+len("charset"):]
		rest := bytes.TrimLeft(s, " \t\n\f\r")
		if len(rest) == 0 || rest[0] != '=' {
			continue
		}
		rest = bytes.TrimLeft(rest[1:], " \t\n\f\r")
		if len(rest) == 0 {
			return nil
		}
		if q := rest[0]; q == '"' || q == '\'' {
			if end := bytes.IndexByte(rest[1:], q); end >= 0 {
				return rest[1 : 1+end]
			}
			return nil
		}
		if end := bytes.IndexAny(rest, " \t\n\f\r;"); end >= 0 {
			rest = rest[:end]
		}
		return rest
	}
}

// indexFold returns the index of the first lower-case word in s, ignoring ASCII case, or -1.
func indexFold(s []byte, word string) int {
	for i := 0; i+len(word) <= len(s); i++ {
		if equalFold(s[i:i+len(word)], word) {
			return i
		}
	}
	return -1
}

// prescanAttribute implements the standard's "get an attribute": it returns the attribute at s[i:]
// and where the next begins; ok is false at the end of the tag, which next points at, and at the
// end of s.
func prescanAttribute(s []byte, i int) (name, value []byte, next int, ok bool) {
	for i < len(s) && (isSpace(s[i]) || s[i] == '/') {
		i++
	}
	if i >= len(s) || s[i] == '>' {
		return nil, nil, i, false
	}
	begin := i
	for i < len(s) && !isSpace(s[i]) && s[i] != '/' && s[i] != '>' && (s[i] != '=' || i == begin) {
		i++
	}
	name = s[begin:i]
	for i < len(s) && isSpace(s[i]) {
		i++
	}
	if i >= len(s) {
		return nil, nil, i, false
	}
	if s[i] != '=' {
		return name, nil, i, true
	}
	for i++; i < len(s) && isSpace(s[i]); i++ {
	}
	if i >= len(s) {
		return nil, nil, i, false
	}
	if q := s[i]; q == '"' || q == '\'' {
		end := bytes.IndexByte(s[i+1:], q)
		if end < 0 {
			return nil, nil, len(s), false
		}
		return name, s[i+1 : i+1+end], i + 2 + end, true
	}
	begin = i
	for i < len(s) && !isSpace(s[i]) && s[i] != '>' {
		i++
	}
	return name, s[begin:i], i, i < len(s)
}
