package owner_test

import (
	"fmt"
	"time"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
)

// What the owner asks of its peer: here a ring of one, a single job, and no filter in front of the
// URL sets.
type (
	wholeRing struct{}
	oneJob    struct{ spec *job.Spec }
	noFilter  struct{}
)

func (wholeRing) Mine(ring.Key) bool { return true }

func (j oneJob) Job(id job.ID) (*job.Spec, job.Standing, bool) {
	return j.spec, job.Posted(), id == j.spec.ID
}

func (noFilter) Test(owner.SetID, uint64) (bool, error) { return true, nil }
func (noFilter) Add(owner.SetID, uint64) error          { return nil }
func (noFilter) Drop(owner.SetID)                       {}

// The life of a URL on the owner's side: it is posted, its host is placed and leased to a worker,
// the worker reports an outcome with links (of which one leads out of the job's scope). Each step
// is a Begin with the time, inputs, and a Commit, and nothing leaves before the step is on disk.
func Example() {
	spec, err := job.FromWire(&wire.JobSpec{Id: []byte("sixteen bytes ID"), Seeds: [][]byte{[]byte("http://example.org/")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	o, err := owner.New(owner.DefaultConfig("anna"), crawltest.NewStore(), noFilter{}, oneJob{spec}, wholeRing{}, now)
	if err != nil {
		fmt.Println(err)
		return
	}
	step := func(input func()) owner.Ready {
		o.Begin(now)
		input()
		ready, err := o.Commit()
		if err == nil {
			err = ready.Wait()
		}
		if err != nil {
			fmt.Println(err)
		}
		return ready
	}

	ready := step(func() {
		o.Links(&wire.Links{Rules: link.RulesVersion, JobIds: [][]byte{spec.ID[:]}, Url: [][]byte{[]byte("http://example.org/")}, Job: []uint32{0}, Depth: []uint32{0}})
	})
	host := ready.Places[0].Host
	fmt.Println("who crawls", host+"?")

	ready = step(func() { o.Placed(host, owner.Placement{Worker: "boris"}) })
	fmt.Println("offered to", ready.Offers[0].Worker)

	var reply *wire.SessionReply
	step(func() {
		reply = o.Session("boris", &wire.Session{Incarnation: 1, Seq: 1, Hosts: []*wire.HostWork{{Host: host, Want: 10}}})
	})
	grant := reply.GetGrants()[0]
	fmt.Printf("leased for %d ms: %s\n", reply.GetTtlMs(), grant.GetUrl())

	step(func() {
		reply = o.Session("boris", &wire.Session{
			Incarnation: 1, Seq: 2, Ack: 1,
			Held: []*wire.HostLease{{Host: host, Epoch: grant.GetEpoch()}},
			Hosts: []*wire.HostWork{{Host: host, Epoch: grant.GetEpoch(), Want: 10, Fetched: []*wire.Fetched{{
				Job: spec.ID[:], Url: grant.GetUrl()[0], Outcome: uint32(link.OutcomeOK), Status: 200, RecordId: make([]byte, 16), FetchedMs: now.UnixMilli(),
				Links: [][]byte{[]byte("http://example.org/bees"), []byte("http://elsewhere.example/")},
			}}}},
		})
	})
	fmt.Printf("more under the same lease: %s\n", reply.GetGrants()[0].GetUrl())

	counts := o.Counts(spec.ID)
	fmt.Println(counts.Accepted, "URLs:", counts.Done, "done,", counts.Leased, "with a worker,", counts.Pending, "pending")
	fate := o.Why("http://example.org/")[0]
	fmt.Println(fate.State, fate.Final.Outcome)
	// Output:
	// who crawls example.org?
	// offered to boris
	// leased for 8000 ms: [http://example.org/]
	// more under the same lease: [http://example.org/bees]
	// 2 URLs: 1 done, 1 with a worker, 0 pending
	// done ok
}
