package control

import "time"

// lastDay is the last time that JSON can represent, in Unix milliseconds: the year 9999.
const lastDay = 253_402_300_799_999

// Calendar converts a time from another peer's record; it returns the zero time for none, and for
// one that JSON cannot represent.
func Calendar(ms int64) time.Time {
	if ms <= 0 || ms > lastDay {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
