package ledger

import (
	"testing"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/dht/ring"
)

// numbers are the sequence of a host.
type numbers uint64

func (n *numbers) Number() uint64 { *n++; return uint64(*n) }

// unseen is a filter that nobody asks.
type unseen struct{}

func (unseen) Add(ondisk.SetID, uint64) error { return nil }

// TestCounts: what is counted of a job on hosts is its sum on the peer, whatever happens, and
// nothing is left of a host that goes.
func TestCounts(t *testing.T) {
	l := New(ondisk.NewBuffer(nil), unseen{}, nil)
	j := &Job{Spec: &job.Spec{}}
	one, other := l.Open(j, ring.Pos{1}, new(numbers)), l.Open(j, ring.Pos{2}, new(numbers))
	late, paid := &ondisk.Pending{Spot: ondisk.Spot{Due: 5}}, &ondisk.Pending{Promised: true}
	page := &ondisk.Final{Outcome: link.OutcomeOK, Size: 100, LeftOut: 2}
	for hash := range uint64(3) {
		one.Learn(hash)
		other.Learn(hash)
	}
	one.Requested()
	one.Tally.waits(1)
	one.Lease(late)
	one.Tally.promises(1)
	one.Lease(paid)
	other.CutLink()
	other.Refetched()
	if one.Tally.out != 2 || one.Tally.outDelayed != 1 || one.Tally.outPaid != 1 || j.out != 2 {
		t.Errorf("%d out, %d delayed, %d promised; %d in all", one.Tally.out, one.Tally.outDelayed, one.Tally.outPaid, j.out)
	}
	one.Returned(late)
	one.Tally.waits(-1)
	one.Conclude(&ondisk.Pending{}, *page)
	other.Conclude(&ondisk.Pending{}, ondisk.Final{Outcome: link.OutcomeTimeout})
	other.Correct(0, &ondisk.Final{Outcome: link.OutcomeTimeout}, page)
	if all := j.Sums(); all.Accepted != 6 || all.Done() != 2 || all.Outcomes[link.OutcomeOK] != 2 || all.Bytes != 200 || all.LeftOut != 4 || all.Requests != 1 || all.Delayed != 0 || all.Promised != 1 {
		t.Errorf("in all %+v", all)
	}
	one.Fail(link.OutcomeDNS, 7)
	if c := one.Tally.c; c.Down != link.OutcomeDNS || c.DownUntil != 7 {
		t.Errorf("down with %v until %d", c.Down, c.DownUntil)
	}
	one.Answers()
	if one.Tally.c.Down != link.OutcomeNone {
		t.Errorf("it answers, and is down with %v", one.Tally.c.Down)
	}
	in := ondisk.Counters{Requests: 5, Refetched: 1, Cut: 1, Trap: true, Admission: domain.Admitted}
	l.Changed(func(*Account) {})
	one.Merge(&in)
	news := l.Len()
	l.Changed(func(*Account) {})
	if one.Merge(&in); news != 1 || l.Len() != 0 || one.Tally.Requests() != 5 || j.sums.Requests != 5 || j.sums.Cut != 2 || !one.Tally.c.Trap || one.Tally.c.Admission != domain.Admitted {
		t.Errorf("merged %+v, in all %+v", one.Tally.c, j.sums)
	}
	one.Returned(paid)
	one.Tally.Leave()
	other.Tally.Leave()
	if j.sums != (ondisk.Counters{}) || j.out != 0 {
		t.Errorf("left in the sums: %+v", j)
	}
}
