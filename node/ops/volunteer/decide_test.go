package volunteer

import (
	"slices"
	"testing"
	"time"

	"github.com/apoidea/apoidea/node/control"
)

func TestDecide(t *testing.T) {
	noon := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC) // a Wednesday
	night, err := ParseSchedule("22:00-07:00")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		rules Rules
		pause Pause
		seen  Observed
		used  Ledger
		// The holds by their rules, those that pause marked by a star.
		want  []string
		until time.Time // of the first
		// Caps, where they are not those of the rules.
		bandwidth int64
		fetchers  int
	}{
		{name: "nothing set"},
		{name: "by hand", pause: Pause{On: true}, want: []string{"*user"}},
		{name: "by hand for a while", pause: Pause{On: true, Until: noon.Add(time.Hour)}, want: []string{"*user"}, until: noon.Add(time.Hour)},
		{name: "by hand, over", pause: Pause{On: true, Until: noon}},
		{name: "outside of the hours", rules: Rules{Schedule: night}, want: []string{"*schedule"}, until: noon.Add(10 * time.Hour)},
		{name: "outside, slower", rules: Rules{Schedule: night, Bandwidth: 9000, Outside: 5000}, want: []string{"schedule"}, until: noon.Add(10 * time.Hour), bandwidth: 5000},
		{name: "outside, slower where no cap is", rules: Rules{Schedule: night, Outside: 5000}, want: []string{"schedule"}, until: noon.Add(10 * time.Hour), bandwidth: 5000},
		{name: "outside, never more", rules: Rules{Schedule: night, Bandwidth: 4000, Outside: 5000}, want: []string{"schedule"}, until: noon.Add(10 * time.Hour), bandwidth: 4000},
		{name: "on battery", rules: Rules{PauseOnBattery: true}, seen: Observed{Battery: Yes}, want: []string{"*pause-on-battery"}},
		{name: "on battery, not asked", seen: Observed{Battery: Yes}},
		{name: "battery unknown", rules: Rules{PauseOnBattery: true}},
		{name: "metered", rules: Rules{PauseOnMetered: true}, seen: Observed{Metered: Yes}, want: []string{"*pause-on-metered"}},
		{name: "metered unknown", rules: Rules{PauseOnMetered: true}},
		{
			name: "in use", rules: Rules{OnlyWhenIdle: 10 * time.Minute}, seen: Observed{Idle: 4 * time.Minute, IdleKnown: true},
			want: []string{"*only-when-idle"}, until: noon.Add(6 * time.Minute),
		},
		{name: "idle", rules: Rules{OnlyWhenIdle: 10 * time.Minute}, seen: Observed{Idle: 10 * time.Minute, IdleKnown: true}},
		{name: "idle unknown", rules: Rules{OnlyWhenIdle: 10 * time.Minute}},
		{name: "day used up", rules: Rules{QuotaDay: 100}, used: Ledger{Day: 100}, want: []string{"*quota-day"}, until: noon.Add(12 * time.Hour)},
		{name: "day nearly used up", rules: Rules{QuotaDay: 100}, used: Ledger{Day: 99}},
		{name: "month used up", rules: Rules{QuotaMonth: 100}, used: Ledger{Month: 101}, want: []string{"*quota-month"}, until: time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)},
		{name: "disk full", rules: Rules{DiskQuota: 5}, seen: Observed{Disk: 5}, want: []string{"*disk-quota"}},
		{name: "memory short", rules: Rules{Memory: 100, Fetchers: 16}, seen: Observed{Heap: 71}, want: []string{"memory"}, fetchers: 4},
		{name: "memory short with one fetcher", rules: Rules{Memory: 100, Fetchers: 1}, seen: Observed{Heap: 99}, want: []string{"memory"}, fetchers: 1},
		{
			name: "what pauses stands first", rules: Rules{Schedule: night, Outside: 5000, PauseOnBattery: true}, seen: Observed{Battery: Yes},
			want: []string{"*pause-on-battery", "schedule"}, bandwidth: 5000,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := Decide(noon, &c.rules, c.pause, &c.seen, &c.used)
			var got []string
			for _, h := range d.Holds {
				name := h.Rule
				if h.Effect == control.EffectPause {
					name = "*" + name
				}
				got = append(got, name)
				if h.Why == "" || h.Ends == "" {
					t.Errorf("%s says not why, or not when it ends", h.Rule)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Fatalf("holds %v, want %v", got, c.want)
			}
			first, paused := d.Pausing()
			if want := len(c.want) > 0 && c.want[0][0] == '*'; paused != want || d.Paused != want {
				t.Errorf("paused %v, want %v", paused, want)
			}
			if len(d.Holds) > 0 && !d.Holds[0].Until.Equal(c.until) {
				t.Errorf("until %v, want %v", d.Holds[0].Until, c.until)
			}
			if paused && first.Rule != d.Holds[0].Rule {
				t.Errorf("pausing is %s, want the first hold", first.Rule)
			}
			if d.Bandwidth != c.bandwidth {
				t.Errorf("bandwidth %d, want %d", d.Bandwidth, c.bandwidth)
			}
			if c.fetchers > 0 && d.Fetchers != c.fetchers {
				t.Errorf("fetchers %d, want %d", d.Fetchers, c.fetchers)
			}
		})
	}
}

func TestLedger(t *testing.T) {
	day := func(m, d, h int) time.Time { return time.Date(2026, time.Month(m), d, h, 0, 0, 0, time.UTC) }
	for _, c := range []struct {
		name       string
		adds       []time.Time // 10 bytes each
		day, month int64
	}{
		{"one day", []time.Time{day(3, 1, 1), day(3, 1, 23)}, 20, 20},
		{"the next day", []time.Time{day(3, 1, 1), day(3, 2, 1)}, 10, 20},
		{"the next month", []time.Time{day(3, 31, 1), day(4, 1, 1)}, 10, 10},
		{"a year later", []time.Time{day(3, 1, 1), day(3, 1, 1).AddDate(1, 0, 0)}, 10, 10},
		{"corrected about midnight", []time.Time{day(4, 1, 0), day(3, 31, 23), day(4, 1, 0)}, 30, 30},
		{"a clock that was far ahead", []time.Time{day(9, 1, 0), day(3, 1, 0), day(3, 1, 1)}, 20, 20},
	} {
		var l Ledger
		for _, at := range c.adds {
			l.Add(at, 10)
			l.Did(1, time.Minute)
		}
		if l.Pages != l.Day/10 || l.WorkS != 60*float64(l.Pages) {
			t.Errorf("%s: %d pages and %v s at work on a day of %d bytes", c.name, l.Pages, l.WorkS, l.Day)
		}
		if l.Day != c.day || l.Month != c.month {
			t.Errorf("%s: day %d month %d, want %d and %d", c.name, l.Day, l.Month, c.day, c.month)
		}
	}
}

// TestPacer: a process that works whenever it may, at a full core, stays at its share over any ten
// seconds, after an idle hour as well.
func TestPacer(t *testing.T) {
	const beat = 100 * time.Millisecond
	for _, share := range []float64{0.1, 0.5, 0.9} {
		var p Pacer
		now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
		var used time.Duration
		p.Rest(now, share, used)
		now = now.Add(time.Hour)
		p.Rest(now, share, used)
		const beats = 1000
		for range beats {
			now = now.Add(beat)
			if !p.Rest(now, share, used) {
				used += beat // works until the next question
			}
		}
		got := used.Seconds() / (beats * beat).Seconds()
		if got < 0.95*share || got > 1.05*share {
			t.Errorf("share %v: used %.3f", share, got)
		}
	}
	var p Pacer
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	for i := range 10 {
		if p.Rest(now.Add(time.Duration(i)*beat), 0, time.Duration(i)*time.Hour) {
			t.Fatal("it rests without a share")
		}
	}
}

// TestLedgerOfAllDays checks that totals outlast a day and a month.
func TestLedgerOfAllDays(t *testing.T) {
	l := Ledger{Date: "2027-01-31", Day: 5, Month: 70, Pages: 3, All: 70, AllPages: 3}
	now := time.Date(2027, time.January, 31, 23, 59, 0, 0, time.UTC)
	l.Add(now, 10)
	l.Did(1, time.Second)
	l.Add(now.Add(time.Hour), 10)
	l.Did(2, time.Second)
	if l.All != 90 || l.AllPages != 6 || l.Month != 10 || l.Pages != 2 {
		t.Errorf("%+v", l)
	}
}
