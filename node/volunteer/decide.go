package volunteer

import (
	"fmt"
	"time"
)

// Fact is what a system tells, if it does.
type Fact uint8

// The facts.
const (
	Unknown Fact = iota
	No
	Yes
)

// String is unknown, no or yes.
func (f Fact) String() string { return [...]string{"unknown", "no", "yes"}[min(f, Yes)] }

// Observed is what the machine told last.
type Observed struct {
	// Battery says whether the machine runs on it, Metered whether its link is paid by the byte.
	Battery, Metered Fact
	// Idle is for how long nobody has used keyboard or mouse, if IdleKnown.
	Idle      time.Duration
	IdleKnown bool // the machine tells
	// Disk is what lies in the data directory, in bytes.
	Disk int64
	// Heap is what the program's memory could not be collected below, in bytes, without what has a
	// bound of its own.
	Heap int64
}

// Pause is the pause by a person. With a zero Until it ends when it is ended.
type Pause struct {
	On    bool      `json:"on"`    // it holds
	Until time.Time `json:"until"` // when it ends by itself
}

// Holds says whether the pause still lasts.
func (p Pause) Holds(now time.Time) bool { return p.On && (p.Until.IsZero() || now.Before(p.Until)) }

// ByUser names the hold of a pause by a person; the others are named after their keys.
const ByUser = "user"

// Hold is a rule that holds now.
type Hold struct {
	Rule string // its key, or user for a Pause
	// Pauses says that nothing is fetched; otherwise the peer is only slowed.
	Pauses bool
	// Why and Ends read as one sentence with an until between them.
	Why, Ends string
	// Until is zero where no clock tells the end.
	Until time.Time
}

// Decision is what holds at one moment.
type Decision struct {
	// Paused says that nothing is fetched. Holds has those that pause first.
	Paused bool
	Holds  []Hold // rules that hold
	// Bandwidth and BandwidthUp are in bytes a second, 0 for no cap; Fetchers are exchanges at
	// once.
	Bandwidth, BandwidthUp int64
	Fetchers               int // at least 1
}

// Pausing is the first hold that pauses; false if none does.
func (d *Decision) Pausing() (Hold, bool) {
	if !d.Paused {
		return Hold{}, false
	}
	return d.Holds[0], true
}

// crowded is the share of the bound of memory beyond which what is in use slows the peer, calm the
// share of fetchers that it then has.
const (
	crowded = 0.7
	calm    = 4
)

// Decide says what holds now. The ledger must be of now.
func Decide(now time.Time, r *Rules, p Pause, o *Observed, l *Ledger) Decision {
	d := Decision{Bandwidth: r.Bandwidth, BandwidthUp: r.UpCap(), Fetchers: r.Fetchers}
	var slow []Hold
	pause := func(h Hold) {
		h.Pauses = true
		d.Holds = append(d.Holds, h)
	}
	if p.Holds(now) {
		h := Hold{Rule: ByUser, Why: "paused by you", Ends: "`apoidea resume`", Until: p.Until}
		if !p.Until.IsZero() {
			h.Ends = "it ends by itself, or `apoidea resume`"
		}
		pause(h)
	}
	if open, until := r.Schedule.Open(now); !open {
		h := Hold{Rule: KeySchedule, Why: fmt.Sprintf("outside of the hours %q", r.Schedule), Ends: "the next of these hours", Until: until}
		if r.Outside == 0 {
			pause(h)
		} else {
			d.Bandwidth, d.BandwidthUp = lower(d.Bandwidth, r.Outside), lower(d.BandwidthUp, r.Outside)
			slow = append(slow, h)
		}
	}
	if r.PauseOnBattery && o.Battery == Yes {
		pause(Hold{Rule: KeyPauseOnBattery, Why: "the machine runs on its battery", Ends: "it is plugged in"})
	}
	if r.PauseOnMetered && o.Metered == Yes {
		pause(Hold{Rule: KeyPauseOnMetered, Why: "the link is paid by the byte", Ends: "the machine has another link"})
	}
	if r.OnlyWhenIdle > 0 && o.IdleKnown && o.Idle < r.OnlyWhenIdle {
		pause(Hold{
			Rule: KeyOnlyWhenIdle, Why: fmt.Sprintf("somebody used the machine within the last %v", r.OnlyWhenIdle),
			Ends: "nobody has for that long", Until: now.Add(r.OnlyWhenIdle - o.Idle),
		})
	}
	if over(l.Day, r.QuotaDay) {
		pause(Hold{Rule: KeyQuotaDay, Why: "today's quota of " + SizeText(r.QuotaDay) + " is used up", Ends: "the next day begins", Until: nextDay(now)})
	}
	if over(l.Month, r.QuotaMonth) {
		pause(Hold{Rule: KeyQuotaMonth, Why: "this month's quota of " + SizeText(r.QuotaMonth) + " is used up", Ends: "the next month begins", Until: nextMonth(now)})
	}
	if over(o.Disk, r.DiskQuota) {
		pause(Hold{Rule: KeyDiskQuota, Why: "the data directory has reached " + SizeText(r.DiskQuota), Ends: "the quota is raised or the directory smaller"})
	}
	if r.Memory > 0 && float64(o.Heap) > crowded*float64(r.Memory) {
		d.Fetchers = max(1, d.Fetchers/calm)
		slow = append(slow, Hold{Rule: KeyMemory, Why: "memory is short of " + SizeText(r.Memory), Ends: "less of it is in use"})
	}
	d.Paused = len(d.Holds) > 0
	d.Holds = append(d.Holds, slow...)
	return d
}

// over says whether a quota that is set is used up.
func over(used, quota int64) bool { return quota > 0 && used >= quota }

// lower is the smaller of two bounds of which the first may be none.
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
