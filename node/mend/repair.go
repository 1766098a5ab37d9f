package mend

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/warc"
)

// Names in the data directory while a repair is under way: what was salvaged, and the new database,
// of which nothing is used before it is whole.
const (
	scratchName = "repair-scratch"
	draftName   = "repair-db"
	newName     = "repaired-db"
)

// repair is one repair.
type repair struct {
	*examination
	mended *Mended
	dry    bool
	now    time.Time
	aside  string
}

// Repair mends what Check finds, reading everything. A dry run does the same work on the side, says
// what would come of it, and changes nothing.
func Repair(ctx context.Context, dir string, o Options, dry bool) (*Mended, error) {
	o.ReadData = true
	x, err := begin(dir, o, storage.Acquire)
	if err != nil {
		return nil, err
	}
	defer x.end()
	now := time.Now()
	r := &repair{examination: x, dry: dry, now: now, aside: freeName(x.path("damaged-" + now.UTC().Format("20060102T150405Z")))}
	r.mended = &Mended{Before: x.report, DryRun: dry, Done: []string{}}
	if err := r.finishEarlier(); err != nil {
		return r.mended, err
	}
	if err := x.check(ctx); err != nil {
		return r.mended, err
	}
	return r.mended, errors.Join(r.run(ctx), r.sweep())
}

// freeName is a name that nothing has yet.
func freeName(name string) string {
	free := name
	for i := 2; ; i++ {
		if _, err := os.Lstat(free); err != nil {
			return free
		}
		free = fmt.Sprintf("%s-%d", name, i)
	}
}

// finishEarlier puts the database that an interrupted repair had finished in its place.
func (r *repair) finishEarlier() error {
	if !r.interrupted() || r.dry {
		return nil
	}
	if _, err := os.Stat(r.path(newName)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.Rename(r.path(newName), r.path("db")); err != nil {
		return err
	}
	r.mended.did("database of an interrupted repair completed")
	return r.acquireAgain()
}

func (r *repair) acquireAgain() error {
	if r.lock != nil {
		if err := r.lock.Close(); err != nil {
			return err
		}
	}
	return r.acquire("db", storage.Acquire)
}

func (r *repair) run(ctx context.Context) error {
	if r.needsDatabase() {
		r.Progress("writing: new database")
		if err := r.rebuild(ctx); err != nil {
			return fmt.Errorf("repair: new database: %w", err)
		}
	}
	if r.dry {
		for _, name := range r.damaged {
			r.mended.did("would repair %s", name)
		}
		return nil
	}
	r.Progress("writing: archive")
	if err := r.mendArchive(); err != nil {
		return fmt.Errorf("repair: archive: %w", err)
	}
	if r.mended.Rebuilt {
		if err := r.swap(); err != nil {
			return fmt.Errorf("repair: %w", err)
		}
	}
	return r.removeCopy()
}

// removeCopy puts a copy of identity and jobs aside that is of no use: the next run writes it anew.
func (r *repair) removeCopy() error {
	for i := range r.report.Findings {
		if f := &r.report.Findings[i]; f.Area == Beside && !f.Note {
			r.mended.did("%s moved to %s; the next run writes a new one", f.Where, filepath.Base(r.aside))
			return r.putAside(f.Where)
		}
	}
	return nil
}

// needsDatabase says whether records have to be written anew.
func (r *repair) needsDatabase() bool {
	return r.lost || r.store == nil || r.books || r.missing > 0 || r.dangles > 0 || r.ahead > 0 || r.self == "" || r.faulty()
}

// faulty says that there is something wrong with files of the database, though no record was in it.
func (r *repair) faulty() bool {
	for i := range r.report.Findings {
		if f := &r.report.Findings[i]; f.Area == Database && !f.Note {
			return true
		}
	}
	return false
}

// mendArchive writes damaged files anew.
func (r *repair) mendArchive() error {
	dir := r.path("archive")
	done := make(map[string]bool)
	for _, name := range r.damaged {
		if base, ok := strings.CutSuffix(name, ".cdxj"); ok {
			if name = archiveOf(dir, base); name == "" { // the file has another name, and gets an index of its own
				if err := r.putAside(filepath.Join("archive", base+".cdxj")); err != nil {
					return err
				}
				continue
			}
		}
		if done[name] {
			continue
		}
		done[name] = true
		changed, err := warc.Mend(dir, name, filepath.Join(r.aside, "archive"))
		if err != nil {
			return err
		}
		if changed {
			r.mended.Files = append(r.mended.Files, name)
			r.mended.did("%s repaired", name)
		}
	}
	for _, name := range r.orphans {
		if err := r.putAside(filepath.Join("archive", name)); err != nil {
			return err
		}
		r.mended.did("%s, whose WARC file is missing, moved to %s", name, filepath.Base(r.aside))
	}
	return nil
}

// archiveOf finds the archive file that an index belongs to.
func archiveOf(dir, base string) string {
	for _, c := range warc.Compressions() {
		name := base + warc.Compression(c).Suffix()
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return name
		}
	}
	return ""
}

// putAside moves something of the data directory to where damaged things lie.
func (r *repair) putAside(name string) error {
	to := filepath.Join(r.aside, name)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return os.Rename(r.path(name), to)
}

// swap puts the new database in the place of the old one.
func (r *repair) swap() error {
	if r.store != nil {
		_ = r.store.Close() // it was only read, and may have failed at what is damaged
		r.store = nil
	}
	if err := os.Rename(r.path(draftName), r.path(newName)); err != nil {
		return err
	}
	if _, err := os.Stat(r.path("db")); err == nil {
		if err := r.putAside("db"); err != nil {
			return err
		}
	}
	if err := os.Rename(r.path(newName), r.path("db")); err != nil {
		return err
	}
	r.mended.did("database rebuilt")
	return nil
}

// sweep removes what the repair needed, and says where the damaged things lie.
func (r *repair) sweep() error {
	if _, err := os.Stat(r.aside); err == nil {
		r.mended.Aside = r.aside
	}
	return errors.Join(os.RemoveAll(r.path(scratchName)), os.RemoveAll(r.path(draftName)))
}

// origin is what can be read of the records.
func (r *repair) origin() (source, error) {
	if r.store != nil && !r.lost {
		return whole(r.store), nil
	}
	dir := r.path("db")
	if r.lock == nil {
		dir = r.path(scratchName + "-none")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return source{}, err
		}
		defer func() { _ = os.Remove(dir) }()
	}
	s, err := storage.Salvage(dir, r.path(scratchName), func(f storage.Fault) {
		if !f.Note {
			r.mended.did("not recovered: %s", f)
		}
	})
	if err != nil {
		return source{}, err
	}
	return salvaged(s), nil
}
