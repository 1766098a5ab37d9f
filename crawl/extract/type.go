package extract

import (
	"net/http"
	"strings"
)

// IsHTML reports whether a body is HTML or XHTML. The header decides; where it is missing or says nothing, the first bytes do, by the
// patterns of the MIME Sniffing standard. What is declared as anything else is never extracted.
func IsHTML(contentType string, body []byte) bool {
	switch mediaType(contentType) {
	case "text/html", "application/xhtml+xml":
		return true
	case "", "*/*", "unknown/unknown", "application/unknown":
		return strings.HasPrefix(http.DetectContentType(body), "text/html")
	default:
		return false
	}
}

func isXHTML(contentType string) bool { return mediaType(contentType) == "application/xhtml+xml" }

// mediaType returns the type without its parameters, in lower case.
func mediaType(contentType string) string {
	essence, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(essence))
}
