package mend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/node"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/jobs"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/warc"
)

// Options say how closely to look.
type Options struct {
	// ReadData has every block of the database and every record of the archive read. Without it
	// what leads to them is looked at.
	ReadData bool
	// Progress, if not nil, is told what is looked at.
	Progress func(doing string)
}

// Check looks at the data directory of a peer that does not run, and changes nothing. It fails with
// storage.ErrLocked where one runs, and with control.KindNoPeer where there is no data.
func Check(ctx context.Context, dir string, o Options) (*Report, error) {
	x, err := begin(dir, o, storage.AcquireToRead)
	if err != nil {
		return nil, err
	}
	defer x.end()
	return x.report, x.check(ctx)
}

// examination is one look at a data directory.
type examination struct {
	Options
	dir    string
	lock   *storage.Lock
	report *Report
	// store is the database, nil if it does not open.
	store *storage.Store
	db    storage.Checked
	self  peer.ID // empty if the identity is lost

	// held are the pages that the archive holds, by URL and second; pages are their URLs, done
	// those with an outcome, hosts those that are known.
	held, done, hosts hashes
	// damaged are the files of the archive with something wrong, indexes those without an archive
	// file.
	damaged []string
	orphans []string
	// unfinished says that a file of the archive was not finished, as where the process was killed.
	unfinished bool
	lost       bool // records of the database were in what cannot be read
	ahead      int64
	missing    int64 // pages that the records speak of and that the archive has not
	dangles    int64 // records of bodies whose page the archive has not
	books      bool  // the records do not add up
}

// begin takes the data directory, by a lock that is one for writing or for reading.
func begin(dir string, o Options, lock func(dir string) (*storage.Lock, error)) (*examination, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	x := &examination{Options: o, dir: dir, report: &Report{OK: true, DataDir: dir, ReadData: o.ReadData, Findings: []Finding{}}}
	if _, err := os.Stat(x.path("db")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	} else if err != nil {
		if _, err := os.Stat(x.path(newName)); err == nil {
			return x, x.acquire(newName, lock)
		}
		_, err := os.Stat(x.path(node.EssentialsFile))
		if paths, _ := warc.Files(x.path("archive"), true); err != nil && len(paths) == 0 {
			return nil, &control.Error{Kind: control.KindNoPeer, Text: "no data of a peer in " + dir + ": set --data-dir"}
		}
		return x, nil
	}
	return x, x.acquire("db", lock)
}

func (x *examination) acquire(name string, lock func(dir string) (*storage.Lock, error)) (err error) {
	x.lock, err = lock(x.path(name))
	return err
}

func (x *examination) path(name string) string { return filepath.Join(x.dir, name) }

func (x *examination) end() {
	if x.store != nil {
		_ = x.store.Close() // it was only read
	}
	if x.lock != nil {
		_ = x.lock.Close()
	}
}

func (x *examination) check(ctx context.Context) error {
	x.Progress("database")
	if err := x.database(); err != nil { //nolint:contextcheck // the library takes one, and reads a file without it
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	x.Progress("archive")
	if err := x.archive(ctx); err != nil {
		return err
	}
	x.Progress("records")
	if x.store != nil {
		if err := x.records(ctx); err != nil {
			return err
		}
	}
	return x.beside()
}

// What findings mean for the crawl.
const (
	meansRecords = "what was crawled, and what waits, is not known any more for the URLs in it: apoidea repair takes it from the archive where it can, and has the rest crawled again"
	meansOpen    = "the peer does not start; apoidea repair brings what can be read into a new database"
	meansPages   = "these pages are lost: apoidea repair has them crawled again; of files that were moved to other storage, put each index back as FILE.cdxj.moved first"
	meansIndex   = "no page is lost; apoidea repair makes the index anew"
	meansCrash   = "nothing that was acknowledged is lost if the process was killed: the next run goes on from there"
)

// database looks at the files of the database, and opens it.
func (x *examination) database() error {
	if x.lock == nil || x.interrupted() {
		x.lost = true
		x.report.add(Finding{Area: Database, Found: "there is none", Means: meansOpen})
		return nil
	}
	var err error
	x.db, err = storage.Check(x.path("db"), x.lock, x.ReadData, func(f storage.Fault) {
		finding := Finding{Area: Database, Where: f.File, Found: f.Text, Means: meansRecords, Note: f.Note}
		if f.Note {
			finding.Means = meansCrash
		}
		x.lost = x.lost || f.Lost && !f.Note
		x.report.add(finding)
	})
	if err != nil {
		return err
	}
	x.store, err = storage.Open(x.path("db"), storage.Options{ReadOnly: true, Lock: x.lock})
	if errors.Is(err, storage.ErrOlder) || errors.Is(err, storage.ErrNewer) { // it is not damaged
		return err
	}
	if err != nil {
		x.store, x.lost = nil, true
		if x.report.OK {
			x.report.add(Finding{Area: Database, Found: err.Error(), Means: meansOpen})
		}
		return nil
	}
	return x.identity()
}

// interrupted says that a repair has written a new database and not yet put it in its place.
func (x *examination) interrupted() bool {
	_, err := os.Stat(x.path("db"))
	return errors.Is(err, fs.ErrNotExist)
}

// identity reads who the peer is.
func (x *examination) identity() error {
	raw, ok, err := x.store.Keyspace(storage.KeyspaceMeta).Get([]byte(node.MetaIdentity))
	if err == nil && ok {
		x.self, err = idOf(raw)
	}
	if err != nil || !ok {
		x.lost = true
		x.report.add(Finding{
			Area: Database, Found: "the peer's identity is not there",
			Means: "a run would begin as another peer, which holds none of these pages; apoidea repair takes it from the file " + node.EssentialsFile + " if that is there",
		})
	}
	return nil
}

func idOf(identity []byte) (peer.ID, error) {
	key, err := p2p.UnmarshalIdentity(identity)
	if err != nil {
		return "", err
	}
	return peer.IDFromPrivateKey(key)
}

// archive looks at the files of the archive.
func (x *examination) archive(ctx context.Context) error {
	dir := x.path("archive")
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil // what the records say of it tells
	}
	open, err := filepath.Glob(filepath.Join(dir, "*.open"))
	if err != nil {
		return err
	}
	x.unfinished = len(open) > 0
	c := warc.Checker{Dir: dir, Data: x.ReadData, Tell: x.tellArchive, Each: func(h *warc.Held) error {
		x.report.Exchanges++
		x.held.add(pageKey(h.URL, h.Date))
		return ctx.Err()
	}}
	return c.Check()
}

// pageKey names a page by URL and time: what an index knows of it as well.
func pageKey(url string, at time.Time) uint64 { return hashOf(url, strconv.FormatInt(at.Unix(), 10)) }

func (x *examination) tellArchive(p warc.Problem) {
	f := Finding{Area: Archive, Where: p.File, Found: p.Text, Means: meansPages, Note: p.Note}
	switch {
	case p.Index:
		f.Area, f.Means = Index, meansIndex
	case p.Note:
		f.Means = meansCrash
	case len(p.URLs) == 0:
		f.Means = "the records that lay there are lost; what the database says of them tells which, and apoidea repair has them crawled again"
	}
	f.name(p.URLs...)
	x.report.add(f)
	if p.Note {
		return
	}
	if strings.HasSuffix(p.File, ".cdxj") && !p.Index {
		x.orphans = append(x.orphans, p.File)
		return
	}
	x.damaged = append(x.damaged, p.File)
}

// beside looks at what lies beside database and archive.
func (x *examination) beside() error {
	spilled, err := filepath.Glob(filepath.Join(x.path("spill"), "spill-*"))
	if err != nil {
		return err
	}
	if len(spilled) > 0 {
		x.report.add(Finding{
			Area: Spill, Where: "spill", Found: fmt.Sprintf("%d files of a run that was killed", len(spilled)), Note: true,
			Means: "their pages were not reported and are fetched again; apoidea repair removes the files",
		})
	}
	if x.store == nil || x.self == "" {
		return nil
	}
	if err := node.CheckEssentials(x.dir, x.self); err != nil {
		x.report.add(Finding{
			Area: Beside, Where: node.EssentialsFile, Found: err.Error(), Note: errors.Is(err, fs.ErrNotExist),
			Means: "the copy of the peer's identity and jobs helps where the database loses them; nothing is lost now, and the next run writes it anew",
		})
	}
	return nil
}

// meta looks at what the peer keeps of itself, which a run reads whole.
func (x *examination) meta() error {
	return x.store.Keyspace(storage.KeyspaceMeta).Scan(nil, nil, func(key, value []byte) bool {
		name := string(key)
		if strings.HasPrefix(name, jobs.KeyPrefix) || name == node.MetaIdentity || name == node.MetaRing {
			return true
		}
		if !json.Valid(value) {
			x.books = true
			x.report.add(Finding{Area: Records, Where: name, Found: "it is not what was written", Means: "the peer does not start, or forgets it; apoidea repair leaves it out"})
		}
		return true
	})
}
