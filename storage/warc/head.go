package warc

import "bytes"

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

// mimeOf returns the media type of a response without parameters, or "unk" as in indexes.
func mimeOf(head []byte) string {
	const unknown = "unk"
	for line := range bytes.Lines(head) {
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || !bytes.EqualFold(name, []byte("Content-Type")) {
			continue
		}
		if i := bytes.IndexAny(value, ";,"); i >= 0 { // a comma joins repeated headers
			value = value[:i]
		}
		value = bytes.ToLower(bytes.TrimSpace(value))
		if len(value) == 0 || hasControl(string(value)) {
			return unknown
		}
		return string(value)
	}
	return unknown
}
