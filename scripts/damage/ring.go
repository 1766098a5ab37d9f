package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/apoidea/apoidea/scripts/harness"
)

const (
	// ringPeers is the number of peers, of which one loses its database.
	ringPeers = 3
	// inFlight is the number of pages that may be fetched twice, as their worker was killed.
	inFlight = 64
	ringTime = 2 * time.Minute
)

// ringTrials are databases of one peer of three, which is killed in the middle of a crawl, repaired
// and started again.
var ringTrials = []trial{
	{name: "ring-manifest-gone", harm: on("db/MANIFEST-*", last, remove), quick: true, ring: true},
	{name: "ring-database-gone", harm: on("db", all, remove), ring: true},
}

// runRing runs a trial in a ring: no outcome may be lost, and few pages may be fetched again.
func (t *trial) runRing(ctx context.Context, o *options, b *bases, number int) *result {
	began := time.Now()
	r := &result{name: t.name, check: "-", repair: "-", may: len(b.pages) + len(b.bare) + inFlight}
	ctx, cancel := context.WithTimeout(ctx, ringTime)
	defer cancel()
	before := b.requests()
	work := filepath.Join(o.work, fmt.Sprintf("r%d", number))
	if err := harness.Try(func() { t.crawlRing(ctx, r, b, work) }); err != nil {
		r.fail("%v", err)
	}
	if r.asked = int(b.requests() - before); r.asked > r.may {
		r.fail("%d requests, %d were needed", r.asked, r.may)
	}
	r.took = time.Since(began)
	return r
}

func (t *trial) crawlRing(ctx context.Context, r *result, b *bases, work string) {
	harness.Check(os.MkdirAll(work, 0o700))
	args := append([]string{"--profile", "lab", "--allow-private", "--dashboard", "off", "--delay", "300ms", "--until-idle"}, b.seed...)
	peers := make([]*harness.Peer, ringPeers)
	before := b.requests()
	for i := range peers {
		more := args
		if i > 0 {
			more = append([]string{"--bootstrap", harness.Must(peers[0].Addrs(ctx))[0]}, args...)
		}
		peers[i] = harness.Must(harness.Start(ctx, work, "p"+strconv.Itoa(i), nil, more...))
		harness.Must(peers[i].Ready(ctx, true))
	}
	for b.requests() < before+100 && harness.Sleep(ctx, 10*time.Millisecond) == nil {
	}
	hurt := peers[1]
	hurt.Signal(syscall.SIGKILL)
	<-hurt.Done
	harness.Check(t.harm(hurt.Dir))
	t.mend(ctx, r, hurt.Dir)
	peers[1] = harness.Must(harness.Start(ctx, work, "p1", nil, args...)) // it finds the ring by what it remembers
	for _, p := range peers {
		select {
		case <-p.Done:
		case <-ctx.Done():
			harness.Check(fmt.Errorf("%s does not end: %w", filepath.Base(p.Dir), ctx.Err()))
		}
	}
	urls := make(map[string]string)
	for _, p := range peers {
		if p.Err != nil {
			harness.Check(p.Ended())
		}
		maps.Copy(urls, harness.Must(outcomes(ctx, p.Dir)))
	}
	for url := range b.pages {
		if o := urls[url]; o != "ok" && o != "duplicate" && o != "noindex" {
			if r.lost++; r.lost <= 3 {
				r.fail("%s ended as %q", url, o)
			}
		}
	}
}
