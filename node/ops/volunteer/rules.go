package volunteer

import (
	"errors"
	"fmt"
	"math"
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

// none is the text of a limit that is not set.
const none = "none"

// unit is a suffix and its factor.
type unit struct {
	suffix string
	factor float64
}

var (
	sizeUnits = []unit{
		{"KiB", 1 << 10},
		{"MiB", 1 << 20},
		{"GiB", 1 << 30},
		{"TiB", 1 << 40},
		{"kB", 1e3},
		{"KB", 1e3},
		{"MB", 1e6},
		{"GB", 1e9},
		{"TB", 1e12},
		{"B", 1},
	}
	rateUnits = append([]unit{
		{"kbit", 1e3 / 8},
		{"Kbit", 1e3 / 8},
		{"Mbit", 1e6 / 8},
		{"Gbit", 1e9 / 8},
		{"bit", 1.0 / 8},
	}, sizeUnits...)
)

// maxAmount limits sizes and rates, so that their sums do not overflow int64.
const maxAmount = 1 << 60

// ParseSize parses a number of bytes: 500MiB, 2GB; none or 0 is 0.
func ParseSize(s string) (int64, error) {
	n, err := amount(s, sizeUnits)
	if err != nil {
		return 0, fmt.Errorf("must be a size such as 500MiB or 2GiB, or none%w", err)
	}
	return n, nil
}

// ParseRate parses a rate in bits or bytes per second: 2Mbit, 2Mbit/s, 250kB; none or 0 is 0. It
// returns bytes per second.
func ParseRate(s string) (int64, error) {
	n, err := amount(strings.TrimSuffix(s, "/s"), rateUnits)
	if err != nil {
		return 0, fmt.Errorf("must be a rate per second such as 2Mbit or 250kB, or none%w", err)
	}
	return n, nil
}

var errUnit = errors.New("")

func amount(s string, units []unit) (int64, error) {
	if s == none {
		return 0, nil
	}
	factor := 1.0
	for _, u := range units {
		if number, ok := strings.CutSuffix(s, u.suffix); ok {
			s, factor = number, u.factor
			break
		}
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || math.IsNaN(v) || strings.ContainsAny(s, "xXpP_") {
		return 0, errUnit
	}
	if v *= factor; v < 0 || v > maxAmount {
		return 0, errors.New(": out of range")
	}
	return int64(math.Round(v)), nil
}

// SizeText formats a number of bytes without loss: in the largest unit that divides it.
func SizeText(n int64) string {
	return exact(n, []whole{{"TiB", 1 << 40}, {"TB", 1e12}, {"GiB", 1 << 30}, {"GB", 1e9}, {"MiB", 1 << 20}, {"MB", 1e6}, {"KiB", 1 << 10}, {"kB", 1e3}}, "B")
}

// RateText formats bytes per second without loss, for ParseRate.
func RateText(n int64) string {
	return exact(n, []whole{{"Gbit", 1e9 / 8}, {"Mbit", 1e6 / 8}, {"kB", 1e3}, {"KiB", 1 << 10}, {"kbit", 1e3 / 8}}, "B")
}

// whole is a unit that is a whole number of bytes.
type whole struct {
	suffix string
	bytes  int64
}

func exact(n int64, units []whole, rest string) string {
	if n == 0 {
		return none
	}
	for _, u := range units {
		if n%u.bytes == 0 {
			return fmt.Sprintf("%d%s", n/u.bytes, u.suffix)
		}
	}
	return fmt.Sprintf("%d%s", n, rest)
}
