package control

import (
	"cmp"
	"slices"
)

// Wait sums up the hosts with pending URLs that are left alone for a while, for one reason.
type Wait struct {
	// Reason is the outcome that they failed with, as dns or connect, or asked: they wish it so, or
	// single URLs of them wait for another try.
	Reason string `json:"reason"`
	Hosts  int64  `json:"hosts"` // so many hosts
	URLs   int64  `json:"urls"`  // pending URLs of those hosts
	// PutOff counts those of the URLs whose next try is further away than the patience, HostsPutOff
	// their hosts.
	PutOff      int64 `json:"put_off,omitempty"`
	HostsPutOff int64 `json:"hosts_put_off,omitempty"` // hosts with such URLs
	// NextS is when the first of them is tried again, NextPutOffS the first of those put off.
	NextS float64 `json:"next_s"`
	// NextPutOffS: seconds until the first of those put off.
	NextPutOffS float64 `json:"next_put_off_s,omitempty"`
	// Examples are some of the hosts, those with the most URLs put off first.
	Examples []WaitingHost `json:"examples,omitempty"`
}

// WaitingHost is a host that is left alone for a while.
type WaitingHost struct {
	Host string `json:"host"` // its name
	URLs int64  `json:"urls"` // pending URLs
	// PutOff: those with a next try further away than the patience.
	PutOff int64   `json:"put_off,omitempty"`
	NextS  float64 `json:"next_s"` // seconds until its next try
	// Fails counts the failures in a row, Why is the last one, or what the site asked for.
	Fails uint32 `json:"fails,omitempty"`
	Why   string `json:"why,omitempty"` // the last failure, or what the site asked for
}

const (
	// maxWaits bounds the reasons that a peer is believed to have, maxExamples the hosts named for
	// each.
	maxWaits    = 64
	maxExamples = 4
)

// AddWaits merges what two peers say, reason by reason; neither is changed.
func AddWaits(a, b []Wait) []Wait {
	for _, w := range b[:min(len(b), maxWaits)] {
		i := slices.IndexFunc(a, func(x Wait) bool { return x.Reason == w.Reason })
		if i < 0 {
			if len(a) >= maxWaits {
				break
			}
			w.Examples = slices.Clone(w.Examples[:min(len(w.Examples), maxExamples)])
			a = append(slices.Clip(a), w)
			continue
		}
		a = slices.Clone(a) // whoever gave it keeps it
		a[i].add(&w)
	}
	slices.SortStableFunc(a, func(x, y Wait) int { return cmp.Or(cmp.Compare(y.PutOff, x.PutOff), cmp.Compare(y.URLs, x.URLs)) })
	return a
}

func (w *Wait) add(o *Wait) {
	w.Hosts += o.Hosts
	w.URLs += o.URLs
	w.PutOff += o.PutOff
	w.HostsPutOff += o.HostsPutOff
	w.NextS, w.NextPutOffS = sooner(w.NextS, o.NextS), sooner(w.NextPutOffS, o.NextPutOffS)
	w.Examples = slices.Concat(w.Examples, o.Examples[:min(len(o.Examples), maxExamples)])
	slices.SortStableFunc(w.Examples, func(x, y WaitingHost) int {
		return cmp.Or(cmp.Compare(y.PutOff, x.PutOff), cmp.Compare(y.URLs, x.URLs), cmp.Compare(x.Host, y.Host))
	})
	w.Examples = w.Examples[:min(len(w.Examples), maxExamples)]
}

// sooner is the smaller of two times in seconds, of which 0 is none.
func sooner(a, b float64) float64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
