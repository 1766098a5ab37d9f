package volunteer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// maxWindows limits the windows of a schedule: twice the hours of a week.
	maxWindows = 336
	// maxScheduleText limits the text of a schedule, in bytes.
	maxScheduleText = 16 << 10

	day = 24 * 60 // minutes
)

// Schedule is the hours of the week in which a peer may fetch; without windows, always. Its text is
// the input of ParseSchedule.
type Schedule struct {
	text    string
	windows []window
}

// window is a span of minutes on certain days; beyond midnight it belongs to the day on which it
// began.
type window struct {
	days     [7]bool // by time.Weekday
	from, to int     // minutes of the day; to is larger than from and may lie in the next day
}

var dayNames = [7]string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// ParseSchedule parses windows separated by semicolons, such as "mon-fri 22:00-07:00; sat,sun".
// Days alone are whole days, hours alone apply to every day, and hours that end before they begin
// end the next day.
func ParseSchedule(text string) (Schedule, error) {
	if len(text) > maxScheduleText {
		return Schedule{}, fmt.Errorf("longer than %d bytes", maxScheduleText)
	}
	s := Schedule{text: strings.TrimSpace(text)}
	if s.text == "" || s.text == "always" {
		return Schedule{}, nil
	}
	for part := range strings.SplitSeq(s.text, ";") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		w, err := parseWindow(strings.ToLower(part))
		if err != nil {
			return Schedule{}, fmt.Errorf("%.60q: %w", part, err)
		}
		if s.windows = append(s.windows, w); len(s.windows) > maxWindows {
			return Schedule{}, fmt.Errorf("more than %d windows", maxWindows)
		}
	}
	if len(s.windows) == 0 {
		return Schedule{}, errors.New("contains no window")
	}
	return s, nil
}

// String returns the text of the schedule, or always if it has no windows.
func (s Schedule) String() string {
	if s.text == "" {
		return "always"
	}
	return s.text
}

func parseWindow(part string) (w window, err error) {
	w.to = day
	fields := strings.Fields(part)
	hours := ""
	switch {
	case len(fields) == 1 && strings.Contains(fields[0], ":"):
		w.days, hours = [7]bool{true, true, true, true, true, true, true}, fields[0]
	case len(fields) == 1 || len(fields) == 2:
		if w.days, err = parseDays(fields[0]); err != nil {
			return w, err
		}
		if len(fields) == 2 {
			hours = fields[1]
		}
	default:
		return w, errors.New("expected days and hours, such as mon-fri 22:00-07:00")
	}
	if hours == "" {
		return w, nil
	}
	from, to, ok := strings.Cut(hours, "-")
	if !ok {
		return w, fmt.Errorf("hours %q: must be FROM-TO, such as 22:00-07:00", hours)
	}
	if w.from, err = parseMinute(from); err == nil {
		w.to, err = parseMinute(to)
	}
	if err != nil {
		return w, err
	}
	if w.from == w.to || w.from == day {
		return w, fmt.Errorf("hours %q: begin and end are equal; a whole day is 00:00-24:00", hours)
	}
	if w.to < w.from {
		w.to += day
	}
	return w, nil
}

func parseDays(s string) (days [7]bool, err error) {
	for part := range strings.SplitSeq(s, ",") {
		first, last, ranged := strings.Cut(part, "-")
		from, err := parseDay(first)
		if err != nil {
			return days, err
		}
		to := from
		if ranged {
			if to, err = parseDay(last); err != nil {
				return days, err
			}
		}
		for d := from; ; d = (d + 1) % 7 {
			days[d] = true
			if d == to {
				break
			}
		}
	}
	return days, nil
}

func parseDay(s string) (int, error) {
	for i, name := range dayNames {
		if s == name {
			return i, nil
		}
	}
	return 0, fmt.Errorf("day %q: must be one of mon, tue, wed, thu, fri, sat, sun", s)
}

// parseMinute parses HH:MM, up to 24:00.
func parseMinute(s string) (int, error) {
	var h, m int
	if len(s) != 5 || s[2] != ':' || !digits(s[:2]) || !digits(s[3:]) {
		return 0, fmt.Errorf("time %q: must be HH:MM", s)
	}
	h, m = int(s[0]-'0')*10+int(s[1]-'0'), int(s[3]-'0')*10+int(s[4]-'0')
	if h > 24 || m > 59 || h == 24 && m > 0 {
		return 0, fmt.Errorf("time %q: must be between 00:00 and 24:00", s)
	}
	return h*60 + m, nil
}

func digits(s string) bool {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// Open reports whether now lies in a window, in its time zone, and until when; the zero time means
// always.
func (s Schedule) Open(now time.Time) (open bool, until time.Time) {
	if len(s.windows) == 0 {
		return true, time.Time{}
	}
	open = s.in(now)
	// A week and a day of edges hold the next change if there is one.
	for offset := -1; offset <= 8; offset++ {
		for _, w := range s.windows {
			for _, minute := range []int{w.from, w.to} {
				edge := atMinute(now, offset, minute)
				if edge.After(now) && (until.IsZero() || edge.Before(until)) && s.in(edge) != open {
					until = edge
				}
			}
		}
	}
	return open, until
}

// atMinute returns a minute of the day that is days after now. A minute skipped by daylight saving
// time is the one an hour later.
func atMinute(now time.Time, days, minute int) time.Time {
	y, m, d := now.Date()
	return time.Date(y, m, d+days, 0, minute, 0, 0, now.Location())
}

func (s Schedule) in(t time.Time) bool {
	minute := t.Hour()*60 + t.Minute()
	today := int(t.Weekday())
	yesterday := (today + 6) % 7
	return slices.ContainsFunc(s.windows, func(w window) bool {
		return w.days[today] && minute >= w.from && minute < w.to || w.days[yesterday] && minute+day < w.to
	})
}
