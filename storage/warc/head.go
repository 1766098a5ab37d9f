package warc

import (
	"bytes"
	"strconv"
)

// originalPrefix marks fields of a head that described the body on the wire and not the one that is stored.
const originalPrefix = "X-Orig-"

// appendHead appends head as it fits the stored body: chunks are joined always, the content coding is undone where
// decoded says so. It ends with exactly one empty line, whatever the server sent.
func appendHead(dst, head []byte, decoded bool, bodyLen int) []byte {
	rewritten := false
	for line := range bytes.Lines(head) {
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		name, _, _ := bytes.Cut(line, []byte(":"))
		switch {
		case bytes.EqualFold(name, []byte("Transfer-Encoding")),
			decoded && bytes.EqualFold(name, []byte("Content-Encoding")),
			decoded && bytes.EqualFold(name, []byte("Content-Length")):
			dst = append(dst, originalPrefix...)
			rewritten = true
		}
		dst = append(dst, line...)
		dst = append(dst, "\r\n"...)
	}
	if rewritten && decoded {
		dst = append(dst, "Content-Length: "...)
		dst = strconv.AppendInt(dst, int64(bodyLen), 10)
		dst = append(dst, "\r\n"...)
	}
	return append(dst, "\r\n"...)
}

// statusOf returns the three digits of a status line, or "-".
func statusOf(head []byte) string {
	line, _, _ := bytes.Cut(head, []byte("\n"))
	_, rest, _ := bytes.Cut(line, []byte(" "))
	if len(rest) < 3 {
		return "-"
	}
	for _, c := range rest[:3] {
		if c < '0' || c > '9' {
			return "-"
		}
	}
	return string(rest[:3])
}

// mimeOf returns the media type of a response without its parameters, or "unk", as indexes have it.
func mimeOf(head []byte) string {
	const unknown = "unk"
	for line := range bytes.Lines(head) {
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || !bytes.EqualFold(name, []byte("Content-Type")) {
			continue
		}
		value, _, _ = bytes.Cut(value, []byte(";"))
		value = bytes.ToLower(bytes.TrimSpace(value))
		if len(value) == 0 || hasControl(string(value)) {
			return unknown
		}
		return string(value)
	}
	return unknown
}
