package visits

import (
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/worker/reports"
)

// TestHangs checks what a request that hung counts for, and the timeout of the next one.
func TestHangs(t *testing.T) {
	first := &reports.Item{}
	var h hangs
	h.answered(time.Second)
	if owed := h.hung(20 * time.Second); owed != time.Second {
		t.Errorf("%v counts for the first that hangs, want what the last answer took", owed)
	}
	if within := h.headWithin(first); within != headTimes*time.Second {
		t.Errorf("the timeout of the next head is %v", within)
	}
	h.hung(10 * time.Second)
	if owed := h.hung(10 * time.Second); owed != 10*time.Second {
		t.Errorf("%v counts for the third in a row, want all of it", owed)
	}
}
