package visits

import (
	"fmt"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/worker/reports"
)

// TestHangsAreRemembered: a lease may end between two requests that hang, and the host is no other
// for that. Of too many hosts all are forgotten.
func TestHangsAreRemembered(t *testing.T) {
	first := &reports.Item{}
	var h hangs
	h.answered(time.Second)
	m := make(hung)
	if m.leave("a", h); len(m) != 0 {
		t.Error("a host of which nothing hangs is remembered")
	}
	if owed := h.hung(20 * time.Second); owed != time.Second {
		t.Errorf("%v counts for the first that hangs, want what the last answer took", owed)
	}
	m.leave("a", h)
	if h = m.back("a"); h.headWithin(first) != headTimes*time.Second || len(m) != 0 {
		t.Errorf("the head is waited for for %v under the next lease", h.headWithin(first))
	}
	h.hung(10 * time.Second)
	if owed := h.hung(10 * time.Second); owed != 10*time.Second {
		t.Errorf("%v counts for the third in a row, want all of it", owed)
	}
	for i := range 3 * maxHung {
		m.leave(fmt.Sprint(i), h)
	}
	if len(m) > maxHung {
		t.Errorf("%d hosts are remembered", len(m))
	}
}
