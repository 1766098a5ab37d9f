package link

import "strings"

// WithScheme adds http:// to a URL without a scheme, such as example.org.
func WithScheme(u string) string {
	u = strings.TrimSpace(u)
	if !strings.Contains(u, "://") {
		return "http://" + u
	}
	return u
}
