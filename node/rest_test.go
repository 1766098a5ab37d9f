package node

import (
	"testing"
	"time"
)

// A peer that has requested nothing for a while gives its memory back once, and again after the next crawl.
func TestRest(t *testing.T) {
	var r rest
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		at       time.Duration
		requests int64
		want     bool
	}{
		{0, 0, false},
		{restAfter - 1, 0, false},
		{restAfter, 0, true},
		{2 * restAfter, 0, false},
		{10 * restAfter, 0, false},
		{11 * restAfter, 7, false},
		{11*restAfter + restEvery, 9, false},
		{12 * restAfter, 9, false},
		{12*restAfter + restEvery, 9, true},
		{20 * restAfter, 9, false},
	} {
		if got := r.begins(begin.Add(step.at), step.requests); got != step.want {
			t.Errorf("after %v, %d requests: rest %v, want %v", step.at, step.requests, got, step.want)
		}
	}
}
