package volunteer

import "time"

// Ledger counts the bytes of a day and of a month of the local calendar. It is kept on disk as
// JSON.
type Ledger struct {
	// Date is the day that is counted, as 2006-01-02.
	Date  string `json:"date"`
	Day   int64  `json:"day"`   // bytes of that day
	Month int64  `json:"month"` // bytes of its month
	// Pages were fetched that day, WorkS is for how many seconds there was something to fetch.
	Pages int64   `json:"pages"`
	WorkS float64 `json:"work_s"` // seconds
	// All and AllPages count bytes and pages since the data directory was made.
	All      int64 `json:"all"`
	AllPages int64 `json:"all_pages"`
}

const (
	dateLayout = time.DateOnly
	monthLen   = len("2006-01")
	// clockBack is how far a clock may be put back without beginning another day: one that is
	// corrected about midnight would begin it twice.
	clockBack = 48 * time.Hour
)

// Add counts bytes that came or went since the last Add, and begins a new day, and a new month,
// when the calendar says so.
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

// justAhead says whether the day that is counted has yet to begin, and soon does.
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
