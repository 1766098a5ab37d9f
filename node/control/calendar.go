package control

import "time"

// lastDay is the end of the calendar that JSON and people know, in Unix milliseconds: the
// year 9999.
const lastDay = 253_402_300_799_999

// Calendar is a time that some peer's clock, or a stranger, put into a record; the zero time for
// none, and for one that no calendar has, which JSON could not hold.
func Calendar(ms int64) time.Time {
	if ms <= 0 || ms > lastDay {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
