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
	if err := t.crawlRing(ctx, r, b, filepath.Join(o.work, fmt.Sprintf("r%d", number))); err != nil {
		r.fail("%v", err)
	}
	if r.asked = int(b.requests() - before); r.asked > r.may {
		r.fail("%d requests, %d were needed", r.asked, r.may)
	}
	r.took = time.Since(began)
	return r
}

func (t *trial) crawlRing(ctx context.Context, r *result, b *bases, work string) error {
	if err := os.MkdirAll(work, 0o700); err != nil {
		return err
	}
	args := append([]string{"--profile", "lab", "--allow-private", "--dashboard", "off", "--delay", "300ms", "--until-idle"}, b.seed...)
	peers := make([]*harness.Peer, ringPeers)
	before := b.requests()
	for i := range peers {
		more := args
		if i > 0 {
			addrs, err := peers[0].Addrs(ctx)
			if err != nil {
				return err
			}
			more = append([]string{"--bootstrap", addrs[0]}, args...)
		}
		p, err := harness.Start(ctx, work, "p"+strconv.Itoa(i), nil, more...)
		if err != nil {
			return err
		}
		peers[i] = p
		if _, err := p.Ready(ctx, true); err != nil {
			return err
		}
	}
	for b.requests() < before+100 && harness.Sleep(ctx, 10*time.Millisecond) == nil {
	}
	hurt := peers[1]
	hurt.Signal(syscall.SIGKILL)
	<-hurt.Done
	if err := t.harm(hurt.Dir); err != nil {
		return err
	}
	t.mend(ctx, r, hurt.Dir)
	p, err := harness.Start(ctx, work, "p1", nil, args...) // it finds the ring by what it remembers
	if err != nil {
		return err
	}
	peers[1] = p
	urls := make(map[string]string)
	for _, p := range peers {
		select {
		case <-p.Done:
		case <-ctx.Done():
			return fmt.Errorf("%s does not end: %w", filepath.Base(p.Dir), ctx.Err())
		}
	}
	for _, p := range peers {
		if p.Err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(p.Dir), p.Err)
		}
		list, err := outcomes(ctx, p.Dir)
		if err != nil {
			return err
		}
		maps.Copy(urls, list)
	}
	for url := range b.pages {
		if o := urls[url]; o != "ok" && o != "duplicate" && o != "noindex" {
			if r.lost++; r.lost <= 3 {
				r.fail("%s ended as %q", url, o)
			}
		}
	}
	return nil
}
