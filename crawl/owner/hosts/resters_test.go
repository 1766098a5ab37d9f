package hosts

import (
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

// TestRests: of hosts that rest each is noted once, and is found again where it was put when
// another goes; what has rested is forgotten.
func TestRests(t *testing.T) {
	r := &Rests{Step: &Step{Cfg: Config{TTL: time.Second}, Now: 1000}, Away: make(Away)}
	var l Lru
	var hosts []*Host
	for i := range int64(3) {
		h := &Host{Rec: ondisk.Host{BackoffUntil: 2000 + i}}
		l.touch(h)
		r.note(h)
		r.note(h)
		hosts = append(hosts, h)
	}
	dropped := &Host{Rec: ondisk.Host{BackoffUntil: 9000}}
	if r.note(dropped); dropped.Rester != 0 || len(r.List) != 3 {
		t.Errorf("%d hosts rest, one that is not in memory is number %d", len(r.List), dropped.Rester)
	}
	if r.forget(hosts[0]); len(r.List) != 2 || hosts[0].Rester != 0 {
		t.Errorf("%d hosts rest, the one that was forgotten is number %d", len(r.List), hosts[0].Rester)
	}
	for _, h := range hosts[1:] {
		if r.List[h.Rester-1].H != h {
			t.Errorf("number %d is another host", h.Rester)
		}
	}
	r.Now = 2001 // the second one has rested
	var met []*Host
	r.Each(func(e *Rester) { met = append(met, e.H) })
	if len(met) != 1 || met[0] != hosts[2] || len(r.List) != 1 || hosts[1].Rester != 0 {
		t.Errorf("%d hosts are met, %d rest", len(met), len(r.List))
	}
}
