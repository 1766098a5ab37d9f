package mend

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/owner/salvage"
	"github.com/apoidea/apoidea/dedup"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/services/jobs"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/warc"
)

// records compares the records with each other and with the archive.
func (x *examination) records(ctx context.Context) error {
	if err := x.meta(); err != nil {
		return x.unreadable(err)
	}
	jobs, err := readJobs(x.store)
	if err != nil {
		return x.unreadable(err)
	}
	missing := Finding{Area: Records, Found: "records of pages missing from the archive", Means: meansPages}
	waiting := make(map[job.ID]int64)
	hosts := x.store.Keyspace(storage.KeyspaceHosts)
	bad := 0
	err = hosts.Scan(nil, nil, func(key, value []byte) bool {
		r, rerr := salvage.ReadRecord(key, value)
		switch {
		case rerr != nil:
			bad++
		case r.Kind == salvage.KindHost:
			x.hosts.add(hashOf(r.Host))
		case r.Kind == salvage.KindDone:
			x.report.URLs++
			x.done.add(hashOf(r.URL))
			if x.isLost(r.Final) {
				missing.name(r.URL)
			}
		case r.Kind == salvage.KindMember:
			waiting[r.Job]++
		}
		return ctx.Err() == nil
	})
	if err = errors.Join(err, ctx.Err()); err != nil {
		return x.unreadable(err)
	}
	if x.missing = int64(missing.URLsTotal); x.missing > 0 {
		x.report.add(missing)
	}
	if bad > 0 {
		x.books = true
		x.report.add(Finding{Area: Records, Found: fmt.Sprintf("%d unreadable records of hosts", bad), Means: meansRecords})
	}
	for id, n := range waiting {
		if jobs.spec[id] == nil {
			x.report.add(Finding{
				Area: Records, Where: "job " + id.String(), Found: fmt.Sprintf("specification missing, needed by %d URLs", n), Note: true,
				Means: "pending until a ring member sends the job; in a ring of one, post it again",
			})
		}
	}
	if err := x.bodies(); err != nil {
		return x.unreadable(err)
	}
	x.addUp()
	return x.forgotten(ctx)
}

// unreadable makes a finding of damage that reading met.
func (x *examination) unreadable(err error) error {
	if !errors.Is(err, storage.ErrDamaged) {
		return err
	}
	x.lost = true
	if x.report.OK {
		x.report.add(Finding{Area: Database, Found: err.Error(), Means: meansRecords})
	}
	return nil
}

// isLost says whether an outcome speaks of a page in this peer's archive that is not there.
func (x *examination) isLost(f *owner.Final) bool {
	return len(f.RecordID) > 0 && x.self != "" && f.Holder == string(x.self) && !x.held.has(pageKey(f.URL, time.UnixMilli(f.FetchedMs)))
}

// isGone says the same of the record of a body.
func (x *examination) isGone(r *dedup.Record) bool {
	return x.self != "" && r.Peer == string(x.self) && !x.held.has(pageKey(r.URL, r.Date))
}

// bodies reads the records of bodies.
func (x *examination) bodies() error {
	bad := 0
	err := x.store.Keyspace(storage.KeyspaceContent).Scan(nil, nil, func(key, value []byte) bool {
		if len(key) == 0 {
			return true
		}
		r, rerr := dedup.ParseRecord(value)
		switch {
		case rerr != nil || len(key) != len(dedup.Key{}):
			bad++
		case x.isGone(&r):
			x.dangles++
		}
		return true
	})
	if bad > 0 {
		x.books = true
		x.report.add(Finding{Area: Records, Found: fmt.Sprintf("%d unreadable records of bodies", bad), Means: "these bodies would be archived again; repair regenerates the records from the archive"})
	}
	if x.dangles > 0 {
		x.report.add(Finding{
			Area: Records, Found: fmt.Sprintf("%d records of bodies refer to pages missing from the archive", x.dangles),
			Means: "a page with such a body would be archived as a revisit of a missing page; repair removes them",
		})
	}
	return err
}

// addUp has the owner compare its books.
func (x *examination) addUp() {
	o, err := owner.New(owner.DefaultConfig(string(x.self)), x.store.Keyspace(storage.KeyspaceHosts), noSets{}, noJobs{}, everything{}, time.Now())
	if err == nil {
		err = o.Check()
	}
	if err != nil && !x.books {
		x.books = true
		x.report.add(Finding{Area: Records, Found: err.Error(), Means: "counters and URL sets differ: URLs may be crawled twice or never; repair counts them again"})
	}
}

// forgotten finds pages of the archive of which the records say nothing.
func (x *examination) forgotten(ctx context.Context) error {
	f := Finding{Area: Records, Found: "archived pages without a record", Note: x.db.Unclean && x.unfinished}
	f.Means = "the end of the database's log is missing; repair restores outcomes and links from the archive"
	if f.Note {
		f.Means = "normal after a kill, and fetched again; if there are many, the end of the database's log is missing, and repair restores them from the archive"
	}
	if x.self == "" {
		return nil
	}
	err := x.eachPage(ctx, func(p *page) error {
		if p.concluded() && x.hosts.has(hashOf(p.host)) && !x.done.has(hashOf(p.url)) {
			f.name(p.url)
		}
		return nil
	}, false)
	if x.ahead = int64(f.URLsTotal); x.ahead > 0 {
		x.report.add(f)
	}
	return err
}

// jobsRead are the jobs that a database knows.
type jobsRead struct {
	spec     map[job.ID]*job.Spec
	standing map[job.ID]job.Standing
}

// Job implements owner.Jobs.
func (j *jobsRead) Job(id job.ID) (*job.Spec, job.State, bool) {
	s := j.spec[id]
	return s, j.standing[id].State, s != nil
}

func readJobs(s *storage.Store) (*jobsRead, error) {
	j := &jobsRead{spec: make(map[job.ID]*job.Spec), standing: make(map[job.ID]job.Standing)}
	err := each(s.Keyspace(storage.KeyspaceMeta), func(key, value []byte) error {
		if !strings.HasPrefix(string(key), jobs.KeyPrefix) {
			return nil
		}
		if spec, standing, err := jobs.Read(value); err == nil {
			j.spec[spec.ID], j.standing[spec.ID] = spec, standing
		}
		return nil
	})
	return j, err
}

// noSets knows of no URL for sure.
type noSets struct{}

// Test implements owner.Seen.
func (noSets) Test(owner.SetID, uint64) (owner.Verdict, error) { return owner.Maybe, nil }

// Add implements owner.Seen.
func (noSets) Add(owner.SetID, uint64) error { return nil }

// Drop implements owner.Seen.
func (noSets) Drop(owner.SetID) {}

type noJobs struct{}

// Job implements owner.Jobs.
func (noJobs) Job(job.ID) (*job.Spec, job.State, bool) { return nil, job.StateNone, false }

// everything is a ring of which all is this peer's.
type everything struct{}

// Mine implements owner.Ring.
func (everything) Mine(ring.Key) bool { return true }

// eachPage calls fn for every page of the archive, in the order in which they were written,
// whatever is damaged between. With links it reads whole exchanges, else what indexes tell.
func (x *examination) eachPage(ctx context.Context, fn func(*page) error, links bool) error {
	paths, err := warc.Files(x.path("archive"), true)
	if err != nil {
		return nil //nolint:nilerr // no archive has no pages
	}
	for _, path := range paths {
		r := pageReader{path: path, each: fn, links: links}
		if err := r.read(); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}
