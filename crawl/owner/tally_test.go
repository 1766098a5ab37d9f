package owner

import (
	"testing"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

// TestTally: what is counted of a job on hosts is its sum on the peer, whatever happens, and nothing is left of a host that goes.
func TestTally(t *testing.T) {
	js := new(jobState)
	all := &js.c
	one, other := newTally(js, ondisk.Counters{MinDepth: 9}), newTally(js, ondisk.Counters{MinDepth: 9})
	late, paid := &ondisk.Pending{Spot: ondisk.Spot{Due: 5}}, &ondisk.Pending{Promised: true}
	page := &ondisk.Final{Outcome: link.OutcomeOK, Size: 100, LeftOut: 2}
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
	if one.out != 2 || one.outD != 1 || one.outP != 1 || all.out != 2 || one.MinDepth != 2 || other.MinDepth != 4 {
		t.Errorf("%d out, %d delayed, %d promised; %d in all; depths %d and %d", one.out, one.outD, one.outP, all.out, one.MinDepth, other.MinDepth)
	}
	one.returned(late)
	one.waits(-1)
	one.concluded(page)
	other.concluded(&ondisk.Final{Outcome: link.OutcomeTimeout})
	other.corrected(&ondisk.Final{Outcome: link.OutcomeTimeout}, page)
	if all.Accepted != 6 || all.Done() != 2 || all.Outcomes[link.OutcomeOK] != 2 || all.Bytes != 200 || all.LeftOut != 4 || all.Requests != 1 || all.Delayed != 0 || all.Promised != 1 {
		t.Errorf("in all %+v", all)
	}
	if one.shallower(2) || !one.shallower(1) {
		t.Error("the smallest depth is not kept")
	}
	one.fails(link.OutcomeDNS, 7)
	if one.DownUntil != 7 || !one.answers() || one.answers() || one.Down != link.OutcomeNone {
		t.Errorf("down with %v until %d", one.Down, one.DownUntil)
	}
	in := ondisk.Counters{Requests: 5, Refetched: 1, Cut: 1, Trap: true, Admission: domain.Admitted}
	if !one.merge(&in) || one.merge(&in) || one.Requests != 5 || all.Requests != 5 || all.Cut != 2 || !one.Trap || one.Admission != domain.Admitted {
		t.Errorf("merged %+v, in all %+v", one.Counters, all.Counters)
	}
	one.returned(paid)
	one.leave()
	other.leave()
	if *all != (sums{}) {
		t.Errorf("left in the sums: %+v", all)
	}
}
