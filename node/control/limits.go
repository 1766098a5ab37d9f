package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"time"
)

// Limits are the resource limits of a peer: settings, active throttles and usage.
type Limits struct {
	// Paused reports whether fetching is paused.
	Paused bool `json:"paused"`
	// Holds are the active rules, pausing ones before throttling ones. If empty, the settings apply.
	Holds []Hold `json:"holds"`
	// Settings are all settings in the order of display.
	Settings []Setting `json:"settings"`
	// Caps are the effective limits: the settings, or lower while a rule throttles the peer.
	Caps Caps `json:"caps"`
	Used Used `json:"used"` // current usage
	// Observed is the state of the machine for the rules on battery, link and idleness.
	Observed Observed `json:"observed"`
}

// Hold is an active rule. The JSON names are stable.
type Hold struct {
	// Rule is the key of its setting, or user for a pause by the user.
	Rule string `json:"rule"`
	// Effect is pause or slow.
	Effect string `json:"effect"`
	// Why is the reason for people; "Why, until Ends" is a sentence.
	Why  string `json:"why"`
	Ends string `json:"ends"` // what ends the hold, for people
	// Until is when it ends, zero without a fixed time.
	Until time.Time `json:"until,omitzero"`
}

// The effects of a hold.
const (
	EffectPause = "pause" // fetching is paused
	EffectSlow  = "slow"  // the peer is throttled
)

// Setting is one setting.
type Setting struct {
	// Key is its name in flags, the configuration file and the API.
	Key string `json:"key"`
	// Value is the current value as text.
	Value   string `json:"value"`
	Default string `json:"default"` // the value without a change
	// Changed reports that the value is from limits set; it survives restarts and takes precedence
	// over flags and file.
	Changed bool `json:"changed"`
	// About is its help text.
	About string `json:"about"`
}

// Caps are effective limits; 0 is none.
type Caps struct {
	// Bandwidth is the download limit in bytes per second, crawl and peer traffic together.
	Bandwidth   int64 `json:"bandwidth"`
	BandwidthUp int64 `json:"bandwidth_up"` // upload limit in bytes per second
	// Fetchers is the maximum of concurrent fetches; 0 here means none.
	Fetchers int `json:"fetchers"`
	// CPUShare is in cores: 0.5 is half of one.
	CPUShare float64 `json:"cpu_share"`
	// The fields below are in bytes.
	Memory      int64 `json:"memory"`
	DiskQuota   int64 `json:"disk_quota"`   // of the data directory
	DiskReserve int64 `json:"disk_reserve"` // free space at which the peer stops
	QuotaDay    int64 `json:"quota_day"`    // traffic per day, both directions
	QuotaMonth  int64 `json:"quota_month"`  // traffic per month, both directions
}

// Used is the current usage, comparable with Caps.
type Used struct {
	// Bandwidth is the bytes received in the last second.
	Bandwidth   int64   `json:"bandwidth"`
	BandwidthUp int64   `json:"bandwidth_up"` // bytes sent in the last second
	Fetchers    int     `json:"fetchers"`     // fetches in progress
	CPUShare    float64 `json:"cpu_share"`    // cores busy in the last second
	// Memory is the resident memory in bytes.
	Memory   int64 `json:"memory"`
	Disk     int64 `json:"disk"`      // size of the data directory
	DiskFree int64 `json:"disk_free"` // free space on its disk
	// Day and Month are the traffic of today and this month in bytes, by the local calendar.
	Day   int64 `json:"day"`
	Month int64 `json:"month"` // bytes of this month
	// DayPages are the pages that this peer fetched today, DayWorkS the seconds with a leased host.
	DayPages int64   `json:"day_pages"`
	DayWorkS float64 `json:"day_work_s"` // see DayPages
	All      int64   `json:"all"`        // bytes received and sent since the data directory was created
	AllPages int64   `json:"all_pages"`  // pages fetched since then
}

// Observed is the state of the machine as reported by the system; otherwise unknown, which never
// pauses the peer.
type Observed struct {
	// Battery reports battery power: yes, no or unknown.
	Battery string `json:"battery"`
	Metered string `json:"metered"` // yes, no or unknown
	// IdleS is the time in seconds without keyboard or mouse input; nil: unknown.
	IdleS *float64 `json:"idle_s"`
}

const (
	// maxLimitsRequest limits the body of a request to pause or to change limits, in bytes.
	maxLimitsRequest = 64 << 10
	// maxPause is the longest timed pause.
	maxPause = 366 * 24 * time.Hour
)

// pauseRequest is the body of POST /v1/pause. No body, or an empty For, is a pause without an end.
type pauseRequest struct {
	// For is a duration as Go writes them: 90m, 2h30m.
	For string `json:"for,omitempty"`
}

// pauseTime parses the duration of a pause, 0 for one without an end.
func pauseTime(body io.Reader) (time.Duration, error) {
	var ask pauseRequest
	if err := decodeSmall(body, "pause", &ask); err != nil || ask.For == "" {
		return 0, err
	}
	return ParsePause(ask.For)
}

// ParsePause parses the duration of a pause, from a second to a year.
func ParsePause(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Second || d > maxPause {
		return 0, Usage(fmt.Sprintf("for %.40q: must be a duration from 1s to %dh, such as 90m or 2h", s, int(maxPause.Hours())))
	}
	return d, nil
}

// limitValues decodes the settings of POST /v1/limits: one object, keys to texts.
func limitValues(body io.Reader) (map[string]string, error) {
	var values map[string]string
	if err := decodeSmall(body, "limits", &values); err != nil {
		return nil, err
	}
	if len(values) == 0 {
		return nil, Usage("limits: no settings: the body must be an object such as {\"bandwidth\": \"2Mbit\"}")
	}
	return values, nil
}

// decodeSmall decodes one JSON document; an empty body is no error.
func decodeSmall(body io.Reader, what string, into any) error {
	err := decode(body, maxLimitsRequest, into)
	if err == nil || errors.Is(err, io.EOF) {
		return nil
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return Usage(fmt.Sprintf("%s: more than %d bytes", what, maxLimitsRequest))
	}
	return Usage(what + ": " + err.Error())
}

// decode decodes one JSON document with known fields and at most most bytes.
func decode(body io.Reader, most int64, into any) error {
	dec := json.NewDecoder(http.MaxBytesReader(nil, io.NopCloser(body), most))
	dec.DisallowUnknownFields()
	return dec.Decode(into)
}

// lastDay is the last time that JSON can represent, in Unix milliseconds: the year 9999.
const lastDay = 253_402_300_799_999

// Calendar converts a time from another peer's record; it returns the zero time for none, and for
// one that JSON cannot represent.
func Calendar(ms int64) time.Time {
	if ms <= 0 || ms > lastDay {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// Name is the name that an operator gives a peer. It is shown with the peer's ID and is not unique.
// An invalid name is dropped when decoded.
type Name string

// MaxName is the maximum length of a name in bytes.
const MaxName = 32

var validName = regexp.MustCompile(`^[A-Za-z0-9._-]*$`)

// Valid reports whether a name consists of at most MaxName letters, digits, dashes, underscores and
// dots.
func (n Name) Valid() bool { return len(n) <= MaxName && validName.MatchString(string(n)) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *Name) UnmarshalText(text []byte) error {
	if *n = Name(text); !n.Valid() {
		*n = ""
	}
	return nil
}
