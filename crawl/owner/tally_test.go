package owner

import (
	"testing"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/link"
)

// TestTally: what is counted of a job on hosts is its sum on the peer, whatever happens, and nothing is left of a host that goes.
func TestTally(t *testing.T) {
	js := new(jobState)
	all := &js.c
	one, other := newTally(js, counters{minDepth: 9}), newTally(js, counters{minDepth: 9})
	late, paid := &pending{place: place{due: 5}}, &pending{promised: true}
	page := &Final{Outcome: link.OutcomeOK, Size: 100, LeftOut: 2}
	for range 3 {
		one.found(2)
		other.found(4)
	}
	one.requested()
	one.waits(1)
	one.leased(late)
	one.promises(1)
	one.leased(paid)
	other.cutOne()
	other.refetchedOne()
	if one.out != 2 || one.outD != 1 || one.outP != 1 || all.out != 2 || one.minDepth != 2 || other.minDepth != 4 {
		t.Errorf("%d out, %d delayed, %d promised; %d in all; depths %d and %d", one.out, one.outD, one.outP, all.out, one.minDepth, other.minDepth)
	}
	one.returned(late)
	one.waits(-1)
	one.concluded(page)
	other.concluded(&Final{Outcome: link.OutcomeTimeout})
	other.corrected(&Final{Outcome: link.OutcomeTimeout}, page)
	if all.accepted != 6 || all.done() != 2 || all.outcomes[link.OutcomeOK] != 2 || all.bytes != 200 || all.leftOut != 4 || all.requests != 1 || all.delayed != 0 || all.promised != 1 {
		t.Errorf("in all %+v", all)
	}
	if one.shallower(2) || !one.shallower(1) {
		t.Error("the smallest depth is not kept")
	}
	one.fails(link.OutcomeDNS, 7)
	if one.downUntil != 7 || !one.answers() || one.answers() || one.down != link.OutcomeNone {
		t.Errorf("down with %v until %d", one.down, one.downUntil)
	}
	in := counters{requests: 5, refetched: 1, cut: 1, trap: true, admission: domain.Admitted}
	if !one.merge(&in) || one.merge(&in) || one.requests != 5 || all.requests != 5 || all.cut != 2 || !one.trap || one.admission != domain.Admitted {
		t.Errorf("merged %+v, in all %+v", one.counters, all.counters)
	}
	one.returned(paid)
	one.leave()
	other.leave()
	if *all != (sums{}) {
		t.Errorf("left in the sums: %+v", all)
	}
}
