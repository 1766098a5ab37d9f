package ondisk

import (
	"slices"
	"testing"
)

// TestAtLeavesWhatWasHandedOut: grants, placements and explanations hold a host's addresses while
// others note further ones.
func TestAtLeavesWhatWasHandedOut(t *testing.T) {
	var r Host
	r.At([][]byte{{192, 0, 2, 1}, {192, 0, 2, 2}})
	held := r.Addrs
	want := slices.Clone(held)
	r.At([][]byte{{192, 0, 2, 9}})
	if !slices.EqualFunc(held, want, slices.Equal) {
		t.Errorf("addresses handed out earlier are %v now, want %v", held, want)
	}
	if len(r.Addrs) != 1 || r.Addrs[0][3] != 9 {
		t.Errorf("the host's addresses are %v", r.Addrs)
	}
}
