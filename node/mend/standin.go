package mend

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/trap"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/node"
	"github.com/apoidea/apoidea/node/services/jobs"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
)

// standIn makes a job of what the archive tells where none is known any more, as outcomes are those
// of a job: its seeds are the pages that no link led to, and it is bounded by their hosts, or by
// all that are in the archive if there are others. What other bounds there were nobody knows.
func (b *rebuilding) standIn(ctx context.Context) error {
	if known, err := readJobs(b.dst); !b.lost || err != nil || len(known.spec) > 0 {
		return err
	}
	var first *page
	var seeds []string
	hosts, others, led := make(map[string]bool), make(map[string]bool), make(map[string]bool)
	if err := b.eachPage(ctx, func(p *page) error {
		if !p.concluded() || strings.HasSuffix(p.url, "/robots.txt") {
			return nil
		}
		if first == nil {
			first = p
		}
		if p.seed && p.location != "" {
			led[p.location] = true
		}
		if !p.seed || led[p.url] || strings.HasSuffix(p.mime, "/xml") || len(seeds) == wire.MaxSeeds { // a sitemap's depth is that of the seeds
			others[p.host] = true
			return nil
		}
		hosts[p.host] = true
		seeds = append(seeds, p.url)
		return nil
	}, true); err != nil || first == nil {
		return err
	}
	id := job.NewID()
	m := &wire.JobSpec{Id: id[:], CreatedMs: first.date.UnixMilli(), TrapRules: job.TrapRules(trap.Default)}
	if len(seeds) == 0 {
		seeds, hosts[first.host] = []string{first.url}, true
	}
	for _, url := range seeds {
		m.Seeds = append(m.Seeds, []byte(url))
	}
	if maps.Copy(others, hosts); len(others) > len(hosts) {
		m.Scope = slices.Sorted(maps.Keys(others))
		m.Scope = m.Scope[:min(len(m.Scope), wire.MaxScope)]
	}
	spec, err := job.FromWire(m)
	if err == nil {
		err = b.sign(spec)
	}
	if err != nil {
		return err
	}
	value, err := jobs.Made(spec)
	if err != nil {
		return err
	}
	b.mended.did("jobs lost; replacement job %s has %d seeds from the archive and no limits (to end it: apoidea job cancel %[1]s)", id, len(spec.Seeds))
	return b.dst.Keyspace(storage.KeyspaceMeta).UpdateNoSync(func(w kv.Batch) { w.Set(append([]byte(jobs.KeyPrefix), id[:]...), value) })
}

// sign has the peer's identity sign a job: some peers take no other.
func (b *rebuilding) sign(spec *job.Spec) error {
	raw, _, err := b.dst.Keyspace(storage.KeyspaceMeta).Get([]byte(node.MetaIdentity))
	if err != nil {
		return err
	}
	identity, err := p2p.UnmarshalIdentity(raw)
	if err != nil {
		return err
	}
	key, err := node.JobKeyOf(identity)
	if err != nil {
		return err
	}
	return key.Sign(spec)
}
