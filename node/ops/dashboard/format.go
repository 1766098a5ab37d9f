package dashboard

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// digits formats a number with about three digits.
func digits(n float64) string {
	switch {
	case n == math.Trunc(n) && n < 1e4:
		return strconv.FormatFloat(n, 'f', 0, 64)
	case n < 10:
		return strings.TrimSuffix(strconv.FormatFloat(n, 'f', 2, 64), "0")
	case n < 100:
		return strconv.FormatFloat(n, 'f', 1, 64)
	default:
		return strconv.FormatFloat(n, 'f', 0, 64)
	}
}

// countText formats a count, abbreviated if large.
func countText(n float64) string {
	switch {
	case n >= 1e9:
		return digits(n/1e9) + " G"
	case n >= 1e6:
		return digits(n/1e6) + " M"
	case n >= 1e4:
		return digits(n/1e3) + " k"
	default:
		return digits(n)
	}
}

// spanText formats a duration in its two largest units.
func spanText(d time.Duration) string {
	s := int64(d.Seconds())
	switch {
	case s < 60:
		return fmt.Sprintf("%d s", max(s, 0))
	case s < 3600:
		return fmt.Sprintf("%d min", s/60)
	case s < 86400:
		return fmt.Sprintf("%d h %d min", s/3600, s/60%60)
	default:
		return fmt.Sprintf("%d d %d h", s/86400, s/3600%24)
	}
}

// rttText formats a round trip time in milliseconds.
func rttText(ms float64) string {
	switch {
	case ms <= 0:
		return "–"
	case ms < 10:
		return strconv.FormatFloat(ms, 'f', 2, 64) + " ms"
	case ms < 100:
		return strconv.FormatFloat(ms, 'f', 1, 64) + " ms"
	default:
		return strconv.FormatFloat(ms, 'f', 0, 64) + " ms"
	}
}

// untilText formats an end time, with the day if it is not today.
func untilText(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	switch {
	case t.YearDay() == now.YearDay() && t.Year() == now.Year():
		return t.Format("15:04")
	case t.Sub(now) < 6*24*time.Hour:
		return t.Format("Monday 15:04")
	default:
		return t.Format("2 January 15:04")
	}
}
