package volunteer

import (
	"testing"
	"time"
)

// at is a moment of the week of Monday 2 March 2026.
func at(t *testing.T, text string, loc *time.Location) time.Time {
	t.Helper()
	moment, err := time.ParseInLocation("Mon 15:04", text, loc)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"} {
		if text[:3] == name {
			return time.Date(2026, 3, 2+i, moment.Hour(), moment.Minute(), 0, 0, loc)
		}
	}
	t.Fatalf("no day in %q", text)
	return time.Time{}
}

func TestScheduleOpen(t *testing.T) {
	for _, c := range []struct {
		name, schedule, now string
		open                bool
		until               string // empty: never
	}{
		{"no schedule", "", "Mon 12:00", true, ""},
		{"always", "always", "Mon 12:00", true, ""},
		{"before", "09:00-17:00", "Mon 08:00", false, "Mon 09:00"},
		{"at its beginning", "09:00-17:00", "Mon 09:00", true, "Mon 17:00"},
		{"at its end", "09:00-17:00", "Mon 17:00", false, "Tue 09:00"},
		{"over midnight, evening", "mon-fri 22:00-07:00", "Mon 23:00", true, "Tue 07:00"},
		{"over midnight, morning", "mon-fri 22:00-07:00", "Tue 06:59", true, "Tue 07:00"},
		{"the night of a day that is not named", "mon-fri 22:00-07:00", "Mon 03:00", false, "Mon 22:00"},
		{"the night that began on a day that is named", "mon-fri 22:00-07:00", "Sat 03:00", true, "Sat 07:00"},
		{"days alone", "sat,sun", "Sat 00:00", true, "Mon 00:00"},
		{"until the next week", "mon", "Tue 00:00", false, "Mon 00:00"},
		{"days around the week's end", "fri-mon 10:00-11:00", "Sun 10:30", true, "Sun 11:00"},
		{"windows that touch are one", "mon 08:00-10:00; mon 10:00-12:00", "Mon 09:00", true, "Mon 12:00"},
		{"windows that overlap are one", "mon 08:00-11:00; mon 10:00-12:00", "Mon 09:00", true, "Mon 12:00"},
		{"several", "mon-fri 22:00-07:00; sat,sun", "Fri 23:00", true, "Mon 00:00"},
		{"the whole week by windows", "mon-sun 00:00-24:00", "Wed 12:00", true, ""},
		{"upper case", "Mon-Fri 22:00-07:00", "Mon 23:00", true, "Tue 07:00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := ParseSchedule(c.schedule)
			if err != nil {
				t.Fatal(err)
			}
			now := at(t, c.now, time.UTC)
			open, until := s.Open(now)
			if open != c.open {
				t.Errorf("open %v at %s, want %v", open, c.now, c.open)
			}
			var want time.Time
			if c.until != "" {
				if want = at(t, c.until, time.UTC); !want.After(now) {
					want = want.AddDate(0, 0, 7)
				}
			}
			if !until.Equal(want) {
				t.Errorf("until %s, want %s", until, want)
			}
		})
	}
}

// TestScheduleClockChange: the night on which the clock is put forward is an hour shorter, and
// windows keep to the wall clock.
func TestScheduleClockChange(t *testing.T) {
	loc, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("no time zones on this machine:", err)
	}
	s, err := ParseSchedule("22:00-07:00")
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Date(2026, 3, 28, 22, 0, 0, 0, loc) // the clock goes from 02:00 to 03:00 on the 29th
	open, until := s.Open(begin)
	if want := time.Date(2026, 3, 29, 7, 0, 0, 0, loc); !open || !until.Equal(want) || until.Sub(begin) != 8*time.Hour {
		t.Errorf("open %v until %v, want 8 hours until %v", open, until, want)
	}
}

func TestScheduleErrors(t *testing.T) {
	for name, text := range map[string]string{
		"no such day":     "mo 10:00-11:00",
		"no such hour":    "25:00-26:00",
		"no minutes":      "10-11",
		"one time":        "mon 10:00",
		"nothing between": "10:00-10:00",
		"at the end":      "24:00-07:00",
		"three words":     "mon tue 10:00-11:00",
		"signs":           "+1:00-10:00",
		"only semicolons": ";;",
	} {
		if _, err := ParseSchedule(text); err == nil {
			t.Errorf("%s: %q was taken", name, text)
		}
	}
}

func FuzzParseSchedule(f *testing.F) {
	for _, s := range []string{"", "always", "mon-fri 22:00-07:00; sat,sun", "sun-mon 00:00-24:00", "mon,;", "22:00-07:00", "mon-"} {
		f.Add(s)
	}
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSchedule(text)
		if err != nil {
			return
		}
		again, err := ParseSchedule(s.String())
		if err != nil {
			t.Fatalf("%q was read, and its text %q is not: %v", text, s, err)
		}
		open, until := s.Open(now)
		if o, u := again.Open(now); o != open || !u.Equal(until) {
			t.Fatalf("%q and its text %q differ", text, s)
		}
		if !until.IsZero() {
			if after, _ := s.Open(until); after == open {
				t.Fatalf("%q: nothing changes at %v", text, until)
			}
		}
	})
}
