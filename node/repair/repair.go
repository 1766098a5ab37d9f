package repair

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node"
	"github.com/apoidea/apoidea/node/services/crawling"
	"github.com/apoidea/apoidea/node/services/jobs"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
	"github.com/apoidea/apoidea/storage/warc"
)

// draftName is the directory of the new database until it is complete.
const draftName = "repair-db"

// atOnce is the number of records that one write has.
const atOnce = 512

// repairing is one repair.
type repairing struct {
	*checking
	result *Result
	now    time.Time
	aside  string // directory of corrupt files
	jobs   int    // of a new database
}

// Run repairs what Check finds. With dry it reports what it would do and changes nothing.
func Run(ctx context.Context, dir string, progress func(doing string), dry bool) (*Result, error) {
	c, err := begin(dir, progress, storage.Acquire)
	if err != nil {
		return nil, err
	}
	defer c.end()
	now := time.Now()
	r := &repairing{checking: c, now: now, aside: freeName(c.path("damaged-" + now.UTC().Format("20060102T150405Z")))}
	r.result = &Result{Before: c.report, DryRun: dry, Done: []string{}}
	if err := c.check(ctx); err != nil {
		return r.result, err
	}
	r.count()
	if dry {
		return r.result, nil
	}
	for _, step := range []func() error{r.archiveFiles, func() error { return r.database(ctx) }, r.beside} {
		if err := step(); err != nil {
			return r.result, fmt.Errorf("repair: %w", err)
		}
	}
	if _, err := os.Stat(r.aside); err == nil {
		r.result.Aside = r.aside
	}
	return r.result, nil
}

// freeName returns a name that no file has yet.
func freeName(name string) string {
	free := name
	for i := 2; ; i++ {
		if _, err := os.Lstat(free); err != nil {
			return free
		}
		free = fmt.Sprintf("%s-%d", name, i)
	}
}

// count counts the lost pages: those that the next run crawls again, and those of other owners.
func (r *repairing) count() {
	m := r.result
	here := make(map[string]bool)
	for _, p := range r.lost {
		here[p.url] = true
		if m.AgainTotal++; len(m.Again) < maxNamed {
			m.Again = append(m.Again, p.url)
		}
	}
	for _, url := range r.unread {
		if here[url] || r.store == nil {
			continue
		}
		if m.ElsewhereTotal++; len(m.Elsewhere) < maxNamed {
			m.Elsewhere = append(m.Elsewhere, url)
		}
	}
}

// archiveFiles rewrites files with defects, and moves indexes without a file aside.
func (r *repairing) archiveFiles() error {
	r.progress("repairing: archive")
	dir := crawling.ArchiveDir(r.dir)
	done := make(map[string]bool)
	for _, name := range r.files {
		if strings.HasSuffix(name, ".cdxj") {
			index := name
			if name = fileOf(dir, index); name == "" {
				if err := r.putAside(filepath.Join("archive", index)); err != nil {
					return err
				}
				r.result.did("%s, whose WARC file is missing, moved to %s", index, filepath.Base(r.aside))
				continue
			}
		}
		if done[name] {
			continue
		}
		done[name] = true
		changed, err := warc.Repair(dir, name, filepath.Join(r.aside, "archive"))
		if err != nil {
			return err
		}
		if changed {
			r.result.Files = append(r.result.Files, name)
			r.result.did("%s repaired", name)
		}
	}
	return nil
}

// fileOf returns the name of the archive file that an index belongs to, empty if there is none.
func fileOf(dir, index string) string {
	for _, c := range warc.Compressions() {
		name := strings.TrimSuffix(index, ".cdxj") + warc.Compression(c).Suffix()
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return name
		}
	}
	return ""
}

// putAside moves a file of the data directory to the corrupt ones.
func (r *repairing) putAside(name string) error {
	to := filepath.Join(r.aside, name)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return os.Rename(r.path(name), to)
}

// database repairs the records, or makes a new database.
func (r *repairing) database(ctx context.Context) error {
	switch {
	case r.store == nil:
		r.progress("repairing: database")
		return r.replace(ctx)
	case len(r.lost)+len(r.bodies) > 0:
		r.progress("repairing: records")
		r.closeStore()
		return r.reopen(ctx)
	default:
		return nil
	}
}

// reopen makes lost pages pending, and removes the records of their bodies.
func (r *repairing) reopen(ctx context.Context) (err error) {
	d, err := openDraft(r.path("db"), r.lock, r.self, r.now)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.store.Close()) }()
	again := make(map[job.ID]bool)
	for part := range slices.Chunk(r.lost, atOnce) {
		if err := errors.Join(ctx.Err(), d.step(func() error {
			for _, p := range part {
				again[p.job] = d.owner.Reopen(p.job, p.url) || again[p.job]
			}
			return nil
		})); err != nil {
			return err
		}
	}
	if err := d.store.Keyspace(storage.KeyspaceContent).UpdateNoSync(func(b kv.Batch) {
		for _, key := range r.bodies {
			b.Delete(key)
		}
	}); err != nil {
		return err
	}
	for id := range again {
		if err := d.resume(r.now, id); err != nil {
			return err
		}
		r.result.did("job %s has pages to crawl again", id)
	}
	return d.meta.Sync()
}

// replace makes a new database with the identity and the jobs of the peer, and moves the corrupt
// one aside.
func (r *repairing) replace(ctx context.Context) error {
	kept, err := r.kept()
	if err != nil {
		return err
	}
	if err := os.RemoveAll(r.path(draftName)); err != nil {
		return err
	}
	alone := isAlone(kept)
	if err := r.fill(ctx, kept, alone); err != nil {
		return errors.Join(err, os.RemoveAll(r.path(draftName)))
	}
	// Written before the corrupt database is moved: an interrupted repair continues from it.
	if err := node.WriteEssentials(r.dir, kept); err != nil {
		return err
	}
	if _, err := os.Stat(r.path("db")); err == nil {
		if err := r.putAside("db"); err != nil {
			return err
		}
	}
	if err := os.Rename(r.path(draftName), r.path("db")); err != nil {
		return err
	}
	r.result.NewDatabase = true
	switch {
	case alone && r.jobs == 0:
		r.result.did("new database of peer %s, without jobs: post them again; unchanged pages of the archive become revisit records", r.self)
	case alone:
		r.result.did("new database of peer %s: %d outcomes restored from the archive; the next run finds URLs without an archived page again", r.self, r.result.Restored)
	default:
		r.result.did("new database of peer %s: its records come back from other peers when it joins the ring", r.self)
	}
	return nil
}

// fill writes a new database.
func (r *repairing) fill(ctx context.Context, kept map[string][]byte, alone bool) (err error) {
	d, err := newDraft(r.path(draftName), kept, r.self, r.now)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.store.Close()) }()
	err = d.restore(ctx, r.dir, alone, r.result)
	r.jobs = len(d.jobs)
	return errors.Join(err, d.meta.Sync())
}

// incarnationGap is added to the number of starts: the latest may be lost, and none may be used
// twice.
const incarnationGap = 1000

// kept returns what the new database has of the peer's own state: the readable records of the
// corrupt one, and those of the copy. Without an identity a new one is made.
func (r *repairing) kept() (map[string][]byte, error) {
	kept, err := node.ReadEssentials(r.dir)
	switch {
	case errors.Is(err, storage.ErrOlder) || errors.Is(err, storage.ErrNewer):
		return nil, fmt.Errorf("%s: %w", node.EssentialsFile, err)
	case err != nil:
		kept = make(map[string][]byte)
		if !errors.Is(err, fs.ErrNotExist) {
			r.progress(node.EssentialsFile + " not readable: " + err.Error())
		}
	}
	if err := r.readable(kept); err != nil {
		return nil, err
	}
	if r.self, err = idOf(kept[node.MetaIdentity]); err != nil {
		key, err := member.GenerateIdentity(1, func([]peer.ID) int { return 0 })
		if err != nil {
			return nil, err
		}
		if kept[node.MetaIdentity], err = member.MarshalIdentity(key); err != nil {
			return nil, err
		}
		if r.self, err = peer.IDFromPrivateKey(key); err != nil {
			return nil, err
		}
		r.result.did("identity lost; new peer ID: %s", r.self)
	}
	var starts uint64
	_ = json.Unmarshal(kept[node.MetaIncarnation], &starts) // zero if unknown
	kept[node.MetaIncarnation], err = json.Marshal(starts + incarnationGap)
	kept[node.MetaRecovering] = []byte("true")
	return kept, err
}

// readable adds the readable records of the corrupt database about the peer itself: the copy may be
// older.
func (r *repairing) readable(kept map[string][]byte) error {
	if r.lock == nil {
		return nil
	}
	store, err := storage.Open(r.path("db"), storage.Options{ReadOnly: true, Lock: r.lock})
	if errors.Is(err, storage.ErrDamaged) {
		return nil
	}
	if err != nil {
		return err
	}
	err = store.Keyspace(storage.KeyspaceMeta).Scan(nil, nil, func(key, value []byte) bool {
		kept[string(key)] = bytes.Clone(value)
		return true
	})
	_ = store.Close() // it was only read
	if errors.Is(err, storage.ErrDamaged) {
		return nil
	}
	return err
}

// isAlone reports whether the peer was the only one of its ring.
func isAlone(kept map[string][]byte) bool {
	if memory, err := dht.ParseMemory(kept[node.MetaRing]); err == nil && len(kept[node.MetaRing]) > 0 {
		return memory.Alone
	}
	return len(kept[node.MetaRemembered]) <= len("null")
}

// beside moves a corrupt copy of the essentials aside.
func (r *repairing) beside() (err error) {
	for i := range r.report.Findings {
		if f := &r.report.Findings[i]; f.Area == Beside && !f.Note {
			r.result.did("%s moved to %s; the next run writes a new one", f.Where, filepath.Base(r.aside))
			err = errors.Join(err, r.putAside(f.Where))
		}
	}
	return err
}

// draft is a database with the state machine of the peer's hosts.
type draft struct {
	store *storage.Store
	meta  *storage.Keyspace
	owner *owner.Owner
	jobs  map[job.ID]jobRead
	self  peer.ID
	now   time.Time
}

// jobRead is a job that the database has.
type jobRead struct {
	spec     *job.Spec
	standing job.Standing
}

// newDraft returns a new database with the state of the peer.
func newDraft(dir string, kept map[string][]byte, self peer.ID, now time.Time) (*draft, error) {
	store, err := storage.Open(dir, storage.Options{})
	if err != nil {
		return nil, err
	}
	if err := store.Keyspace(storage.KeyspaceMeta).UpdateNoSync(func(b kv.Batch) {
		for name, value := range kept {
			b.Set([]byte(name), value)
		}
	}); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	if err := store.Close(); err != nil {
		return nil, err
	}
	return openDraft(dir, nil, self, now)
}

// openDraft opens a database to be changed.
func openDraft(dir string, lock *storage.Lock, self peer.ID, now time.Time) (*draft, error) {
	store, err := storage.Open(dir, storage.Options{Lock: lock})
	if err != nil {
		return nil, err
	}
	d := &draft{store: store, meta: store.Keyspace(storage.KeyspaceMeta), jobs: make(map[job.ID]jobRead), self: self, now: now}
	prefix := []byte(jobs.KeyPrefix)
	err = d.meta.Scan(prefix, kv.PrefixEnd(prefix), func(_, value []byte) bool {
		if spec, standing, err := jobs.Read(value); err == nil {
			d.jobs[spec.ID] = jobRead{spec, standing}
		}
		return true
	})
	if err == nil {
		d.owner, err = owner.New(owner.DefaultConfig(string(self)), store.Keyspace(storage.KeyspaceHosts), noSets{}, d, wholeRing{}, now)
	}
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return d, nil
}

// Job implements owner.Jobs.
func (d *draft) Job(id job.ID) (*job.Spec, job.Standing, bool) {
	j, ok := d.jobs[id]
	return j.spec, j.standing, ok
}

// step runs one step of the owner.
func (d *draft) step(fn func() error) error {
	d.owner.Begin(d.now)
	if err := fn(); err != nil {
		return err
	}
	_, err := d.owner.Commit()
	return err
}

// resume lets a done job run again, as some of its URLs are pending.
func (d *draft) resume(now time.Time, id job.ID) error {
	if d.jobs[id].standing.State != job.StateDone {
		return nil
	}
	key := append([]byte(jobs.KeyPrefix), id[:]...)
	value, ok, err := d.meta.Get(key)
	if err != nil || !ok {
		return err
	}
	if value, err = jobs.Resumed(value); err != nil {
		return err
	}
	if err := d.meta.UpdateNoSync(func(b kv.Batch) { b.Set(key, value) }); err != nil {
		return err
	}
	_, _, err = job.NewRegistry(d.store.Keyspace(storage.KeyspaceJobs)).SetState(now.UnixMilli(), id, job.Standing{State: job.StateRunning})
	if errors.Is(err, job.ErrUnknown) || errors.Is(err, job.ErrSignature) {
		return nil // late URLs of a done job are crawled in any case
	}
	return err
}

// noSets looks up every URL in the store.
type noSets struct{}

// Test implements owner.Seen.
func (noSets) Test(owner.SetID, uint64) (bool, error) { return true, nil }

// Add implements owner.Seen.
func (noSets) Add(owner.SetID, uint64) error { return nil }

// Drop implements owner.Seen.
func (noSets) Drop(owner.SetID) {}

// wholeRing is a ring whose keys all belong to this peer.
type wholeRing struct{}

// Mine implements owner.Ring.
func (wholeRing) Mine(ring.Key) bool { return true }
