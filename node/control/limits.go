package control

import "time"

// Limits is what a peer may use of its machine and of its link: what is set, what holds now and
// why, and what was used.
type Limits struct {
	// Paused says whether nothing is fetched at present.
	Paused bool `json:"paused"`
	// Holds are the rules that hold at present, those that pause before those that slow. Empty: the
	// peer may use all that is set.
	Holds []Hold `json:"holds"`
	// Settings are all that can be set, in the order in which people think of them.
	Settings []Setting `json:"settings"`
	// Caps are the bounds in force at present: those set, or lower ones where a rule slows the
	// peer.
	Caps Caps `json:"caps"`
	Used Used `json:"used"` // what is used at present
	// Observed: what the rules on battery, link and idleness see of the machine.
	Observed Observed `json:"observed"`
}

// Hold is one rule that holds at present.
type Hold struct {
	// Rule is the key of the setting behind it, or user for a pause by a person.
	Rule string `json:"rule"`
	// Effect is pause or slow.
	Effect string `json:"effect"`
	// Why says what was found, Ends what ends it, both in words: "Why, until Ends" is a sentence.
	Why  string `json:"why"`
	Ends string `json:"ends"` // what ends the hold, in words
	// Until is when it ends, nil where no clock tells.
	Until *time.Time `json:"until,omitempty"`
}

// Setting is one thing that can be set.
type Setting struct {
	// Key is its word everywhere: the flag's, the configuration file's, and here.
	Key string `json:"key"`
	// Value is as it would be written, Default what it is where nobody sets it.
	Value   string `json:"value"`
	Default string `json:"default"` // the value where nobody sets it
	// Changed says that limits set gave the value; it is kept over restarts, and beats flags and
	// file. Without it the peer was started so.
	Changed bool `json:"changed"`
	// About is what it does, in a sentence.
	About string `json:"about"`
}

// Caps are bounds in force; 0 is none.
type Caps struct {
	// Bandwidth and BandwidthUp are bytes a second that come and go, of sites and peers together.
	Bandwidth   int64 `json:"bandwidth"`
	BandwidthUp int64 `json:"bandwidth_up"` // bytes a second to others
	// Fetchers are exchanges at once; 0 here means none.
	Fetchers int `json:"fetchers"`
	// CPUShare is in cores: 0.5 is half of one.
	CPUShare float64 `json:"cpu_share"`
	// The rest is in bytes.
	Memory      int64 `json:"memory"`
	DiskQuota   int64 `json:"disk_quota"`   // of the data directory
	DiskReserve int64 `json:"disk_reserve"` // free space at which the peer ends
	QuotaDay    int64 `json:"quota_day"`    // of one day, down and up
	QuotaMonth  int64 `json:"quota_month"`  // of one month, down and up
}

// Used is what is used at present, to be held against Caps.
type Used struct {
	// Bandwidth and BandwidthUp are bytes of the last second.
	Bandwidth   int64   `json:"bandwidth"`
	BandwidthUp int64   `json:"bandwidth_up"` // bytes sent in the last second
	Fetchers    int     `json:"fetchers"`     // exchanges that run
	CPUShare    float64 `json:"cpu_share"`    // cores busy in the last second
	// Memory is what is resident, Disk what lies in the data directory, DiskFree what the disk has
	// left, in bytes.
	Memory   int64 `json:"memory"`
	Disk     int64 `json:"disk"`      // size of the data directory
	DiskFree int64 `json:"disk_free"` // what the disk has left
	// Day and Month are bytes that came and went today and this month, by the local calendar.
	Day   int64 `json:"day"`
	Month int64 `json:"month"` // bytes of this month
	// DayPages are the pages that this peer fetched today, DayWorkS the seconds in which it had a
	// host in hand.
	DayPages int64   `json:"day_pages"`
	DayWorkS float64 `json:"day_work_s"` // see DayPages
	All      int64   `json:"all"`        // bytes received and sent since the data directory was made
	AllPages int64   `json:"all_pages"`  // pages fetched since then
}

// Observed is what the system tells of the machine; what it does not tell, or was not asked, is
// unknown, which pauses nothing.
type Observed struct {
	// Battery says whether the machine runs on it, Metered whether its link is: yes, no or unknown.
	Battery string `json:"battery"`
	Metered string `json:"metered"` // yes, no or unknown
	// IdleS is for how long nobody has used keyboard or mouse; nil: unknown.
	IdleS *float64 `json:"idle_s"`
}
