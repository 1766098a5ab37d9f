package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/apoidea/apoidea/node"
	"github.com/apoidea/apoidea/node/datadir"
	"github.com/apoidea/apoidea/node/ops/volunteer/machine"
)

func (e *examination) dataDir(context.Context) Finding {
	dir := e.Config.DataDir
	fresh, err := tryToWrite(dir)
	open, notOurs := datadir.Open(dir)
	switch {
	case err != nil:
		return found(Fail, fmt.Sprintf("%s is not writable: %v", dir, cause(err)), "fix its owner and mode (chown, chmod), check for a read-only mount, or set another with --data-dir")
	case errors.Is(notOurs, datadir.ErrNotOurs):
		return found(Fail, notOurs.Error(), "fix its owner and mode (chown, chmod), or set another with --data-dir")
	case e.runs && !open:
		return fine("%s: writable, in use by the running peer", dir)
	case node.InUse(e.keptErr):
		return found(Fail, fmt.Sprintf("%s is in use by another process, which does not respond at %s", dir, e.Config.APIAddr()),
			"find the process (fuser "+filepath.Join(dir, "db", "LOCK")+") and stop it, or set its API address with --api")
	case e.keptErr != nil:
		return found(Fail, fmt.Sprintf("the database in %s cannot be read: %v", dir, e.keptErr),
			"run apoidea check, then apoidea repair; check the disk")
	case open:
		return found(Warn, dir+" is accessible to other users of this machine",
			"chmod 700 "+dir+", or start the peer, which does the same")
	case fresh:
		return fine("%s does not exist yet and can be created", dir)
	default:
		return fine("%s: writable, not in use", dir)
	}
}

// tryToWrite creates a file in dir and removes it, because permission bits do not show mounts and
// quotas. If dir does not exist (fresh), it tries the nearest existing parent.
func tryToWrite(dir string) (fresh bool, err error) {
	at := dir
	for {
		info, err := os.Stat(at)
		if err == nil && !info.IsDir() {
			return fresh, fmt.Errorf("%s is not a directory", at)
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

// cause strips the operation and path from a file error.
func cause(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// roomy is the free space beyond the reserve below which disk warns.
const roomy = 1 << 30

func (e *examination) disk(context.Context) Finding {
	free, reserve, err := e.Config.Space()
	cure := "free some space, lower --disk-reserve, or put --data-dir on another disk"
	if !e.Config.ForgetLimits && e.kept.DiskReserve > 0 {
		reserve = e.kept.DiskReserve
		cure = "free some space, or start with --forget-limits: a value stored by limits set overrides --disk-reserve"
	}
	switch {
	case err != nil:
		return found(Fail, err.Error(), "check that the disk is mounted and healthy")
	case free < reserve:
		return found(Fail, fmt.Sprintf("%s free, below the reserve of %s: the peer does not start", sizeText(free), sizeText(reserve)), cure)
	case free < reserve+roomy:
		return found(Warn, fmt.Sprintf("%s free with a reserve of %s: the crawl will stop soon", sizeText(free), sizeText(reserve)),
			"free some space, or put --data-dir on another disk")
	default:
		return fine("%s free, reserve %s", sizeText(free), sizeText(reserve))
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

// judgeDescriptors compares the limit with the need of a busy peer; untrusted peers can double the
// need for a while.
func judgeDescriptors(limit, need uint64) Finding {
	cure := fmt.Sprintf("raise the limit (ulimit -n %d, or LimitNOFILE=%d in the systemd unit), or lower --fetchers", 4*need, 4*need)
	switch {
	case limit == 0:
		return fine("no limit")
	case limit < need:
		return found(Fail, fmt.Sprintf("limit %d; a busy peer needs %d", limit, need), cure)
	case limit < 2*need:
		return found(Warn, fmt.Sprintf("limit %d; a busy peer needs %d, at peaks twice that", limit, need), cure)
	default:
		return fine("limit %d; a busy peer needs %d", limit, need)
	}
}

// Bounds of the clock check. Schedules, quotas and certificate checks depend on the wall clock;
// leases and the order of records do not.
const (
	clockOff    = time.Minute     // beyond it schedules and certificates go wrong
	clockDrift  = 2 * time.Second // beyond it the clock is not synchronized
	clockJump   = time.Second     // wall clock against monotonic clock, during the check
	fileAhead   = 2 * time.Minute // tolerated lead of a file of the last run
	clockSource = "enable time synchronization (timedatectl set-ntp true; on a dual-boot machine use one time zone in both systems)"
)

func (e *examination) clock(ctx context.Context) Finding {
	begin := time.Now()
	offsets := e.offsets(ctx)
	now := time.Now()
	obs := clockView{now: now, built: e.Built, newest: newest(e.Config.DataDir), offsets: offsets}
	// The time since the first request to the peer counts too.
	obs.jumped = max(jump(begin, now).Abs(), jump(e.began, now).Abs())
	return judgeClock(&obs)
}

// jump returns the advance of the wall clock over the monotonic clock.
func jump(from, to time.Time) time.Duration { return to.Round(0).Sub(from.Round(0)) - to.Sub(from) }

// clockView holds the observations that judgeClock evaluates.
type clockView struct {
	now, built, newest time.Time
	jumped             time.Duration
	// offsets are the leads of other peers' clocks over ours.
	offsets []time.Duration
}

func judgeClock(v *clockView) Finding {
	if v.now.Before(v.built) {
		return found(Fail, fmt.Sprintf("the clock shows %s, which is before this program was built", v.now.Format(time.DateOnly)), clockSource)
	}
	if len(v.offsets) > 0 {
		slices.Sort(v.offsets)
		middle := v.offsets[len(v.offsets)/2]
		text := fmt.Sprintf("%v behind the median of %s", middle.Round(time.Millisecond), count(len(v.offsets), "peer"))
		if middle < 0 {
			text = fmt.Sprintf("%v ahead of the median of %s", -middle.Round(time.Millisecond), count(len(v.offsets), "peer"))
		}
		switch {
		case middle.Abs() > clockOff:
			return found(Fail, text, clockSource)
		case middle.Abs() > clockDrift:
			return found(Warn, text, clockSource)
		}
	}
	if ahead := v.newest.Sub(v.now); ahead > fileAhead {
		return found(Fail, fmt.Sprintf("files of the last run are dated %v from now: the clock was set back, or was ahead then", ahead.Round(time.Second)), clockSource)
	}
	if v.jumped > clockJump {
		return found(Warn, fmt.Sprintf("the clock jumped by %v during the check", v.jumped.Round(time.Millisecond)), "check for two active time services, or a machine that sleeps")
	}
	if len(v.offsets) == 0 {
		return fine("no jump, no files from the future; no peer to compare with")
	}
	return fine("within %v of %s, no jump", v.offsets[len(v.offsets)/2].Abs().Round(time.Millisecond), count(len(v.offsets), "peer"))
}

// offsets returns the leads of other peers' clocks: neighbors of the running peer, or entry peers.
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

// newest returns the modification time of the last run's files; zero if there was no run.
func newest(dir string) (at time.Time) {
	for _, name := range []string{node.AddrFile, "db"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.ModTime().After(at) {
			at = info.ModTime()
		}
	}
	return at
}
