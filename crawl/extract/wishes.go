package extract

import "strings"

// robotsTag obeys one X-Robots-Tag: directives for all, or behind "name:" for the crawler of that
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
			// Its date's words are no directives, and its numbers no names.
		case isValued(word):
			_, _, words = nextWord(words)
		default:
			mine = isName(word, agent)
		}
	}
}

// directives obeys a list of robots directives in a meta element, which are for us whatever names
// they hold.
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

// directive obeys one word; of most there is nothing to obey.
func (p *Page) directive(word string) {
	none := strings.EqualFold(word, "none")
	p.NoIndex = p.NoIndex || none || strings.EqualFold(word, "noindex")
	p.NoFollow = p.NoFollow || none || strings.EqualFold(word, "nofollow")
}

// isDirective reports whether a word is one of those that we obey, and so no name, whatever follows
// it.
func isDirective(word string) bool {
	return strings.EqualFold(word, "none") || strings.EqualFold(word, "noindex") || strings.EqualFold(word, "nofollow")
}

// isValued reports whether a word is a directive whose next word is its value, which may be called
// as another directive: max-image-preview: none.
func isValued(word string) bool {
	return len(word) > 4 && strings.EqualFold(word[:4], "max-")
}

// isName reports whether the name in front of directives means us: with its version behind a slash
// or without.
func isName(word, agent string) bool {
	name, _, _ := strings.Cut(word, "/")
	return name == "*" || strings.EqualFold(name, "robots") || agent != "" && strings.EqualFold(name, agent)
}

// nextWord splits the first word off a list. Commas, semicolons, white space and whatever else is
// no part of a word stand between them. named says that a colon (or an equals sign) follows, as
// behind a name or a directive with a value; in front of a digit it is a time's, and a number is no
// name.
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
