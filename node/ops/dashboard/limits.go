package dashboard

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/words"
)

// used is the usage of a resource and its limit.
type used struct {
	ID, Name, Text string
	// Of is the limit as text, empty if there is none; Value and Max are for the meter.
	Of         string
	Value, Max float64
}

// setting is a field of the form.
type setting struct {
	control.Setting
	Name string
	// YesNo reports a boolean.
	YesNo bool
}

// settingNames are the labels of the settings; the default is the key.
var settingNames = map[string]string{
	"bandwidth": "Bandwidth", "bandwidth-up": "Bandwidth up", "fetchers": "Fetchers", "cpu-share": "Processor", "memory": "Memory", "disk-quota": "Disk quota",
	"disk-reserve": "Disk reserve", "quota-day": "Quota a day", "quota-month": "Quota a month", "schedule": "Hours", "outside": "At other hours",
	"only-when-idle": "Only when idle for", "pause-on-battery": "Pause on battery", "pause-on-metered": "Pause on a metered link",
}

// limits sets active throttles, usage and settings.
func (p *page) limits(m *model) {
	l := m.limits
	p.Holds = l.Holds
	p.ByUser = slices.ContainsFunc(l.Holds, func(h control.Hold) bool { return h.Rule == "user" })
	c, u := &l.Caps, &l.Used
	amount := func(id, name string, is, most int64, text func(int64) string) used {
		f := used{ID: id, Name: name, Text: text(is), Value: float64(is), Max: float64(most)}
		if most > 0 {
			f.Of = text(most)
		}
		return f
	}
	p.Used = []used{
		amount("bandwidth", "Receiving", u.Bandwidth, c.Bandwidth, words.Rate),
		amount("bandwidth_up", "Sending", u.BandwidthUp, c.BandwidthUp, words.Rate),
		amount("day", "Today", u.Day, c.QuotaDay, words.Bytes),
		amount("month", "This month", u.Month, c.QuotaMonth, words.Bytes),
		amount("disk", "On disk", u.Disk, c.DiskQuota, words.Bytes),
		amount("fetchers", "Fetchers busy", int64(u.Fetchers), int64(c.Fetchers), words.Thousands),
		{ID: "cpu_share", Name: "Processor", Text: percentText(u.CPUShare), Value: u.CPUShare, Max: c.CPUShare},
		amount("memory", "Memory", u.Memory, c.Memory, words.Bytes),
	}
	if c.CPUShare > 0 {
		p.Used[6].Of = percentText(c.CPUShare)
	}
	yesNo := []string{"true", "false"}
	for _, s := range l.Settings {
		f := setting{Setting: s, Name: settingNames[s.Key], YesNo: slices.Contains(yesNo, s.Value) && slices.Contains(yesNo, s.Default)}
		if f.Name == "" {
			f.Name = s.Key
		}
		f.About = capital(s.About) + "."
		p.Settings = append(p.Settings, f)
	}
}

// percentText formats a share of one core.
func percentText(cores float64) string { return fmt.Sprintf("%.0f %%", 100*cores) }

// digits formats a number with about three digits.
func digits(n float64) string {
	switch {
	case n == math.Trunc(n) && n < 1e4:
		return strconv.FormatFloat(n, 'f', 0, 64)
	case n < 10:
		return strings.TrimSuffix(strconv.FormatFloat(n, 'f', 2, 64), "0")
	case n < 100:
		return strconv.FormatFloat(n, 'f', 1, 64)
	default:
		return strconv.FormatFloat(n, 'f', 0, 64)
	}
}

// countText formats a count, abbreviated if large.
func countText(n float64) string {
	switch {
	case n >= 1e9:
		return digits(n/1e9) + " G"
	case n >= 1e6:
		return digits(n/1e6) + " M"
	case n >= 1e4:
		return digits(n/1e3) + " k"
	default:
		return digits(n)
	}
}

// spanText formats a duration in its two largest units.
func spanText(d time.Duration) string {
	s := int64(d.Seconds())
	switch {
	case s < 60:
		return fmt.Sprintf("%d s", max(s, 0))
	case s < 3600:
		return fmt.Sprintf("%d min", s/60)
	case s < 86400:
		return fmt.Sprintf("%d h %d min", s/3600, s/60%60)
	default:
		return fmt.Sprintf("%d d %d h", s/86400, s/3600%24)
	}
}

// rttText formats a round trip time in milliseconds.
func rttText(ms float64) string {
	switch {
	case ms <= 0:
		return "–"
	case ms < 10:
		return strconv.FormatFloat(ms, 'f', 2, 64) + " ms"
	case ms < 100:
		return strconv.FormatFloat(ms, 'f', 1, 64) + " ms"
	default:
		return strconv.FormatFloat(ms, 'f', 0, 64) + " ms"
	}
}

// untilText formats an end time, with the day if it is not today.
func untilText(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	switch {
	case t.YearDay() == now.YearDay() && t.Year() == now.Year():
		return t.Format("15:04")
	case t.Sub(now) < 6*24*time.Hour:
		return t.Format("Monday 15:04")
	default:
		return t.Format("2 January 15:04")
	}
}
