package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/apoidea/apoidea/node/ops/words"
)

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
		return found(Fail, fmt.Sprintf("%s free, below the reserve of %s: the peer does not start", words.Bytes(int64(free)), words.Bytes(int64(reserve))), cure)
	case free < reserve+roomy:
		return found(Warn, fmt.Sprintf("%s free with a reserve of %s: the crawl will stop soon", words.Bytes(int64(free)), words.Bytes(int64(reserve))),
			"free some space, or put --data-dir on another disk")
	default:
		return fine("%s free, reserve %s", words.Bytes(int64(free)), words.Bytes(int64(reserve)))
	}
}

// Bounds of the clock check. Schedules, quotas and certificate checks depend on the wall clock;
// leases and the order of records do not.
const (
	clockOff    = time.Minute     // beyond it schedules and certificates go wrong
	clockDrift  = 2 * time.Second // beyond it the clock is not synchronized
	clockSource = "enable time synchronization (timedatectl set-ntp true; on a dual-boot machine use one time zone in both systems)"
)

func (e *examination) clock(ctx context.Context) Finding {
	return judgeClock(time.Now(), e.Built, e.offsets(ctx))
}

// judgeClock compares the clock with the build time of the program and with the leads of other
// peers' clocks over ours.
func judgeClock(now, built time.Time, offsets []time.Duration) Finding {
	if now.Before(built) {
		return found(Fail, fmt.Sprintf("the clock shows %s, which is before this program was built", now.Format(time.DateOnly)), clockSource)
	}
	if len(offsets) == 0 {
		return fine("no peer to compare with")
	}
	slices.Sort(offsets)
	middle := offsets[len(offsets)/2]
	text := fmt.Sprintf("%v behind the median of %s", middle.Round(time.Millisecond), words.Counted(int64(len(offsets)), "peer"))
	if middle < 0 {
		text = fmt.Sprintf("%v ahead of the median of %s", -middle.Round(time.Millisecond), words.Counted(int64(len(offsets)), "peer"))
	}
	switch {
	case middle.Abs() > clockOff:
		return found(Fail, text, clockSource)
	case middle.Abs() > clockDrift:
		return found(Warn, text, clockSource)
	default:
		return fine("within %v of %s", middle.Abs().Round(time.Millisecond), words.Counted(int64(len(offsets)), "peer"))
	}
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

func (e *examination) contact(context.Context) Finding {
	c := &e.Config
	switch err := c.ContactError(); {
	case err != nil && c.Contact == "":
		return found(Fail, "not set, but required by the public profile: webmasters must be able to reach you",
			"set --contact https://you.example/crawler, or mailto:you@example.org")
	case err != nil:
		return found(Fail, err.Error(), "use https://you.example/crawler or mailto:you@example.org")
	case c.Contact == "" && !c.AllowPrivate && len(c.AllowPrefixes) == 0:
		return found(Warn, "not set: webmasters cannot reach you", "set --contact https://you.example/crawler, or mailto:you@example.org")
	case c.Contact == "":
		return fine("not set; not needed for private addresses")
	default:
		return fine("the User-Agent is %s", c.UserAgent())
	}
}
