package extract

import (
	"iter"
	"net/http"
	"strings"
)

// IsHTML reports whether a body is HTML or XHTML. The header decides; if it is missing or empty,
// the first bytes do, by the patterns of the MIME Sniffing standard. Any other declared type is
// never extracted.
func IsHTML(contentType string, body []byte) bool {
	switch MediaType(contentType) {
	case "text/html", "application/xhtml+xml":
		return true
	case "", "*/*", "unknown/unknown", "application/unknown":
		return strings.HasPrefix(http.DetectContentType(body), "text/html")
	default:
		return false
	}
}

// ContentType returns the effective type of an answer's Content-Type headers (Fetch standard,
// "extract a MIME type"), with its charset if there is one. Some servers and proxies send the
// header twice, or join two in one: the last valid type counts, with the charset of an earlier one
// if that is the same type.
func ContentType(header http.Header) string {
	values := header["Content-Type"]
	if len(values) == 1 && strings.IndexByte(values[0], ',') < 0 {
		return values[0]
	}
	essence, charset := "", ""
	for _, value := range values {
		for part := range unquoted(value) {
			kind := MediaType(part)
			if major, minor, ok := strings.Cut(kind, "/"); !ok || major == "" || minor == "" || kind == "*/*" {
				continue
			}
			own := headerCharset(part)
			if own != "" || kind != essence {
				charset = own
			}
			essence = kind
		}
	}
	if charset != "" {
		return essence + "; charset=" + charset
	}
	return essence
}

// unquoted iterates over the parts separated by commas outside of quotes.
func unquoted(s string) iter.Seq[string] {
	return func(yield func(string) bool) {
		quoted, begin := false, 0
		for i := 0; i < len(s); i++ {
			switch {
			case s[i] == '"':
				quoted = !quoted
			case s[i] == '\\' && quoted:
				i++
			case s[i] == ',' && !quoted:
				if !yield(s[begin:i]) {
					return
				}
				begin = i + 1
			}
		}
		yield(s[begin:])
	}
}

func isXHTML(contentType string) bool { return MediaType(contentType) == "application/xhtml+xml" }

// MediaType returns the type without its parameters, in lower case. A space ends it too, as in
// browsers: some servers omit the semicolon.
func MediaType(contentType string) string {
	essence := strings.TrimLeft(contentType, " \t")
	if i := strings.IndexAny(essence, "; \t"); i >= 0 {
		essence = essence[:i]
	}
	return strings.ToLower(strings.TrimSpace(essence))
}
