package repair

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/dedup"
	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/node"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/services/crawling"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/warc"
)

// Check checks the data directory of a stopped peer and changes nothing. It calls progress with
// what it does. It fails with storage.ErrLocked if a peer runs, and with control.KindNoPeer if
// there is no data.
func Check(ctx context.Context, dir string, progress func(doing string)) (*Report, error) {
	c, err := begin(dir, progress, storage.AcquireToRead)
	if err != nil {
		return nil, err
	}
	defer c.end()
	return c.report, c.check(ctx)
}

// checking is one check of a data directory.
type checking struct {
	dir      string
	progress func(doing string)
	lock     *storage.Lock // nil without a database
	report   *Report
	store    *storage.Store // nil if the database is corrupt or missing
	self     peer.ID        // empty if unknown

	held []uint64 // readable exchanges, see exchangeKey; sorted
	// files are the archive files and indexes with defects, unread the URLs whose records were in
	// unreadable bytes.
	files  []string
	unread []string
	lost   []lostPage // outcomes whose page is not in the archive
	bodies [][]byte   // keys of body records whose page is not in the archive
}

// lostPage is a URL of a job whose page is lost.
type lostPage struct {
	job job.ID
	url string
}

// begin locks the data directory, for reading or writing.
func begin(dir string, progress func(doing string), lock func(dir string) (*storage.Lock, error)) (*checking, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	c := &checking{dir: dir, progress: progress, report: &Report{OK: true, DataDir: dir, Findings: []Finding{}}}
	_, err = os.Stat(c.path("db"))
	if err == nil {
		c.lock, err = lock(c.path("db"))
		return c, err
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	_, err = os.Stat(c.path(node.EssentialsFile))
	if paths, _ := warc.Files(crawling.ArchiveDir(dir), true); err != nil && len(paths) == 0 {
		return nil, &control.Error{Kind: control.KindNoPeer, Text: "no data of a peer in " + dir + ": set --data-dir"}
	}
	return c, nil
}

func (c *checking) path(name string) string { return filepath.Join(c.dir, name) }

// end closes the database, which was only read, and unlocks the directory.
func (c *checking) end() {
	c.closeStore()
	if c.lock != nil {
		_ = c.lock.Close()
	}
}

// closeStore closes the database, which was only read: an error is one of its corruption.
func (c *checking) closeStore() {
	if c.store != nil {
		_ = c.store.Close()
		c.store = nil
	}
}

func (c *checking) check(ctx context.Context) error {
	for _, step := range []struct {
		doing string
		do    func(context.Context) error
	}{{"database", c.database}, {"archive", c.archive}, {"records", c.records}, {"other files", c.others}} {
		c.progress("checking: " + step.doing)
		if err := errors.Join(ctx.Err(), step.do(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// The effects of findings on the crawl.
const (
	meansDatabase = "the peer does not start, or stops when it reads this; repair creates a new database with the same identity"
	meansPages    = "pages lost; after repair the next run crawls them. If the WARC file was moved, rename its index to FILE.cdxj.moved first"
	meansIndex    = "no page is lost; repair regenerates the index"
	meansCrash    = "normal after a kill; no acknowledged data is lost"
)

// database reads the whole database.
func (c *checking) database(ctx context.Context) error {
	if c.lock == nil {
		c.report.add(Finding{Area: Database, Found: "missing", Means: meansDatabase})
		return nil
	}
	store, err := storage.Open(c.path("db"), storage.Options{ReadOnly: true, Lock: c.lock})
	if err == nil {
		if err = store.Check(ctx); err == nil {
			err = c.identity(store)
		}
		if err != nil {
			_ = store.Close() // it was only read
		}
	}
	if errors.Is(err, storage.ErrDamaged) {
		c.report.add(Finding{Area: Database, Found: err.Error(), Means: meansDatabase})
		return nil
	}
	if err == nil {
		c.store = store
	}
	return err
}

// identity reads the identity of the peer.
func (c *checking) identity(store *storage.Store) error {
	raw, ok, err := store.Keyspace(storage.KeyspaceMeta).Get([]byte(node.MetaIdentity))
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%w: no identity", storage.ErrDamaged)
	}
	if c.self, err = idOf(raw); err != nil {
		return fmt.Errorf("%w: identity: %w", storage.ErrDamaged, err)
	}
	return nil
}

func idOf(identity []byte) (peer.ID, error) {
	key, err := member.UnmarshalIdentity(identity)
	if err != nil {
		return "", err
	}
	return peer.IDFromPrivateKey(key)
}

// archive reads all files of the archive.
func (c *checking) archive(ctx context.Context) error {
	dir := crawling.ArchiveDir(c.dir)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil // the records name the lost pages
	}
	sorted := false
	checker := warc.Checker{Dir: dir, Report: func(p warc.Problem) {
		if !sorted {
			slices.Sort(c.held)
			sorted = true
		}
		c.archiveProblem(p)
	}, Each: func(url string, date time.Time) error {
		c.report.Exchanges++
		c.held, sorted = append(c.held, exchangeKey(url, date)), false
		return ctx.Err()
	}}
	err := checker.Check()
	slices.Sort(c.held)
	return err
}

var seed = maphash.MakeSeed()

// exchangeKey is a hash of the URL and second of an exchange, which an index has as well.
func exchangeKey(url string, at time.Time) uint64 {
	return maphash.String(seed, url+" "+strconv.FormatInt(at.Unix(), 10))
}

// isHeld reports whether the archive has an exchange.
func (c *checking) isHeld(url string, at time.Time) bool {
	_, ok := slices.BinarySearch(c.held, exchangeKey(url, at))
	return ok
}

func (c *checking) archiveProblem(p warc.Problem) {
	f := Finding{Area: Archive, Where: p.File, Found: p.Text, Means: meansPages, Note: p.Note}
	for i := range p.Lines {
		if !c.isHeld(p.Lines[i].URL, p.Lines[i].Date) {
			f.name(p.Lines[i].URL)
		}
	}
	switch {
	case p.Index:
		f.Area, f.Means = Index, meansIndex
	case p.Note:
		f.Means = meansCrash
	}
	c.report.add(f)
	if !p.Note {
		c.files, c.unread = append(c.files, p.File), append(c.unread, f.URLs...)
	}
}

// pagesAtOnce is the number of outcomes that are read at once.
const pagesAtOnce = 4096

// records compares the outcomes of pages and the records of bodies with the archive.
func (c *checking) records(ctx context.Context) error {
	if c.store == nil {
		return nil
	}
	missing := Finding{Area: Records, Found: "outcomes of pages that are missing from the archive", Means: meansPages}
	var at ondisk.Cursor
	for first := true; first || at != nil; first = false {
		var err error
		if at, err = ondisk.URLsIn(c.store.Keyspace(storage.KeyspaceHosts), at, pagesAtOnce, func(id job.ID, f *ondisk.Final) {
			c.report.URLs++
			if len(f.RecordID) > 0 && f.Holder == string(c.self) && !c.isHeld(f.URL, time.UnixMilli(f.FetchedMs)) {
				missing.name(f.URL)
				c.lost = append(c.lost, lostPage{id, f.URL})
			}
		}); err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
	}
	if len(c.lost) > 0 {
		c.report.add(missing)
	}
	err := c.store.Keyspace(storage.KeyspaceContent).Scan(nil, nil, func(key, value []byte) bool {
		if r, err := dedup.ParseRecord(value); err == nil && r.Peer == string(c.self) && !c.isHeld(r.URL, r.Date) {
			c.bodies = append(c.bodies, slices.Clone(key))
		}
		return true
	})
	if len(c.bodies) > 0 {
		c.report.add(Finding{
			Area: Records, Found: fmt.Sprintf("%d records of bodies refer to pages missing from the archive", len(c.bodies)),
			Means: "a page with such a body would be archived as a revisit of a missing page; repair removes them",
		})
	}
	return err
}

// others checks the files beside database and archive.
func (c *checking) others(context.Context) error {
	if c.store == nil {
		return nil
	}
	if err := node.CheckEssentials(c.dir, c.self); err != nil {
		c.report.add(Finding{
			Area: Beside, Where: node.EssentialsFile, Found: err.Error(), Note: errors.Is(err, fs.ErrNotExist),
			Means: "the copy of identity and jobs is unreadable; nothing is lost, and the next run writes a new copy",
		})
	}
	return nil
}
