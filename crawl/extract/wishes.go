package extract

import "strings"

// robotsTag applies one X-Robots-Tag: directives for all, or after "name:" for the crawler of that
// name.
func (p *Page) robotsTag(value, agent string) {
	mine := true
	for words := value; ; {
		var word string
		var named bool
		if word, named, words = nextWord(words); word == "" {
			return
		}
		switch {
		case !named || isDirective(word):
			if mine {
				p.directive(word)
			}
		case strings.EqualFold(word, "unavailable_after"):
			// The words of its date are not directives, and its numbers not names.
		case isValued(word):
			_, _, words = nextWord(words)
		default:
			mine = isName(word, agent)
		}
	}
}

// directives applies a list of robots directives in a meta element, whatever names it contains.
func (p *Page) directives(list string) {
	for word, named := "", false; ; {
		if word, named, list = nextWord(list); word == "" {
			return
		}
		if named && isValued(word) {
			_, _, list = nextWord(list)
			continue
		}
		p.directive(word)
	}
}

// directive applies one word; most directives have no effect.
func (p *Page) directive(word string) {
	none := strings.EqualFold(word, "none")
	p.NoIndex = p.NoIndex || none || strings.EqualFold(word, "noindex")
	p.NoFollow = p.NoFollow || none || strings.EqualFold(word, "nofollow")
}

// isDirective reports whether a word is a supported directive, and so not a name, whatever follows
// it.
func isDirective(word string) bool {
	return strings.EqualFold(word, "none") || strings.EqualFold(word, "noindex") || strings.EqualFold(word, "nofollow")
}

// isValued reports whether a word is a directive with a value, which may be the name of another
// directive: max-image-preview: none.
func isValued(word string) bool {
	return len(word) > 4 && strings.EqualFold(word[:4], "max-")
}

// isName reports whether the name before directives is that of this crawler: with a version after a
// slash or without.
func isName(word, agent string) bool {
	name, _, _ := strings.Cut(word, "/")
	return name == "*" || strings.EqualFold(name, "robots") || agent != "" && strings.EqualFold(name, agent)
}

// nextWord splits the first word off a list. Words are separated by commas, semicolons, white space
// and other characters. Named reports a following colon (or equals sign), as after a name or a
// directive with a value; before a digit it belongs to a time, and a number is not a name.
func nextWord(s string) (word string, named bool, rest string) {
	begin := strings.IndexFunc(s, isWordByte)
	if begin < 0 {
		return "", false, ""
	}
	s = s[begin:]
	end := strings.IndexFunc(s, func(c rune) bool { return !isWordByte(c) })
	if end < 0 {
		return s, false, ""
	}
	word, rest = s[:end], s[end:]
	after := strings.TrimLeft(rest, " \t\r\n\f")
	if after == "" || after[0] != ':' && after[0] != '=' {
		return word, false, rest
	}
	after = after[1:]
	number := after != "" && isDecimal(after[0]) && !isValued(word) && !strings.EqualFold(word, "unavailable_after")
	return word, !number && strings.Trim(word, "0123456789.-+/") != "", after
}

func isWordByte(c rune) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '*' || c == '.' || c == '/' || c == '+'
}
