package show

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/volunteer"
	"github.com/apoidea/apoidea/node/ops/words"
)

// Limits prints the limits of a peer, the active rules and the usage.
func Limits(out io.Writer, l *control.Limits, now time.Time) error {
	if _, err := fmt.Fprintf(out, "%s\n\n", cmp.Or(Holds(l, now), "not paused")); err != nil {
		return err
	}
	used := usedTexts(l)
	rows := [][]string{{"LIMIT", "SET", "USED", ""}}
	for _, s := range l.Settings {
		note := ""
		if s.Changed {
			note = "changed by limits set; configured " + s.Default
		}
		rows = append(rows, []string{s.Key, s.Value, used[s.Key], note})
	}
	if err := words.Table(out, rows); err != nil {
		return err
	}
	idle := "unknown"
	if l.Observed.IdleS != nil {
		idle = words.Seconds(*l.Observed.IdleS)
	}
	_, err := fmt.Fprintf(out, "\non battery: %s; metered link: %s; idle time: %s\n", l.Observed.Battery, l.Observed.Metered, idle)
	return err
}

// Changed describes a change of settings, or where none are set of the pause: the old and the new
// value of each, and the rules in force after it.
func Changed(before, after *control.Limits, set map[string]string, now time.Time) string {
	var lines []string
	for i, s := range after.Settings {
		if _, ok := set[s.Key]; !ok || i >= len(before.Settings) {
			continue
		}
		was := "unchanged"
		if old := before.Settings[i].Value; old != s.Value {
			was = "was " + old
		}
		lines = append(lines, fmt.Sprintf("%s: %s (%s)", s.Key, s.Value, was))
	}
	byUser := func(h control.Hold) bool { return h.Rule == volunteer.ByUser }
	if len(set) == 0 && !slices.ContainsFunc(after.Holds, byUser) {
		lines = append(lines, map[bool]string{true: "Resumed.", false: "No pause to end."}[slices.ContainsFunc(before.Holds, byUser)])
	}
	if len(after.Holds) > 0 {
		lines = append(lines, Holds(after, now))
	}
	return strings.Join(lines, "\n")
}

// Holds lists the active rules, one per line.
func Holds(l *control.Limits, now time.Time) string {
	var lines []string
	for i := range l.Holds {
		h := &l.Holds[i]
		effect := "paused: "
		switch {
		case h.Rule == volunteer.ByUser:
			if effect = ""; !h.Until.IsZero() { // part of the reason
				lines = append(lines, h.Why+" until "+strings.Trim(words.Until(h.Until, now), " ()")+"; to resume: apoidea resume")
				continue
			}
		case h.Effect != "pause":
			effect = "slowed: "
		}
		lines = append(lines, fmt.Sprintf("%s%s, until %s%s", effect, h.Why, h.Ends, words.Until(h.Until, now)))
	}
	return strings.Join(lines, "\n")
}

// usedTexts has the usage of each limit that is measured.
func usedTexts(l *control.Limits) map[string]string {
	u, c := &l.Used, &l.Caps
	part := func(text func(int64) string, used, bound int64) string {
		if bound == 0 {
			return text(used)
		}
		return fmt.Sprintf("%s, %.0f %%", text(used), 100*float64(used)/float64(bound))
	}
	return map[string]string{
		volunteer.KeyBandwidth:   part(words.Rate, u.Bandwidth, c.Bandwidth),
		volunteer.KeyBandwidthUp: part(words.Rate, u.BandwidthUp, c.BandwidthUp),
		volunteer.KeyFetchers:    words.Number(int64(u.Fetchers)),
		volunteer.KeyCPUShare:    fmt.Sprintf("%.1f %%", 100*u.CPUShare),
		volunteer.KeyMemory:      words.Bytes(u.Memory) + " resident",
		volunteer.KeyDiskQuota:   part(words.Bytes, u.Disk, c.DiskQuota),
		volunteer.KeyDiskReserve: words.Bytes(u.DiskFree) + " free",
		volunteer.KeyQuotaDay:    part(words.Bytes, u.Day, c.QuotaDay),
		volunteer.KeyQuotaMonth:  part(words.Bytes, u.Month, c.QuotaMonth),
	}
}
