package volunteer

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Rules is what was set. The zero value of a bound is none.
type Rules struct {
	// Bandwidth and BandwidthUp bound what comes and what goes, in bytes a second, of sites and
	// peers together. Where only Bandwidth is set it holds for each direction.
	Bandwidth, BandwidthUp int64
	// Fetchers bounds the exchanges under way at once; at least 1.
	Fetchers int
	// CPUShare is the processor time that may be used, in cores.
	CPUShare float64
	// Memory is what Go's heap and stacks are kept below, in bytes.
	Memory int64
	// DiskQuota bounds the data directory, DiskReserve is the free space at which the peer ends, in
	// bytes.
	DiskQuota, DiskReserve int64
	// QuotaDay and QuotaMonth bound the bytes that come and go in a day and in a month of the local
	// calendar.
	QuotaDay, QuotaMonth int64
	// Schedule is when the peer may work, Outside the bandwidth it has at other hours: 0 pauses it.
	Schedule Schedule
	Outside  int64 // bytes a second at other hours; 0: pause
	// OnlyWhenIdle is for how long nobody must have used the machine; 0: people are not waited for.
	OnlyWhenIdle time.Duration
	// PauseOnBattery and PauseOnMetered give way to a battery, and to a link that is paid by the
	// byte.
	PauseOnBattery, PauseOnMetered bool
}

// UpCap is the bandwidth that goes, in bytes a second.
func (r *Rules) UpCap() int64 {
	if r.BandwidthUp > 0 {
		return r.BandwidthUp
	}
	return r.Bandwidth
}

// The keys of the rules: the words of flags, of the configuration file and of limits set. A hold is
// named after the key behind it.
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

// Key is one thing that can be set.
type Key struct {
	Name string // as flags, files and the API say it
	// About is what it does, as flags and files say it.
	About string
	// YesNo says that it is true or false.
	YesNo bool
	get   func(*Rules) string
	set   func(*Rules, string) error
}

// Keys are all that can be set, in the order in which people think of them.
var Keys = []Key{
	rate(KeyBandwidth, "bytes or bits a second that may come, of sites and peers together, and go unless bandwidth-up says otherwise: 2Mbit, 250kB, or none",
		func(r *Rules) *int64 { return &r.Bandwidth }),
	rate(KeyBandwidthUp, "the same for what goes; none: as much as may come", func(r *Rules) *int64 { return &r.BandwidthUp }),
	{Name: KeyFetchers, About: "exchanges under way at once", get: func(r *Rules) string { return strconv.Itoa(r.Fetchers) }, set: setFetchers},
	{
		Name: KeyCPUShare, About: "processor time that may be used, in percent of one core: 25%, 150%, or none",
		get: func(r *Rules) string { return shareText(r.CPUShare) }, set: setShare,
	},
	size(KeyMemory, "what the heap is kept below where that is possible; near it fewer pages are fetched at once", func(r *Rules) *int64 { return &r.Memory }),
	size(KeyDiskQuota, "what the data directory may hold before the peer pauses", func(r *Rules) *int64 { return &r.DiskQuota }),
	size(KeyDiskReserve, "free disk space at which the peer stops", func(r *Rules) *int64 { return &r.DiskReserve }),
	size(KeyQuotaDay, "bytes that may come and go in a day before the peer pauses until the next", func(r *Rules) *int64 { return &r.QuotaDay }),
	size(KeyQuotaMonth, "bytes that may come and go in a month before the peer pauses until the next", func(r *Rules) *int64 { return &r.QuotaMonth }),
	{
		Name: KeySchedule, About: "hours in which the peer works, windows parted by semicolons: mon-fri 22:00-07:00; sat,sun",
		get: func(r *Rules) string { return r.Schedule.String() },
		set: func(r *Rules, s string) (err error) { r.Schedule, err = ParseSchedule(s); return err },
	},
	{
		Name: KeyOutside, About: "outside of the hours of schedule: pause, or a bandwidth such as 256kbit",
		get: func(r *Rules) string { return outsideText(r.Outside) }, set: setOutside,
	},
	{
		Name: KeyOnlyWhenIdle, About: "pause unless nobody has used the machine for this long, such as 10m; 0s: not asked",
		get: func(r *Rules) string { return r.OnlyWhenIdle.String() }, set: setIdle,
	},
	yesNo(KeyPauseOnBattery, "pause while the machine runs on its battery", func(r *Rules) *bool { return &r.PauseOnBattery }),
	yesNo(KeyPauseOnMetered, "pause while the link is paid by the byte, where the system tells", func(r *Rules) *bool { return &r.PauseOnMetered }),
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

// Get writes what is set.
func (k Key) Get(r *Rules) string { return k.get(r) }

// Set reads a value; an error names the key and the value, and leaves the rules as they are.
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
			err = fmt.Errorf("must be %s at least, or none", RateText(minRate))
		}
		if err == nil {
			*field(r) = v
		}
		return err
	}}
}

// minRate is the smallest bandwidth that can be set: with less a peer could not keep its place in
// the ring.
const minRate = 16_000

func size(name, about string, field func(*Rules) *int64) Key {
	return Key{Name: name, About: about, get: func(r *Rules) string { return SizeText(*field(r)) }, set: func(r *Rules, s string) error {
		v, err := ParseSize(s)
		if err == nil && name == KeyMemory && v > 0 && v < minMemory {
			err = fmt.Errorf("must be %s at least, or none", SizeText(minMemory))
		}
		if err == nil {
			*field(r) = v
		}
		return err
	}}
}

// minMemory is the smallest bound of memory: with less the collector would run all the time.
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

// maxFetchers is more than a home router's table of connections holds.
const maxFetchers = 4096

func setFetchers(r *Rules, s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > maxFetchers {
		return fmt.Errorf("must be a number between 1 and %d", maxFetchers)
	}
	r.Fetchers = n
	return nil
}

// leastShare and mostShare bound a share of processor time, in cores.
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
		return errors.New("must be percent of one core, 1% or more, such as 25% or 150%, or none")
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
		return fmt.Errorf("must be pause, or a rate of %s or more such as 256kbit", RateText(minRate))
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

// mostIdle bounds how long people may be waited for.
const mostIdle = 24 * time.Hour

func setIdle(r *Rules, s string) error {
	d, err := time.ParseDuration(s)
	if s == none {
		d, err = 0, nil
	}
	if err != nil || d < 0 || d > mostIdle {
		return fmt.Errorf("must be a time from 0 to %v, such as 10m", mostIdle)
	}
	r.OnlyWhenIdle = d
	return nil
}
