package link

import "strings"

// WithScheme lets people write example.org for http://example.org.
func WithScheme(u string) string {
	u = strings.TrimSpace(u)
	if !strings.Contains(u, "://") {
		return "http://" + u
	}
	return u
}
