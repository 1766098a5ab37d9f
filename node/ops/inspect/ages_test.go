package inspect

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/owner"
)

// clocks are times as records hold them, and how long ago they were, as far as can be said.
var clocks = map[int64]float64{
	0: 0, -1: 0, math.MinInt64: 0, math.MaxInt64: 0, // unset, or no time at all
	1_770_000_000_000: 0, 1_770_000_005_000: 0, 1_769_999_940_000: 60,
}

// TestAges: what was never set, is to come, or is no time, has no age of 292 years and none below
// zero.
func TestAges(t *testing.T) {
	now := time.UnixMilli(1_770_000_000_000)
	for ms, want := range clocks {
		if got := secondsSince(time.UnixMilli(ms), now); got != want {
			t.Errorf("%d: %v s ago, want %v", ms, got, want)
		}
		f := owner.Fate{State: "waiting", Due: time.UnixMilli(ms), HostUntil: time.UnixMilli(ms), HostWhy: "503"}
		if ms < math.MaxInt64 {
			if l := whyLine(&f, now, now); strings.Contains(strings.ReplaceAll(l.Text, "--patience", ""), "-") || l.DueS < 0 {
				t.Errorf("%d: %q, due in %v s", ms, l.Text, l.DueS)
			}
		}
	}
	if got := secondsSince(time.Time{}, now); got != 0 {
		t.Errorf("a time that is not set was %v s ago", got)
	}
}
