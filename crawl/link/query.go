package link

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"golang.org/x/text/encoding"
)

// encodeQuery encodes the query of an http href in a document's encoding (URL standard,
// "percent-encode after encoding"), so that the parser, which supports UTF-8 only, receives ASCII.
// Characters missing from the encoding become numeric character references, as in browsers.
func encodeQuery(href []byte, enc encoding.Encoding) []byte {
	mark := bytes.IndexByte(href, '?')
	if mark < 0 || isASCII(href[mark:]) {
		return href
	}
	// White space that the parser would remove must not reach the encoder.
	text := bytes.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || r == '\r' {
			return -1
		}
		return r
	}, href[mark+1:])
	number := bytes.HasSuffix(text, []byte("#"))
	text = bytes.TrimSuffix(text, []byte("#"))

	out := append([]byte(nil), href[:mark+1]...)
	if whole, err := enc.NewEncoder().Bytes(text); err == nil {
		out = appendEncoded(out, whole)
	} else {
		out = appendRunes(out, text, enc)
	}
	if number {
		out = append(out, '#')
	}
	return out
}

// appendRunes encodes character by character.
func appendRunes(dst, text []byte, enc encoding.Encoding) []byte {
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if coded, err := enc.NewEncoder().Bytes(text[:n]); err == nil && r != utf8.RuneError {
			dst = appendEncoded(dst, coded)
		} else {
			dst = fmt.Appendf(dst, "%%26%%23%d%%3B", r)
		}
		text = text[n:]
	}
	return dst
}

// appendEncoded percent-encodes by the special-query set.
func appendEncoded(dst, coded []byte) []byte {
	const digits = "0123456789ABCDEF"
	for _, c := range coded {
		if c <= ' ' || c > '~' || c == '"' || c == '#' || c == '<' || c == '>' || c == '\'' {
			dst = append(dst, '%', digits[c>>4], digits[c&0xf])
		} else {
			dst = append(dst, c)
		}
	}
	return dst
}

func isASCII(s []byte) bool {
	for _, c := range s {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
