package control

import (
	"cmp"
	"slices"
)

// Wait is the sum of the deferred hosts with pending URLs, for one reason.
type Wait struct {
	// Reason is the failure, such as dns or connect, or asked: the site requires the delay, or single
	// URLs wait for a retry.
	Reason string `json:"reason"`
	Hosts  int64  `json:"hosts"` // number of hosts
	URLs   int64  `json:"urls"`  // pending URLs of those hosts
	// PutOff counts the URLs whose next try is later than the wait limit.
	PutOff      int64 `json:"put_off,omitempty"`
	HostsPutOff int64 `json:"hosts_put_off,omitempty"` // hosts of these URLs
	// NextS is the time in seconds to the first retry.
	NextS float64 `json:"next_s"`
	// NextPutOffS is the time in seconds to the first retry of PutOff.
	NextPutOffS float64 `json:"next_put_off_s,omitempty"`
	// Examples are some of the hosts, those with the most PutOff first.
	Examples []WaitingHost `json:"examples,omitempty"`
}

// WaitingHost is a deferred host.
type WaitingHost struct {
	Host string `json:"host"` // its name
	URLs int64  `json:"urls"` // pending URLs
	// PutOff counts the URLs whose next try is later than the wait limit.
	PutOff int64   `json:"put_off,omitempty"`
	NextS  float64 `json:"next_s"` // seconds until its next try
	// Fails counts consecutive failures.
	Fails uint32 `json:"fails,omitempty"`
	Why   string `json:"why,omitempty"` // the last failure, or the delay that the site requires
}

const (
	// maxWaits limits the reasons accepted from a peer, maxExamples the hosts of each.
	maxWaits    = 64
	maxExamples = 4
)

// AddWaits merges the reports of two peers by reason; neither is changed.
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
		a = slices.Clone(a) // the caller's slice stays unchanged
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

// sooner returns the smaller of two times in seconds; 0 is none.
func sooner(a, b float64) float64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
