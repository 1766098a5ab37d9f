package hosts

import (
	"testing"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner/ledger"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/dht/ring"
)

// all is a ring of one peer.
type all struct{}

func (all) Mine(ring.Key) bool { return true }

// unseen is a filter that nobody asks.
type unseen struct{}

func (unseen) Add(ondisk.SetID, uint64) error { return nil }

// emptyBook is that of a job without bounds on a host, before a store that is not there.
func emptyBook() *Job {
	js := &JobState{Job: &ledger.Job{Known: true, Spec: &job.Spec{}}}
	return &Job{State: js, Account: ledger.New(ondisk.NewBuffer(nil), unseen{}, nil).Open(js.Job, ring.Pos{}, new(ondisk.Host))}
}

func newDomains() *Domains {
	s := &Step{Cfg: Config{Admission: true, OptOuts: noOptOuts{}}, Ring: all{}, Now: 1000}
	return &Domains{Step: s, Full: make(map[DomainJob]domain.Verdict)}
}

// TestDomainsAsk: a host with URLs is asked for, now and then until there is an answer.
func TestDomainsAsk(t *testing.T) {
	d := newDomains()
	hj := emptyBook()
	hj.Learn(1)
	h := &Host{Rec: ondisk.Host{Name: "a.site.example"}, Jobs: []*Job{hj}}
	for i, c := range []struct {
		now   int64
		asked int
	}{{1000, 1}, {1001, 1}, {1000 + admissionEvery, 2}} {
		d.Now = c.now
		if again := d.ask(h); len(d.Ready.Admissions) != c.asked || again != hj.askedAt+admissionEvery {
			t.Errorf("look %d: asked %d times, again at %d", i, len(d.Ready.Admissions), again)
		}
	}
	if hj.Admit(domain.Admitted); d.ask(h) != Never || !d.admitted(h, hj) {
		t.Error("an admitted host is asked for")
	}
}
