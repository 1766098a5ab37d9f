package mend

import (
	"context"
	"encoding/json"
	"errors"
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
	"github.com/apoidea/apoidea/node/services/jobs"
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
	x.Progress("checking: database")
	if err := x.database(); err != nil { //nolint:contextcheck // the library takes one, and reads a file without it
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	x.Progress("checking: archive")
	if err := x.archive(ctx); err != nil {
		return err
	}
	x.Progress("checking: records")
	if x.store != nil {
		if err := x.records(ctx); err != nil {
			return err
		}
	}
	return x.beside()
}

// What findings mean for the crawl.
const (
	meansRecords = "outcomes and pending URLs in it are unreadable; repair restores them from the archive, and the next run crawls the rest"
	meansOpen    = "the peer does not start; repair recovers readable records into a new database"
	meansPages   = "pages lost; after repair the next run crawls them. If the WARC file was moved, rename its index to FILE.cdxj.moved first"
	meansIndex   = "no page is lost; repair regenerates the index"
	meansCrash   = "normal after a kill; no acknowledged data is lost"
)

// database looks at the files of the database, and opens it.
func (x *examination) database() error {
	if x.lock == nil || x.interrupted() {
		x.lost = true
		x.report.add(Finding{Area: Database, Found: "missing", Means: meansOpen})
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
			Area: Database, Found: "the identity of the peer is missing",
			Means: "a run would start as another peer, without these pages; repair restores it from the file " + node.EssentialsFile + ", if readable",
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
		f.Means = "records in it are lost; repair finds them in the database, and the next run crawls them"
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
	if x.store == nil || x.self == "" {
		return nil
	}
	if err := node.CheckEssentials(x.dir, x.self); err != nil {
		x.report.add(Finding{
			Area: Beside, Where: node.EssentialsFile, Found: err.Error(), Note: errors.Is(err, fs.ErrNotExist),
			Means: "the copy of identity and jobs is unreadable; nothing is lost, and the next run writes a new copy",
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
			x.report.add(Finding{Area: Records, Where: name, Found: "invalid JSON", Means: "the peer does not start or ignores it; repair removes it"})
		}
		return true
	})
}
