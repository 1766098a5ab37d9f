package session

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/wire"
)

// TestHungry: an owner that has URLs and grants none is asked again after a while.
func TestHungry(t *testing.T) {
	b := newBench(t)
	l := b.lease("owner", "a.example", 10)
	b.windows["a.example"] = b.windows["a.example"][:1]
	none := grant("a.example", 1, 0)
	none.More = true
	b.answer("owner", b.message("owner"), &wire.SessionReply{Grants: []*wire.Grant{none}})
	if got := b.with("owner").Due().Sub(b.now); got != 200*time.Millisecond || !l.more {
		t.Errorf("asked again after %v", got)
	}
}

// TestWindow: more is asked for when half of a window is left, by the pace of the host, and one URL
// at a time while all windows are full.
func TestWindow(t *testing.T) {
	for _, tt := range []struct {
		pace time.Duration
		full bool
		left int
		want uint32
	}{
		{0, false, 128, 128},
		{0, false, 129, 0},
		{0, false, 0, 256},
		{time.Second, false, 4, 4},
		{time.Second, false, 5, 0}, // at least eight
		{100 * time.Millisecond, false, 20, 20},
		{0, true, 0, 1},
		{0, true, 1, 0},
	} {
		b := newBench(t)
		l := b.lease("owner", "a.example", 200)
		b.pace, b.full = tt.pace, tt.full
		b.windows["a.example"] = b.windows["a.example"][:tt.left]
		if got := work(b.message("owner"), "a.example").GetWant(); got != tt.want || l.asked != (tt.want > 0) {
			t.Errorf("%+v: wants %d", tt, got)
		}
	}
}

// TestRoom: a machine takes as many hosts as it may, some of them spared from those of one domain,
// and none while it has enough to do.
func TestRoom(t *testing.T) {
	b := newBench(t, func(c *Config) { c.MaxHosts, c.Capacity = 8, 20 })
	var farm []string
	for i := range 10 {
		farm = append(farm, fmt.Sprintf("h%d.farm.example", i))
	}
	if declined := b.offer("owner", farm...); !slices.Equal(declined, []int{6, 7, 8, 9}) {
		t.Errorf("declined %v of a farm", declined)
	}
	if declined := b.offer("owner", "a.example", "b.example", "c.example"); !slices.Equal(declined, []int{2}) {
		t.Errorf("declined %v", declined)
	}
	b.Close(b.now, b.Lease("a.example"), 0, "")
	b.windows["b.example"] = make([]URL, 20)
	if declined := b.offer("owner", "c.example"); len(declined) != 1 {
		t.Error("taken beyond the capacity")
	}
}
