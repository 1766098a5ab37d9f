package volunteer

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Rules are the settings. The zero value of a limit is none.
type Rules struct {
	// Bandwidth and BandwidthUp limit download and upload, crawl and peer traffic together, in bytes
	// per second. If only Bandwidth is set, it applies to each direction.
	Bandwidth, BandwidthUp int64
	// Fetchers limits concurrent fetches; at least 1.
	Fetchers int
	// CPUShare limits processor time, in cores.
	CPUShare float64
	// Memory is the soft limit of Go's heap and stacks, in bytes.
	Memory int64
	// DiskQuota limits the data directory, DiskReserve is the free space at which the peer stops, in
	// bytes.
	DiskQuota, DiskReserve int64
	// QuotaDay and QuotaMonth limit the traffic of a day and of a month of the local calendar, in
	// bytes.
	QuotaDay, QuotaMonth int64
	// Schedule is when the peer may fetch, Outside the bandwidth at other hours; 0 pauses it.
	Schedule Schedule
	Outside  int64 // bytes per second; 0: pause
	// OnlyWhenIdle is the minimum time without user input; 0: no condition.
	OnlyWhenIdle time.Duration
	// PauseOnBattery and PauseOnMetered pause on battery power and on a metered link.
	PauseOnBattery, PauseOnMetered bool
}

// UpCap returns the upload limit in bytes per second.
func (r *Rules) UpCap() int64 {
	if r.BandwidthUp > 0 {
		return r.BandwidthUp
	}
	return r.Bandwidth
}

// The keys of the rules, used by flags, the configuration file and limits set. A hold has the name
// of its key.
const (
	KeyBandwidth      = "bandwidth"
	KeyBandwidthUp    = "bandwidth-up"
	KeyFetchers       = "fetchers"
	KeyCPUShare       = "cpu-share"
	KeyMemory         = "memory"
	KeyDiskQuota      = "disk-quota"
	KeyDiskReserve    = "disk-reserve"
	KeyQuotaDay       = "quota-day"
	KeyQuotaMonth     = "quota-month"
	KeySchedule       = "schedule"
	KeyOutside        = "outside"
	KeyOnlyWhenIdle   = "only-when-idle"
	KeyPauseOnBattery = "pause-on-battery"
	KeyPauseOnMetered = "pause-on-metered"
)

// Key is one setting.
type Key struct {
	Name string // in flags, files and the API
	// About is the help text in flags and files.
	About string
	// YesNo reports a boolean.
	YesNo bool
	get   func(*Rules) string
	set   func(*Rules, string) error
}

// Keys are all settings in the order of display.
var Keys = []Key{
	rate(KeyBandwidth, "download limit, crawl and peer traffic together: 2Mbit, 250kB or none",
		func(r *Rules) *int64 { return &r.Bandwidth }),
	rate(KeyBandwidthUp, "upload limit, such as 2Mbit or 250kB; none: same as bandwidth", func(r *Rules) *int64 { return &r.BandwidthUp }),
	{Name: KeyFetchers, About: "maximum concurrent fetches", get: func(r *Rules) string { return strconv.Itoa(r.Fetchers) }, set: setFetchers},
	{
		Name: KeyCPUShare, About: "processor time limit in percent of one core: 25%, 150%, or none",
		get: func(r *Rules) string { return shareText(r.CPUShare) }, set: setShare,
	},
	size(KeyMemory, "soft heap limit; near it the peer fetches fewer pages concurrently", func(r *Rules) *int64 { return &r.Memory }),
	size(KeyDiskQuota, "data directory size at which the peer pauses", func(r *Rules) *int64 { return &r.DiskQuota }),
	size(KeyDiskReserve, "free disk space at which the peer stops", func(r *Rules) *int64 { return &r.DiskReserve }),
	size(KeyQuotaDay, "daily traffic, both directions, at which the peer pauses", func(r *Rules) *int64 { return &r.QuotaDay }),
	size(KeyQuotaMonth, "monthly traffic, both directions, at which the peer pauses", func(r *Rules) *int64 { return &r.QuotaMonth }),
	{
		Name: KeySchedule, About: "hours for fetching, separated by semicolons: mon-fri 22:00-07:00; sat,sun",
		get: func(r *Rules) string { return r.Schedule.String() },
		set: func(r *Rules, s string) (err error) { r.Schedule, err = ParseSchedule(s); return err },
	},
	{
		Name: KeyOutside, About: "outside the schedule: pause, or a bandwidth such as 256kbit",
		get: func(r *Rules) string { return outsideText(r.Outside) }, set: setOutside,
	},
	{
		Name: KeyOnlyWhenIdle, About: "fetch only after this time without user input; 0s: always",
		get: func(r *Rules) string { return r.OnlyWhenIdle.String() }, set: setIdle,
	},
	yesNo(KeyPauseOnBattery, "pause on battery power", func(r *Rules) *bool { return &r.PauseOnBattery }),
	yesNo(KeyPauseOnMetered, "pause on a metered connection, if the system reports it", func(r *Rules) *bool { return &r.PauseOnMetered }),
}

// Find returns the key of that name.
func Find(name string) (Key, bool) {
	for _, k := range Keys {
		if k.Name == name {
			return k, true
		}
	}
	return Key{}, false
}

// Get returns the value as text.
func (k Key) Get(r *Rules) string { return k.get(r) }

// Set parses a value; an error names the key and the value and changes no rule.
func (k Key) Set(r *Rules, value string) error {
	if err := k.set(r, strings.TrimSpace(value)); err != nil {
		return fmt.Errorf("%s %.80q: %w", k.Name, value, err)
	}
	return nil
}

func rate(name, about string, field func(*Rules) *int64) Key {
	return Key{Name: name, About: about, get: func(r *Rules) string { return RateText(*field(r)) }, set: func(r *Rules, s string) error {
		v, err := ParseRate(s)
		if err == nil && v > 0 && v < minRate {
			err = fmt.Errorf("must be at least %s, or none", RateText(minRate))
		}
		if err == nil {
			*field(r) = v
		}
		return err
	}}
}

// minRate is the minimum bandwidth: with less a peer could not stay in the ring.
const minRate = 16_000

func size(name, about string, field func(*Rules) *int64) Key {
	return Key{Name: name, About: about, get: func(r *Rules) string { return SizeText(*field(r)) }, set: func(r *Rules, s string) error {
		v, err := ParseSize(s)
		if err == nil && name == KeyMemory && v > 0 && v < minMemory {
			err = fmt.Errorf("must be at least %s, or none", SizeText(minMemory))
		}
		if err == nil {
			*field(r) = v
		}
		return err
	}}
}

// minMemory is the minimum memory limit: with less the collector would run permanently.
const minMemory = 48 << 20

func yesNo(name, about string, field func(*Rules) *bool) Key {
	return Key{Name: name, About: about, YesNo: true, get: func(r *Rules) string { return strconv.FormatBool(*field(r)) }, set: func(r *Rules, s string) error {
		v, err := strconv.ParseBool(s)
		if err != nil {
			return errors.New("must be true or false")
		}
		*field(r) = v
		return nil
	}}
}

// maxFetchers is more than the connection table of a home router holds.
const maxFetchers = 4096

func setFetchers(r *Rules, s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > maxFetchers {
		return fmt.Errorf("must be a number between 1 and %d", maxFetchers)
	}
	r.Fetchers = n
	return nil
}

// leastShare and mostShare are the limits of a CPU share, in cores.
const (
	leastShare = 0.01
	mostShare  = 1024
)

func setShare(r *Rules, s string) error {
	if s == none || s == "0" {
		r.CPUShare = 0
		return nil
	}
	number, percent := strings.CutSuffix(s, "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if v /= 100; err != nil || !percent || !(v >= leastShare && v <= mostShare) {
		return errors.New("must be a percentage of one core of at least 1%, such as 25% or 150%, or none")
	}
	r.CPUShare = v
	return nil
}

func shareText(v float64) string {
	if v == 0 {
		return none
	}
	return strconv.FormatFloat(v*100, 'g', 6, 64) + "%"
}

func setOutside(r *Rules, s string) error {
	if s == "pause" {
		r.Outside = 0
		return nil
	}
	v, err := ParseRate(s)
	if err != nil || v < minRate {
		return fmt.Errorf("must be pause, or a rate of at least %s, such as 256kbit", RateText(minRate))
	}
	r.Outside = v
	return nil
}

func outsideText(v int64) string {
	if v == 0 {
		return "pause"
	}
	return RateText(v)
}

// mostIdle is the maximum of OnlyWhenIdle.
const mostIdle = 24 * time.Hour

func setIdle(r *Rules, s string) error {
	d, err := time.ParseDuration(s)
	if s == none {
		d, err = 0, nil
	}
	if err != nil || d < 0 || d > mostIdle {
		return fmt.Errorf("must be a duration from 0 to %v, such as 10m", mostIdle)
	}
	r.OnlyWhenIdle = d
	return nil
}
