package main

import (
	"fmt"
	"time"

	"github.com/apoidea/apoidea/scripts/harness"
)

// What others may notice of an attack.
const (
	// heapTimes is how many times as large as at rest the heap may become, and heapSpare so many
	// bytes more.
	heapTimes, heapSpare = 2, 16 << 20
	// callTimes is how many times as long as at rest, or as calls to another member at the same
	// time, the slowest calls may take, and callSpare so much more: all share two processors with
	// the attack and with whatever else the machine runs.
	callTimes, callSpare = 2, 250 * time.Millisecond
	// joinTime is within what a fresh peer has to have joined.
	joinTime = 10 * time.Second
)

// report is what was seen during an attack.
type report struct {
	Name   string  `json:"name"`
	Does   string  `json:"does"`
	Before int64   `json:"before,omitempty"` // heap of the peer that is attacked, in bytes
	Heap   int64   `json:"heap,omitempty"`   // the largest seen of it
	RSS    int64   `json:"rss,omitempty"`
	CPU    float64 `json:"cpu,omitempty"`   // processors that it used
	Calls  int     `json:"calls,omitempty"` // of an honest peer
	Busy   int     `json:"busy,omitempty"`  // of them were told to come back
	P50    float64 `json:"p50_ms,omitempty"`
	P99    float64 `json:"p99_ms,omitempty"`
	Stood  float64 `json:"stood_ms,omitempty"` // the longest that the machine kept the trial itself waiting
	// Control is P99 of calls to a member that is not attacked, made at the same time.
	Control float64 `json:"control_ms,omitempty"`
	Join    float64 `json:"join_s,omitempty"` // until a fresh peer had joined
	harness.Verdict
}

// against judges by what was seen at rest.
func (r *report) against(rest *report) {
	if most := heapTimes*max(rest.Heap, r.Before) + heapSpare; r.Heap > most { // it grows with what was crawled
		r.Blame("the heap came to %d MiB, at most %d", r.Heap>>20, most>>20)
	}
	if most := callTimes*max(rest.P99, r.Control) + milliseconds(callSpare) + r.Stood; r.P99 > most {
		r.Blame("calls took up to %.0f ms, at most %.0f", r.P99, most)
	}
	if r.Busy > 0 {
		r.Blame("%d of %d calls of an honest peer were turned away", r.Busy, r.Calls)
	}
}

// figures are what the table shows.
func (r *report) figures() (list []string) {
	if r.Heap > 0 {
		list = append(list, fmt.Sprintf("heap %d MiB, before %d, rss %d, %.1f processors", r.Heap>>20, r.Before>>20, r.RSS>>20, r.CPU),
			fmt.Sprintf("%d calls, p50 %.1f ms, p99 %.1f, of another member %.1f", r.Calls, r.P50, r.P99, r.Control), fmt.Sprintf("joined in %.1f s", r.Join))
	}
	return append(list, r.Notes...)
}
