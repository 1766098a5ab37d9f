package fetch_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/fetch"
)

// FuzzRetryAfter: whatever a site writes asks for a wait within bounds, and a later clock never for
// a longer one.
func FuzzRetryAfter(f *testing.F) {
	for _, value := range []string{
		"", "120", " 120 ", "1.5", "0", "-1", "99999999999999999999999", "9223372036854775807.9", "soon", "Sun, 01 Mar 2026 12:30:00 GMT",
		"Sunday, 01-Mar-26 12:30:00 GMT", "Sun Mar  1 12:30:00 2026", "Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 GMT",
	} {
		f.Add(value)
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, value string) {
		h := http.Header{"Retry-After": {value}}
		wait, later := fetch.RetryAfter(h, now), fetch.RetryAfter(h, now.Add(time.Minute))
		if wait < 0 || wait > fetch.MaxRetryAfter || later < 0 || later > wait {
			t.Errorf("%q: %v, a minute later %v", value, wait, later)
		}
	})
}
