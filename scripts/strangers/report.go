package main

import (
	"fmt"
	"strings"
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

// report is what was seen during an attack. Times of calls are in milliseconds.
type report struct {
	name   string
	before int64   // heap of the peer that is attacked, in bytes
	heap   int64   // the largest seen of it
	calls  int     // of an honest peer
	busy   int     // calls that were to be repeated later
	p99    float64 // of the calls
	stood  float64 // the longest that the machine kept the trial itself waiting
	// control is p99 of calls to a member that is not attacked, made at the same time.
	control float64
	join    float64 // seconds until a fresh peer had joined
	harness.Verdict
}

// against judges by what was seen at rest.
func (r *report) against(rest *report) {
	if most := heapTimes*max(rest.heap, r.before) + heapSpare; r.heap > most { // it grows with what was crawled
		r.Blame("the heap came to %d MiB, at most %d", r.heap>>20, most>>20)
	}
	if most := callTimes*max(rest.p99, r.control) + milliseconds(callSpare) + r.stood; r.p99 > most {
		r.Blame("calls took up to %.0f ms, at most %.0f", r.p99, most)
	}
	if r.busy > 0 {
		r.Blame("%d of %d calls of an honest peer were turned away", r.busy, r.calls)
	}
}

// print prints the report, and reports whether nothing was wrong.
func (r *report) print() bool {
	if r.heap > 0 {
		r.Notes = append([]string{fmt.Sprintf("heap %d MiB, before %d; %d calls, p99 %.1f ms, of another member %.1f; joined in %.1f s",
			r.heap>>20, r.before>>20, r.calls, r.p99, r.control, r.join)}, r.Notes...)
	}
	_ = r.Print(false, nil, r.name, strings.Join(r.Notes, "; "))
	return len(r.Wrong) == 0
}
