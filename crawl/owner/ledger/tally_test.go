package ledger

import (
	"testing"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/buffer"
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
	l := New(buffer.New(nil), unseen{}, nil)
	j := &Job{Spec: &job.Spec{}}
	one, other := l.Open(j, ring.Pos{1}, new(numbers)), l.Open(j, ring.Pos{2}, new(numbers))
	one.c.MinDepth, other.c.MinDepth = 9, 9
	late, paid := &ondisk.Pending{Spot: ondisk.Spot{Due: 5}}, &ondisk.Pending{Promised: true}
	page := &ondisk.Final{Outcome: link.OutcomeOK, Size: 100, LeftOut: 2}
	for hash := range uint64(3) {
		one.Learn(hash, 2)
		other.Learn(hash, 4)
	}
	one.Requested()
	one.waits(1)
	one.Lease(late)
	one.promises(1)
	one.Lease(paid)
	other.CutLink()
	other.Refetched()
	if one.out != 2 || one.outDelayed != 1 || one.outPaid != 1 || j.out != 2 || one.c.MinDepth != 2 || other.c.MinDepth != 4 {
		t.Errorf("%d out, %d delayed, %d promised; %d in all; depths %d and %d", one.out, one.outDelayed, one.outPaid, j.out, one.c.MinDepth, other.c.MinDepth)
	}
	one.Returned(late)
	one.waits(-1)
	one.Conclude(&ondisk.Pending{}, *page)
	other.Conclude(&ondisk.Pending{}, ondisk.Final{Outcome: link.OutcomeTimeout})
	other.Correct(0, &ondisk.Final{Outcome: link.OutcomeTimeout}, page)
	if all := j.Sums(); all.Accepted != 6 || all.Done() != 2 || all.Outcomes[link.OutcomeOK] != 2 || all.Bytes != 200 || all.LeftOut != 4 || all.Requests != 1 || all.Delayed != 0 || all.Promised != 1 {
		t.Errorf("in all %+v", all)
	}
	one.Shallower(2)
	if one.Shallower(1); one.c.MinDepth != 1 {
		t.Error("the smallest depth is not kept")
	}
	one.Fail(link.OutcomeDNS, 7)
	if down, until := one.Down(); down != link.OutcomeDNS || until != 7 {
		t.Errorf("down with %v until %d", down, until)
	}
	one.Answers()
	if down, _ := one.Down(); down != link.OutcomeNone {
		t.Errorf("it answers, and is down with %v", down)
	}
	in := ondisk.Counters{Requests: 5, Refetched: 1, Cut: 1, Trap: true, Admission: domain.Admitted}
	l.Changed(func(*Account) {})
	one.Merge(&in)
	news := l.Len()
	l.Changed(func(*Account) {})
	if one.Merge(&in); news != 1 || l.Len() != 0 || one.Requests() != 5 || j.sums.Requests != 5 || j.sums.Cut != 2 || !one.Trap() || one.Admission() != domain.Admitted {
		t.Errorf("merged %+v, in all %+v", one.c, j.sums)
	}
	one.Returned(paid)
	one.Leave()
	other.Leave()
	if j.sums != (ondisk.Counters{}) || j.out != 0 {
		t.Errorf("left in the sums: %+v", j)
	}
}
