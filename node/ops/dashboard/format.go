package dashboard

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// thousands formats an integer with thin spaces between groups of three digits.
func thousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, text = "−", text[1:]
	}
	var b strings.Builder
	for i, c := range text {
		if i > 0 && (len(text)-i)%3 == 0 {
			b.WriteRune('\u202f')
		}
		b.WriteRune(c)
	}
	return sign + b.String()
}

// short returns the last eight characters of a peer ID.
func short(peer string) string { return peer[max(0, len(peer)-8):] }

// bytesText and rateText format a size and a rate with three digits, in the units of all commands.
func bytesText(n float64) string { return scaled(n, 1024, "KMGTPE", "iB") }

func rateText(n float64) string { return scaled(n, 1000, "kMGTPE", "B") + "/s" }

func scaled(n, unit float64, prefixes, suffix string) string {
	if n < 1000 {
		return strconv.FormatFloat(n, 'f', 0, 64) + " B"
	}
	i := -1
	for ; n >= 999.5 && i < len(prefixes)-1; i++ {
		n /= unit
	}
	return digits(n) + " " + prefixes[i:i+1] + suffix
}

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
