package volunteer

import "time"

// Ledger counts the traffic of a day and of a month of the local calendar. It is stored as JSON.
type Ledger struct {
	// Date is the day that is counted, as 2006-01-02.
	Date  string `json:"date"`
	Day   int64  `json:"day"`   // bytes of that day
	Month int64  `json:"month"` // bytes of its month
	// Pages were fetched that day; WorkS is the time with work, in seconds.
	Pages int64   `json:"pages"`
	WorkS float64 `json:"work_s"` // seconds
	// All and AllPages count bytes and pages since the data directory was created.
	All      int64 `json:"all"`
	AllPages int64 `json:"all_pages"`
}

const (
	dateLayout = time.DateOnly
	monthLen   = len("2006-01")
	// clockBack is how far a clock may be set back without starting another day; a correction near
	// midnight would start it twice.
	clockBack = 48 * time.Hour
)

// Add counts bytes of traffic since the last Add, and starts a new day and month by the calendar.
func (l *Ledger) Add(now time.Time, bytes int64) {
	if today := now.Format(dateLayout); today != l.Date && !l.justAhead(now) {
		if len(l.Date) < monthLen || today[:monthLen] != l.Date[:monthLen] {
			l.Month = 0
		}
		l.Date, l.Day, l.Pages, l.WorkS = today, 0, 0, 0
	}
	l.Day += bytes
	l.Month += bytes
	l.All += bytes
}

// justAhead reports whether the counted day begins within clockBack after now.
func (l *Ledger) justAhead(now time.Time) bool {
	begins, err := time.ParseInLocation(dateLayout, l.Date, now.Location())
	return err == nil && begins.After(now) && begins.Sub(now) < clockBack
}

// Did counts pages and time at work since the last Did, for the day that Add counts.
func (l *Ledger) Did(pages int64, work time.Duration) {
	l.Pages += pages
	l.AllPages += pages
	l.WorkS += work.Seconds()
}
