package mend

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/owner/links"
	"github.com/apoidea/apoidea/crawl/owner/salvage"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dedup"
	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node"
	"github.com/apoidea/apoidea/node/services/jobs"
	"github.com/apoidea/apoidea/node/services/urlsets"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
)

// rebuilding is a new database in the making.
type rebuilding struct {
	*repair
	src   source
	dst   *storage.Store
	jobs  *jobsRead
	owner *owner.Owner
	kvs   []kv.Record
	named ring.Pos // the host of the last record, if its own record came or was made
	// alone says that no other peer was ever met: every page of the archive is then of a host of
	// this peer.
	alone bool
	// nameless are the keys of URLs of which only the hash is left.
	nameless map[string]struct{}
	again    map[job.ID]bool // jobs of which something waits once more
}

// rebuild writes a new database from what can be read of the records, and from the archive.
func (r *repair) rebuild(ctx context.Context) (err error) {
	src, err := r.origin() //nolint:contextcheck // the library takes one, and reads a file without it
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.close()) }()
	if err := os.RemoveAll(r.path(draftName)); err != nil {
		return err
	}
	dst, err := storage.Open(r.path(draftName), storage.Options{})
	if err != nil {
		return err
	}
	b := &rebuilding{repair: r, src: src, dst: dst, nameless: make(map[string]struct{}), again: make(map[job.ID]bool)}
	err = b.run(ctx)
	r.mended.Rebuilt = err == nil
	return errors.Join(err, dst.Close())
}

func (b *rebuilding) run(ctx context.Context) error {
	for _, step := range []func() error{b.about, b.copyRest, b.bodies, b.books, func() error { return b.standIn(ctx) }, b.open, func() error { return b.hosts(ctx) }} {
		if err := errors.Join(ctx.Err(), step()); err != nil {
			return err
		}
	}
	if b.lost || b.ahead > 0 {
		if err := b.fromArchive(ctx); err != nil {
			return err
		}
	}
	return b.finish()
}

// incarnationRoom is by how much a peer's count of starts is ahead of the one that is found: the
// latest may be lost, and none may come twice.
const incarnationRoom = 1000

// about brings over what the peer keeps of itself; what is lost of it comes from the copy beside
// the database.
func (b *rebuilding) about() error {
	kept := make(map[string][]byte)
	if err := each(b.src.in(storage.KeyspaceMeta), func(key, value []byte) error {
		kept[string(key)] = value
		return nil
	}); err != nil {
		return err
	}
	copied, err := node.ReadEssentials(b.dir)
	if errors.Is(err, storage.ErrOlder) || errors.Is(err, storage.ErrNewer) {
		return fmt.Errorf("%s: %w", node.EssentialsFile, err)
	}
	if err != nil {
		b.Progress(node.EssentialsFile + " not readable: " + err.Error())
	}
	for name, value := range copied {
		if _, ok := kept[name]; !ok {
			kept[name] = value
			b.mended.did("%s restored from %s", aboutText(name), node.EssentialsFile)
		}
	}
	if id, err := idOf(kept[node.MetaIdentity]); err == nil {
		b.self = id
	} else {
		key, err := p2p.GenerateIdentity(1, func([]peer.ID) int { return 0 })
		if err != nil {
			return err
		}
		if kept[node.MetaIdentity], err = p2p.MarshalIdentity(key); err != nil {
			return err
		}
		if b.self, err = peer.IDFromPrivateKey(key); err != nil {
			return err
		}
		b.mended.did("identity lost; new peer ID: %s", b.self)
	}
	b.alone = len(kept[node.MetaRemembered]) <= len("null")
	p := putter{space: b.dst.Keyspace(storage.KeyspaceMeta)}
	for name, value := range kept {
		if !sound(name, value) {
			b.mended.Unreadable++
			continue
		}
		if name == node.MetaIncarnation {
			value = later(value)
		}
		if err := p.put([]byte(name), value); err != nil {
			return err
		}
	}
	b.mended.Records += int64(len(kept))
	return p.flush()
}

func aboutText(name string) string {
	if strings.HasPrefix(name, jobs.KeyPrefix) {
		return "job"
	}
	return name
}

// sound says whether a value about the peer is one that a run can read.
func sound(name string, value []byte) bool {
	switch {
	case strings.HasPrefix(name, jobs.KeyPrefix):
		_, _, err := jobs.Read(value)
		return err == nil
	case name == node.MetaIdentity || name == node.MetaRing:
		return true
	default:
		return json.Valid(value)
	}
}

func later(value []byte) []byte {
	var n uint64
	if json.Unmarshal(value, &n) != nil {
		return value
	}
	raw, err := json.Marshal(n + incarnationRoom)
	if err != nil {
		return value
	}
	return raw
}

// copyRest brings over keyspaces of which each record stands for itself.
func (b *rebuilding) copyRest() error {
	for _, prefix := range []byte{storage.KeyspaceBodies, storage.KeyspaceServers, storage.KeyspaceDomains, storage.KeyspaceSubnets, storage.KeyspaceCopies} {
		p := putter{space: b.dst.Keyspace(prefix)}
		if err := each(b.src.in(prefix), p.put); err != nil {
			return err
		}
		if prefix == storage.KeyspaceCopies && p.n+int64(len(p.kvs)) > 0 {
			b.alone = false
		}
		if err := p.flush(); err != nil {
			return err
		}
		b.mended.Records += p.n
	}
	return nil
}

// bodies brings over the records of bodies whose page is there.
func (b *rebuilding) bodies() error {
	p := putter{space: b.dst.Keyspace(storage.KeyspaceContent)}
	if err := each(b.src.in(storage.KeyspaceContent), func(key, value []byte) error {
		if rec, err := dedup.ParseRecord(value); err != nil || len(key) != len(dedup.Key{}) {
			b.mended.Unreadable++
			return nil
		} else if b.isGone(&rec) {
			return nil
		}
		return p.put(key, value)
	}); err != nil {
		return err
	}
	err := p.flush()
	b.mended.Records += p.n
	return err
}

// books brings over the records of jobs.
func (b *rebuilding) books() error {
	r := job.NewRegistry(b.dst.Keyspace(storage.KeyspaceJobs))
	return each(b.src.in(storage.KeyspaceJobs), func(key, value []byte) error {
		if _, err := r.Import([]kv.Record{{Key: key, Value: value}}); err != nil {
			b.mended.Unreadable++
			b.mended.did("job not restored: %v", err)
			return nil
		}
		b.mended.Records++
		return nil
	})
}

// open makes the owner that counts the records of hosts anew.
func (b *rebuilding) open() (err error) {
	if b.jobs, err = readJobs(b.dst); err != nil {
		return err
	}
	if b.alone && b.lost { // nobody else keeps the jobs that this peer works for; their seeds are admitted below
		r := job.NewRegistry(b.dst.Keyspace(storage.KeyspaceJobs))
		for id, spec := range b.jobs.spec {
			_, _, err := r.Restore(b.now.UnixMilli(), spec, b.jobs.standing[id])
			if err == nil {
				_, err = r.SeedsSent(b.now.UnixMilli(), id, uint64(len(spec.Seeds)))
			}
			if err != nil {
				return err
			}
		}
	}
	store := b.dst.Keyspace(storage.KeyspaceHosts)
	if err := b.src.in(storage.KeyspaceHosts).Scan(nil, nil, func(key, value []byte) bool {
		r, rerr := salvage.ReadRecord(key, value)
		if rerr != nil || r.Kind == salvage.KindDerived {
			return true
		}
		raw, aerr := bytes.Clone(value), error(nil)
		switch r.Kind {
		case salvage.KindAccount:
			raw, aerr = salvage.MendedAccount(value)
		case salvage.KindOwn:
		default:
			return false // those of hosts, behind all that is this peer's own
		}
		if aerr == nil {
			aerr = store.UpdateNoSync(func(w kv.Batch) {
				w.Set(bytes.Clone(key), raw)
			})
		}
		err = aerr
		return err == nil
	}); err != nil {
		return err
	}
	if err != nil {
		return err
	}
	sets := urlsets.New(dedup.Exact, setsMemory)
	b.owner, err = owner.New(owner.DefaultConfig(string(b.self)), store, sets, b.jobs, everything{}, b.now)
	if err == nil {
		sets.ReadFrom(b.owner)
	}
	return err
}

const (
	// setsMemory bounds the filters of the URL sets, in bytes.
	setsMemory = 64 << 20
	// atOnce is how many records are imported, or links admitted, in one step.
	atOnce = 512
)

// step does something as one step of the owner.
func (b *rebuilding) step(fn func() error) error {
	b.owner.Begin(b.now)
	if err := fn(); err != nil {
		return err
	}
	_, err := b.owner.Commit()
	return err
}

// hosts brings over the records of hosts, in key order, with those that are lost made to wait
// again.
func (b *rebuilding) hosts(ctx context.Context) error {
	hosts := b.src.in(storage.KeyspaceHosts)
	n := 0
	if err := each(hosts, func(key, value []byte) error {
		r, err := salvage.ReadRecord(key, value)
		if err != nil {
			b.mended.Unreadable++
			return nil
		}
		if r.Kind == salvage.KindDerived || r.Kind == salvage.KindAccount || r.Kind == salvage.KindOwn {
			return nil
		}
		if err := b.host(hosts, &r); err != nil {
			return err
		}
		rec := kv.Record{Key: key, Value: value}
		switch r.Kind {
		case salvage.KindDone:
			if b.isLost(r.Final) {
				b.mended.again(r.URL)
				b.again[r.Job] = true
				rec = salvage.AgainRecord(r.Job, r.Final)
			}
		case salvage.KindMember:
			if _, ok, err := hosts.Get(r.Beside); err != nil || ok {
				return err
			}
			b.nameless[string(key)] = struct{}{}
			return nil
		default:
		}
		b.kvs = append(b.kvs, rec)
		if n++; len(b.kvs) < atOnce {
			return nil
		}
		return errors.Join(ctx.Err(), b.flush())
	}); err != nil {
		return err
	}
	b.mended.Records += int64(n)
	return b.flush()
}

// host sees to it that the record of a host itself comes before the others.
func (b *rebuilding) host(hosts records, r *salvage.Read) error {
	if r.Pos == b.named {
		return nil
	}
	b.named = r.Pos
	if r.Kind == salvage.KindHost {
		return nil
	}
	name, err := salvage.NameOf(hosts, r.Pos)
	if err != nil || name == "" {
		return err // what is left of it is refused, and told
	}
	b.kvs = append(b.kvs, salvage.HostRecord(name))
	return nil
}

func (b *rebuilding) flush() error {
	kvs := b.kvs
	b.kvs = nil
	return b.bring(kvs)
}

// bring has the owner take records.
func (b *rebuilding) bring(kvs []kv.Record) error {
	return b.step(func() error {
		return b.owner.Mend(kvs, func(kv.Record, error) { b.mended.Unreadable++ })
	})
}

// fromArchive gives back what the archive knows: outcomes of pages that the records have forgotten,
// records of bodies, and the links of all pages.
func (b *rebuilding) fromArchive(ctx context.Context) error {
	records := b.dst.Keyspace(storage.KeyspaceContent)
	content, err := dedup.NewContent(records, 0, 0)
	if err != nil {
		return err
	}
	before := b.owner.Totals().URLsSeen
	if err := b.seeds(); err != nil {
		return err
	}
	if err := b.eachPage(ctx, func(p *page) error {
		if err := b.body(content, p); err != nil {
			return err
		}
		return b.restore(p)
	}, true); err != nil {
		return err
	}
	b.mended.FoundTotal = b.owner.Totals().URLsSeen - before - b.mended.Restored
	if b.mended.FoundTotal > 0 {
		for id := range b.jobs.spec {
			b.again[id] = true
		}
	}
	hosts := b.dst.Keyspace(storage.KeyspaceHosts)
	for key := range b.nameless {
		ok, err := hosts.Has([]byte(key))
		if err != nil {
			return err
		}
		if !ok {
			b.mended.Nameless++
		}
	}
	return nil
}

// seeds admits the seeds of all jobs once more.
func (b *rebuilding) seeds() error {
	for id, spec := range b.jobs.spec {
		for part := range slices.Chunk(spec.Seeds, atOnce) {
			var list []found
			for _, url := range part {
				list = append(list, found{url: url})
			}
			if err := b.admit(id, list); err != nil {
				return err
			}
		}
	}
	return nil
}

// body notes where a body lies.
func (b *rebuilding) body(content *dedup.Content, p *page) error {
	if o := p.outcome(); o != link.OutcomeOK || p.revisit || p.size <= 0 || len(p.digest) != 32 || len(p.id) != 16 || b.self == "" {
		return nil
	}
	_, err := content.ConfirmAll([]dedup.Confirmation{{
		Key:    dedup.Key(ring.ContentKey(p.digest)),
		Record: dedup.Record{URL: p.url, Peer: string(b.self), RecordID: recordID(p.id), Date: p.date},
	}})
	return err
}

// recordID is the ID of a WARC record as records of bodies have it.
func recordID(id []byte) string {
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// restore gives a page its outcome back where it has none, and admits its links.
func (b *rebuilding) restore(p *page) error {
	if !b.alone && !b.knowsHost(p.host) {
		return nil
	}
	var fates []owner.Fate
	if err := b.step(func() error {
		fates = b.owner.Why(p.url)
		return nil
	}); err != nil {
		return err
	}
	depths := make(map[job.ID]uint32) // of the jobs that have it as done
	for i := range fates {
		if f := &fates[i]; f.State == "done" {
			depths[f.Job] = f.Final.Depth
		}
	}
	if len(depths) == 0 && p.concluded() {
		for _, id := range b.jobsOf(p, fates) {
			depths[id] = p.depth
			if err := b.conclude(id, p); err != nil {
				return err
			}
		}
	}
	for id, depth := range depths {
		if err := b.links(id, depth, p); err != nil {
			return err
		}
	}
	return nil
}

// knowsHost says whether a host is known here.
func (b *rebuilding) knowsHost(name string) (known bool) {
	_ = b.step(func() error {
		_, known = b.owner.Host(name)
		return nil
	})
	return known
}

// elsewhere names the lost pages of hosts that others of the ring answer for.
func (b *rebuilding) elsewhere() {
	for i := range b.report.Findings {
		f := &b.report.Findings[i]
		if f.Area != Archive || f.Note || b.alone {
			continue
		}
		for _, url := range f.URLs {
			if b.knowsHost(link.Host(url)) {
				continue
			}
			if b.mended.ElsewhereTotal++; len(b.mended.Elsewhere) < maxNamed {
				b.mended.Elsewhere = append(b.mended.Elsewhere, url)
			}
		}
	}
}

// jobsOf are the jobs that a page which no job has as done belongs to: those where it waits, else
// those that would admit it.
func (b *rebuilding) jobsOf(p *page, fates []owner.Fate) (ids []job.ID) {
	for i := range fates {
		if fates[i].State != "unknown" {
			ids = append(ids, fates[i].Job)
		}
	}
	if len(ids) > 0 {
		return ids
	}
	for id, spec := range b.jobs.spec {
		if links.Refusal(spec, p.url, p.depth, link.KindPage, spec.MayReach("", link.Host(p.url))) == "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// conclude gives a URL its outcome.
func (b *rebuilding) conclude(id job.ID, p *page) error {
	b.mended.Restored++
	return b.bring([]kv.Record{salvage.HostRecord(p.host), salvage.DoneRecord(id, p.final(string(b.self)))})
}

// found is a link.
type found struct {
	url   string
	depth uint32
	kind  link.Kind
}

// links admits the links of a page.
func (b *rebuilding) links(id job.ID, depth uint32, p *page) error {
	var list []found
	if p.outcome() == link.OutcomeRedirect {
		list = append(list, found{url: p.location, depth: depth})
	}
	p.followed(func(url string, kind link.Kind) {
		f := found{url: url, depth: depth + 1, kind: kind}
		if kind == link.KindRequisite {
			f.depth = depth
		}
		list = append(list, f)
	})
	for part := range slices.Chunk(list, atOnce) {
		if err := b.admit(id, part); err != nil {
			return err
		}
	}
	return nil
}

// admit offers links to the owner as another owner would.
func (b *rebuilding) admit(id job.ID, list []found) error {
	m := &wire.Links{Rules: link.RulesVersion, JobIds: [][]byte{id[:]}}
	for i := range list {
		m.Url = append(m.Url, []byte(list[i].url))
		m.Job = append(m.Job, 0)
		m.Depth = append(m.Depth, list[i].depth)
		m.Kind = append(m.Kind, byte(list[i].kind))
	}
	return b.step(func() error {
		b.owner.Links(m)
		return nil
	})
}

// finish has jobs run again of which something waits once more, and puts all of it on the disk.
func (b *rebuilding) finish() error {
	b.elsewhere()
	meta := b.dst.Keyspace(storage.KeyspaceMeta)
	registry := job.NewRegistry(b.dst.Keyspace(storage.KeyspaceJobs))
	for _, id := range slices.SortedFunc(maps.Keys(b.again), func(a, c job.ID) int { return bytes.Compare(a[:], c[:]) }) {
		if b.jobs.standing[id].State != job.StateDone {
			continue
		}
		key := append([]byte(jobs.KeyPrefix), id[:]...)
		value, ok, err := meta.Get(key)
		if err != nil {
			return err
		}
		if ok {
			if value, err = jobs.Resumed(value); err != nil {
				return err
			}
			if err := meta.UpdateNoSync(func(w kv.Batch) { w.Set(key, value) }); err != nil {
				return err
			}
		}
		_, _, err = registry.SetState(time.Now().UnixMilli(), id, job.Standing{State: job.StateRunning})
		if err != nil && !errors.Is(err, job.ErrUnknown) && !errors.Is(err, job.ErrSignature) { // what comes late of a job that is done is crawled all the same
			return err
		}
		b.mended.did("job %s reopened", id)
	}
	return meta.Sync()
}
