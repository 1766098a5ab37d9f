package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/apoidea/apoidea/node"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/datadir"
	"github.com/apoidea/apoidea/node/mend"
	"github.com/apoidea/apoidea/node/volunteer/machine"
)

func (e *examination) dataDir(context.Context) Finding {
	dir := e.Config.DataDir
	fresh, err := tryToWrite(dir)
	open, notOurs := datadir.Open(dir)
	switch {
	case err != nil:
		return found(Fail, fmt.Sprintf("%s cannot be written: %v", dir, cause(err)), "make it yours (chown, chmod; a disk mounted read-only?), or name another with --data-dir")
	case errors.Is(notOurs, datadir.ErrNotOurs):
		return found(Fail, notOurs.Error(), "a peer does not start there: make it yours (chown, chmod), or name another with --data-dir")
	case e.runs && !open:
		return fine("%s: writable, in use by the peer that runs", dir)
	case node.InUse(e.keptErr):
		return found(Fail, fmt.Sprintf("%s is in use by another process, which does not answer at %s", dir, e.Config.APIAddr()),
			"find it (fuser "+filepath.Join(dir, "db", "LOCK")+") and end it, or say with --api where it answers")
	case e.keptErr != nil:
		return found(Fail, fmt.Sprintf("the database in %s cannot be read: %v", dir, e.keptErr),
			"apoidea check says what is damaged, apoidea repair mends what can be mended; check the disk too")
	case open:
		return found(Warn, dir+" is open to other users of this machine",
			"chmod 700 "+dir+", or start the peer, which does that")
	case fresh:
		return fine("%s is not there yet and can be made", dir)
	default:
		return fine("%s: writable, no peer has it", dir)
	}
}

// data looks whether what the last run left is damaged: what leads to it, as apoidea check does
// without --read-data.
func (e *examination) data(ctx context.Context) Finding {
	dir := e.Config.DataDir
	if e.runs || node.InUse(e.keptErr) {
		return fine("not looked at while a peer runs")
	}
	r, err := mend.Check(ctx, dir, mend.Options{})
	cure := "apoidea check --data-dir " + dir + " says what is damaged, apoidea repair mends what can be mended"
	switch {
	case control.KindOf(err) == control.KindNoPeer:
		return fine("there is none yet")
	case ctx.Err() != nil:
		return found(Warn, "there is so much that looking at it takes longer than "+checkTime.String(), "apoidea check --data-dir "+dir+" takes its time")
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOTDIR):
		return found(Warn, oneLine(err), "what is said of the data directory comes first")
	case err != nil:
		return found(Fail, oneLine(err), cure)
	case r.OK:
		return fine("%s in the archive and %s with an outcome: what leads to them is sound; the pages themselves were not read (apoidea check --read-data reads them)", count(int(r.Exchanges), "exchange"), count(int(r.URLs), "URL"))
	}
	damaged := 0
	first := ""
	for i := range r.Findings {
		if f := &r.Findings[i]; !f.Note {
			if damaged++; first == "" {
				first = f.String()
			}
		}
	}
	return found(Fail, fmt.Sprintf("%s damaged: %s", count(damaged, "thing"), first), cure)
}

// tryToWrite makes a file in dir and removes it, since permission bits do not tell of mounts and
// quotas. When dir is not there, fresh, the nearest directory above it is tried.
func tryToWrite(dir string) (fresh bool, err error) {
	at := dir
	for {
		info, err := os.Stat(at)
		if err == nil && !info.IsDir() {
			return fresh, fmt.Errorf("%s is no directory", at)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || filepath.Dir(at) == at {
			return fresh, err
		}
		at, fresh = filepath.Dir(at), true
	}
	f, err := os.CreateTemp(at, ".apoidea-doctor-")
	if err != nil {
		return fresh, err
	}
	_, err = f.WriteString("x")
	return fresh, errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// cause leaves out of a file's error what its sentence says already.
func cause(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// roomy is the free space, beyond the reserve, under which a crawl soon ends.
const roomy = 1 << 30

func (e *examination) disk(context.Context) Finding {
	free, reserve, err := e.Config.Space()
	cure := "free some space, lower --disk-reserve, or put --data-dir on another disk"
	if !e.Config.ForgetLimits && e.kept.DiskReserve > 0 {
		reserve = e.kept.DiskReserve
		cure = "free some space, or start with --forget-limits: the reserve was changed by limits set, which beats --disk-reserve"
	}
	switch {
	case err != nil:
		return found(Fail, err.Error(), "check that the disk is mounted and sound")
	case free < reserve:
		return found(Fail, fmt.Sprintf("%s free, %s are kept as reserve: the peer does not start", sizeText(free), sizeText(reserve)), cure)
	case free < reserve+roomy:
		return found(Warn, fmt.Sprintf("%s free, of which %s are kept as reserve: a crawl soon stops", sizeText(free), sizeText(reserve)),
			"free some space, or put --data-dir on another disk")
	default:
		return fine("%s free, %s are kept as reserve", sizeText(free), sizeText(reserve))
	}
}

func sizeText(n uint64) string {
	switch {
	case n < 1<<30:
		return fmt.Sprintf("%d MiB", n>>20)
	case n < 1<<40:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	default:
		return fmt.Sprintf("%.1f TiB", float64(n)/(1<<40))
	}
}

func (e *examination) descriptors(context.Context) Finding {
	return judgeDescriptors(machine.OpenFiles(), uint64(max(e.Config.Descriptors(), 0))) // not negative
}

// judgeDescriptors compares the limit with what a busy peer has open; strangers may make that twice
// as much for a while.
func judgeDescriptors(limit, need uint64) Finding {
	cure := fmt.Sprintf("raise it: ulimit -n %d, or LimitNOFILE=%d in the unit; or lower --fetchers", 4*need, 4*need)
	switch {
	case limit == 0:
		return fine("the system sets no limit")
	case limit < need:
		return found(Fail, fmt.Sprintf("%d files may be open, a busy peer needs %d", limit, need), cure)
	case limit < 2*need:
		return found(Warn, fmt.Sprintf("%d files may be open, a busy peer needs %d and at times twice that", limit, need), cure)
	default:
		return fine("%d files may be open, a busy peer needs %d", limit, need)
	}
}

// The clock's bounds. Schedules, quotas and the certificates of sites go by it, leases and the
// order of records do not.
const (
	clockOff    = time.Minute     // beyond it schedules and certificates go wrong
	clockDrift  = 2 * time.Second // beyond it nobody keeps the clock
	clockJump   = time.Second     // the wall clock against the monotonic one, while we looked
	fileAhead   = 2 * time.Minute // how far a file of the last run may be ahead
	clockSource = "let the system keep the time (timedatectl set-ntp true; a dual-boot machine: the same time zone in both)"
)

func (e *examination) clock(ctx context.Context) Finding {
	begin := time.Now()
	offsets := e.offsets(ctx)
	now := time.Now()
	obs := clockView{now: now, built: e.Built, newest: newest(e.Config.DataDir), offsets: offsets}
	// Where the peer was asked earlier, the time since then counts too.
	obs.jumped = max(jump(begin, now).Abs(), jump(e.began, now).Abs())
	return judgeClock(&obs)
}

// jump is how much further the wall clock went than the monotonic one.
func jump(from, to time.Time) time.Duration { return to.Round(0).Sub(from.Round(0)) - to.Sub(from) }

// clockView is what can be known of the clock.
type clockView struct {
	now, built, newest time.Time
	jumped             time.Duration
	// offsets are how far others are ahead of us.
	offsets []time.Duration
}

func judgeClock(v *clockView) Finding {
	if v.now.Before(v.built) {
		return found(Fail, fmt.Sprintf("it says %s, before this program was built", v.now.Format(time.DateOnly)), clockSource)
	}
	if len(v.offsets) > 0 {
		slices.Sort(v.offsets)
		middle := v.offsets[len(v.offsets)/2]
		text := fmt.Sprintf("%v behind the clocks of %s", middle.Round(time.Millisecond), count(len(v.offsets), "peer"))
		if middle < 0 {
			text = fmt.Sprintf("%v ahead of the clocks of %s", -middle.Round(time.Millisecond), count(len(v.offsets), "peer"))
		}
		switch {
		case middle.Abs() > clockOff:
			return found(Fail, text, clockSource)
		case middle.Abs() > clockDrift:
			return found(Warn, text, clockSource)
		}
	}
	if ahead := v.newest.Sub(v.now); ahead > fileAhead {
		return found(Fail, fmt.Sprintf("the last run wrote files %v from now: the clock was set back, or was ahead then", ahead.Round(time.Second)), clockSource)
	}
	if v.jumped > clockJump {
		return found(Warn, fmt.Sprintf("it jumped by %v while we looked", v.jumped.Round(time.Millisecond)), "see who sets it: two time services at once, or a machine that sleeps")
	}
	if len(v.offsets) == 0 {
		return fine("no jump, nothing from the future; nobody to compare with")
	}
	return fine("within %v of %s, no jump", v.offsets[len(v.offsets)/2].Abs().Round(time.Millisecond), count(len(v.offsets), "peer"))
}

// offsets are how far other peers' clocks are ahead: the neighbours' of the running peer, or those
// of entry peers.
func (e *examination) offsets(ctx context.Context) (list []time.Duration) {
	for i := range e.neighbours {
		if ms := e.neighbours[i].ClockMs; ms != nil {
			list = append(list, time.Duration(*ms*float64(time.Millisecond)))
		}
	}
	for _, entry := range e.scout(ctx) {
		if entry.Clock != nil {
			list = append(list, *entry.Clock)
		}
	}
	return list
}

// newest is when the last run wrote something that every run writes; zero if there was none.
func newest(dir string) (at time.Time) {
	for _, name := range []string{node.AddrFile, "db"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.ModTime().After(at) {
			at = info.ModTime()
		}
	}
	return at
}
