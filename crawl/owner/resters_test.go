package owner

import (
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

// TestRests: of hosts that rest each is noted once, and is found again where it was put when
// another goes; what has rested is forgotten.
func TestRests(t *testing.T) {
	r := &rests{step: &step{cfg: Config{TTL: time.Second}, now: 1000}, away: make(away)}
	var l lru
	var hosts []*host
	for i := range int64(3) {
		h := &host{rec: ondisk.Host{BackoffUntil: 2000 + i}}
		l.touch(h)
		r.note(h)
		r.note(h)
		hosts = append(hosts, h)
	}
	dropped := &host{rec: ondisk.Host{BackoffUntil: 9000}}
	if r.note(dropped); dropped.rester != 0 || len(r.list) != 3 {
		t.Errorf("%d hosts rest, one that is not in memory is number %d", len(r.list), dropped.rester)
	}
	if r.forget(hosts[0]); len(r.list) != 2 || hosts[0].rester != 0 {
		t.Errorf("%d hosts rest, the one that was forgotten is number %d", len(r.list), hosts[0].rester)
	}
	for _, h := range hosts[1:] {
		if r.list[h.rester-1].h != h {
			t.Errorf("number %d is another host", h.rester)
		}
	}
	r.now = 2001 // the second one has rested
	var met []*host
	r.each(func(e *rester) { met = append(met, e.h) })
	if len(met) != 1 || met[0] != hosts[2] || len(r.list) != 1 || hosts[1].rester != 0 {
		t.Errorf("%d hosts are met, %d rest", len(met), len(r.list))
	}
}
