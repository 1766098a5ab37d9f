package fetch

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MaxRetryAfter is the longest that a site is believed to want to be left alone.
const MaxRetryAfter = 24 * time.Hour

// RetryAfter returns how long after now the Retry-After field asks to wait, given as seconds or as
// a date: between 0 and MaxRetryAfter, 0 also if there is none or it cannot be read. A fraction of
// a second, which no standard has, is rounded up.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	whole, fraction, _ := strings.Cut(v, ".")
	n, err := strconv.ParseUint(whole, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) { // any number of digits is a number of seconds (RFC 9110, 10.2.3)
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
