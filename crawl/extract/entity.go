package extract

import (
	"bytes"
	"html"
	"unicode/utf8"
)

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
