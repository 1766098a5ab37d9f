package fetch

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MaxRetryAfter is the upper limit of a site's Retry-After.
const MaxRetryAfter = 24 * time.Hour

// RetryAfter returns the delay after now that the Retry-After field requests, in seconds or as a
// date: between 0 and MaxRetryAfter, 0 also if it is missing or invalid. A fraction of a second,
// which is not standard, is rounded up.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	whole, fraction, _ := strings.Cut(v, ".")
	n, err := strconv.ParseUint(whole, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) { // any number of digits is valid (RFC 9110, 10.2.3)
		if n < 1<<63 && strings.Trim(fraction, "0") != "" {
			n++
		}
		return time.Duration(min(n, uint64(MaxRetryAfter/time.Second))) * time.Second
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), MaxRetryAfter)
}
