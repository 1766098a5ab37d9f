package volunteer

import (
	"fmt"
	"time"

	"github.com/apoidea/apoidea/node/control"
)

// Fact is a property of the system, if known.
type Fact uint8

// The facts.
const (
	Unknown Fact = iota
	No
	Yes
)

// String returns unknown, no or yes.
func (f Fact) String() string { return [...]string{"unknown", "no", "yes"}[min(f, Yes)] }

// Observed is the last observation of the machine.
type Observed struct {
	// Battery reports battery power, Metered a metered link.
	Battery, Metered Fact
	// Idle is the time without keyboard or mouse input, if IdleKnown.
	Idle      time.Duration
	IdleKnown bool // the system reports Idle
	// Disk is the size of the data directory, in bytes.
	Disk int64
	// Heap is the live heap in bytes, without page bodies, which have their own limit.
	Heap int64
}

// Pause is a pause by the user. With a zero Until it lasts until resumed.
type Pause struct {
	On    bool      `json:"on"`    // it is set
	Until time.Time `json:"until"` // its end; zero: none
}

// Holds reports whether the pause is active.
func (p Pause) Holds(now time.Time) bool { return p.On && (p.Until.IsZero() || now.Before(p.Until)) }

// ByUser is the rule name of a pause by the user; other holds have the name of their key.
const ByUser = "user"

// Hold is an active rule.
type Hold = control.Hold

// Decision is the state of the limits at one moment.
type Decision struct {
	// Paused reports that fetching is paused. Holds lists pausing rules first.
	Paused bool
	Holds  []Hold // active rules
	// Bandwidth and BandwidthUp are in bytes per second, 0 for no limit; Fetchers is the maximum of
	// concurrent fetches.
	Bandwidth, BandwidthUp int64
	Fetchers               int // at least 1
}

// Pausing returns the first hold that pauses; false if none does.
func (d *Decision) Pausing() (Hold, bool) {
	if !d.Paused {
		return Hold{}, false
	}
	return d.Holds[0], true
}

// crowded is the share of the memory limit from which the peer is throttled; calm is the divisor of
// its fetchers then.
const (
	crowded = 0.7
	calm    = 4
)

// Decide applies the rules at now. The ledger must be up to date.
func Decide(now time.Time, r *Rules, p Pause, o *Observed, l *Ledger) Decision {
	d := Decision{Bandwidth: r.Bandwidth, BandwidthUp: r.UpCap(), Fetchers: r.Fetchers}
	var slow []Hold
	pause := func(h Hold) {
		h.Effect = control.EffectPause
		d.Holds = append(d.Holds, h)
	}
	if p.Holds(now) {
		h := Hold{Rule: ByUser, Why: "paused by you", Ends: "`apoidea resume`", Until: p.Until}
		if !p.Until.IsZero() {
			h.Ends = "it expires, or `apoidea resume`"
		}
		pause(h)
	}
	if open, until := r.Schedule.Open(now); !open {
		h := Hold{Rule: KeySchedule, Why: fmt.Sprintf("outside the schedule %q", r.Schedule), Ends: "the schedule allows it", Until: until}
		if r.Outside == 0 {
			pause(h)
		} else {
			d.Bandwidth, d.BandwidthUp = lower(d.Bandwidth, r.Outside), lower(d.BandwidthUp, r.Outside)
			h.Effect = control.EffectSlow
			slow = append(slow, h)
		}
	}
	if r.PauseOnBattery && o.Battery == Yes {
		pause(Hold{Rule: KeyPauseOnBattery, Why: "the machine is on battery power", Ends: "it is plugged in"})
	}
	if r.PauseOnMetered && o.Metered == Yes {
		pause(Hold{Rule: KeyPauseOnMetered, Why: "the connection is metered", Ends: "it is unmetered"})
	}
	if r.OnlyWhenIdle > 0 && o.IdleKnown && o.Idle < r.OnlyWhenIdle {
		pause(Hold{
			Rule: KeyOnlyWhenIdle, Why: fmt.Sprintf("user input within the last %v", r.OnlyWhenIdle),
			Ends: "the machine is idle that long", Until: now.Add(r.OnlyWhenIdle - o.Idle),
		})
	}
	if over(l.Day, r.QuotaDay) {
		pause(Hold{Rule: KeyQuotaDay, Why: "the daily quota of " + SizeText(r.QuotaDay) + " is used up", Ends: "the next day begins", Until: nextDay(now)})
	}
	if over(l.Month, r.QuotaMonth) {
		pause(Hold{Rule: KeyQuotaMonth, Why: "the monthly quota of " + SizeText(r.QuotaMonth) + " is used up", Ends: "the next month begins", Until: nextMonth(now)})
	}
	if over(o.Disk, r.DiskQuota) {
		pause(Hold{Rule: KeyDiskQuota, Why: "the data directory has reached " + SizeText(r.DiskQuota), Ends: "the quota is raised or the directory shrinks"})
	}
	if r.Memory > 0 && float64(o.Heap) > crowded*float64(r.Memory) {
		d.Fetchers = max(1, d.Fetchers/calm)
		slow = append(slow, Hold{Rule: KeyMemory, Effect: control.EffectSlow, Why: "the heap is near its limit of " + SizeText(r.Memory), Ends: "it shrinks"})
	}
	d.Paused = len(d.Holds) > 0
	d.Holds = append(d.Holds, slow...)
	return d
}

// over reports whether a quota is set and used up.
func over(used, quota int64) bool { return quota > 0 && used >= quota }

// lower returns the smaller of two limits; the first may be none.
func lower(bound, other int64) int64 {
	if bound == 0 {
		return other
	}
	return min(bound, other)
}

func nextDay(now time.Time) time.Time {
	y, m, d := now.Date()
	return time.Date(y, m, d+1, 0, 0, 0, 0, now.Location())
}

func nextMonth(now time.Time) time.Time {
	y, m, _ := now.Date()
	return time.Date(y, m+1, 1, 0, 0, 0, 0, now.Location())
}

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

// Pacer limits processor time: it decides when to pause so that usage stays at a share.
type Pacer struct {
	last   time.Time
	used   time.Duration
	credit time.Duration
}

// pacerBurst is the wall time for which unused credit is kept: an idle hour must not allow an hour
// at full speed.
const pacerBurst = time.Second

// Rest reports whether to pause until the next call, for a share in cores and the CPU time that the
// process has used since its start. A share of 0 never pauses. The first call only records its
// arguments.
func (p *Pacer) Rest(now time.Time, share float64, used time.Duration) bool {
	since, spent := now.Sub(p.last), used-p.used
	first := p.last.IsZero()
	p.last, p.used = now, used
	if share <= 0 || first || since < 0 || spent < 0 {
		p.credit = 0
		return false
	}
	most := time.Duration(share * float64(pacerBurst))
	p.credit += time.Duration(share*float64(since)) - spent
	// Debt of work that cannot pause is limited, or the peer would stop for a long time after it.
	p.credit = min(max(p.credit, -10*most), most)
	return p.credit < 0
}
