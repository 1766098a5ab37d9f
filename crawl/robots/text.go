package robots

import (
	"bytes"

	"golang.org/x/text/encoding/unicode"
)

// asUTF8 decodes a body in UTF-16, as written by some editors. It is detected by its byte order
// mark, or by two ASCII characters of which every other byte is zero. RFC 9309 requires UTF-8, and
// read as that it would be a file without rules.
func asUTF8(body []byte) []byte {
	order, found := byteOrder(body)
	if !found {
		return body
	}
	// The decoder returns no error: it replaces invalid text by U+FFFD.
	text, _ := unicode.UTF16(order, unicode.UseBOM).NewDecoder().Bytes(body)
	return text
}

func byteOrder(body []byte) (order unicode.Endianness, found bool) {
	zeros := func(first, second bool) bool {
		return len(body) >= 4 && (body[0] == 0) == first && (body[1] == 0) == second && (body[2] == 0) == first && (body[3] == 0) == second
	}
	switch {
	case bytes.HasPrefix(body, []byte("\xff\xfe")), zeros(false, true):
		return unicode.LittleEndian, true
	case bytes.HasPrefix(body, []byte("\xfe\xff")), zeros(true, false):
		return unicode.BigEndian, true
	default:
		return unicode.BigEndian, false
	}
}
