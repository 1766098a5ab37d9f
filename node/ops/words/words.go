package words

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// Short abbreviates a peer ID or key.
func Short(id string) string {
	if len(id) <= 12 {
		return id
	}
	return id[len(id)-8:]
}

// Named appends the name of a peer, if known, to a text.
func Named(text, name string) string {
	if name == "" {
		return text
	}
	return text + " (" + name + ")"
}

// Key abbreviates a position on the ring.
func Key(hex string) string { return hex[:min(8, len(hex))] }

// OrDash returns a table cell, a dash if it is empty.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Bytes formats a size with one decimal.
func Bytes(n int64) string { return scaled(n, 1024, "KMGTPE", "iB") }

// Rate formats bytes per second.
func Rate(n int64) string { return scaled(n, 1000, "kMGTPE", "B") + "/s" }

func scaled(n, unit int64, prefixes, suffix string) string {
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	div, exp := unit, 0
	for m := n / unit; m >= unit; m /= unit {
		div *= unit
		exp++
	}
	return fmt.Sprintf("%.1f %c%s", float64(n)/float64(div), prefixes[exp], suffix)
}

// Seconds formats a number of seconds, which a peer may set to any value, within 0 and 100 years.
func Seconds(s float64) string {
	const century = 100 * 365 * 24 * 3600
	switch {
	case s > century:
		return "over 100 years"
	case !(s > 0):
		s = 0
	}
	return (time.Duration(s*1000) * time.Millisecond).Round(100 * time.Millisecond).String()
}

// Until formats the end of something as local time and remaining duration.
func Until(until, now time.Time) string {
	if until.IsZero() {
		return ""
	}
	at := until.In(now.Location())
	layout := "Mon 2 Jan 15:04"
	if at.Format(time.DateOnly) == now.Format(time.DateOnly) {
		layout = "15:04:05"
	}
	return fmt.Sprintf(" (%s, in %s)", at.Format(layout), max(at.Sub(now).Round(time.Second), 0))
}

// Number formats a number for a table cell.
func Number(n int64) string { return fmt.Sprint(n) }

// Thousands formats a number with commas.
func Thousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Counted formats a number of things.
func Counted(n int64, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return Thousands(n) + " " + word + "s"
}

var one = regexp.MustCompile(`(^|[^.,\d])1 ((?:distinct )?(?:page|duplicate|redirect|error|host|peer|member|worker|URL|link|record|outcome|request|overlap|violation|download|byte|update|file|seed|index line|unreadable record|unreadable byte|trailing byte))s\b`)

// Singular corrects counts of one in a text: 1 host, not 1 hosts.
func Singular(text string) string { return one.ReplaceAllString(text, "${1}1 $2") }

// Nearest suggests the known word with the smallest edit distance, at most a third of the length.
func Nearest(word string, known []string) string {
	best, at := min(4, (len(word)+2)/3+1), ""
	for _, k := range known {
		if d := editDistance(word, k); d < best {
			best, at = d, k
		}
	}
	if at == "" {
		return ""
	}
	return ", did you mean " + at + "?"
}

func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
