package limits

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime/metrics"
	"time"

	"github.com/apoidea/apoidea/crawl/worker"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/volunteer"
	"github.com/apoidea/apoidea/node/ops/volunteer/machine"
	"github.com/apoidea/apoidea/storage"
)

// Worker is the part of worker.Worker that the limits use.
type Worker interface {
	Pause()            // stops fetching and releases all hosts
	BreakOff()         // aborts fetches in progress
	Resume()           // ends a Pause
	SetFetchers(n int) // limits concurrent fetches; 0: none starts
	// SetBandwidth sets the limit for admission of fetches, in bytes per second; 0: none.
	SetBandwidth(bytes int64)
	SetMemory(bytes int64) // limits the memory of pages
	Stats() worker.Stats   // returns activity and totals
}

var _ Worker = (*worker.Worker)(nil)

// LiveHeap returns the bytes that the last collection found live.
func LiveHeap() int64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return int64(min(sample[0].Value.Uint64(), 1<<62)) // bounded
}

const (
	// machineEvery is the interval of checks of battery and idleness, if a rule needs them.
	machineEvery = 5 * time.Second
	// quotaEvery is the interval of measuring the data directory with a quota; without one the
	// interval is between diskLeast and diskEach, by the time that measuring takes.
	quotaEvery = 10 * time.Second
	diskEach   = 2 * time.Minute
	diskLeast  = 5 * time.Second
)

// Observe monitors the machine until ctx ends: only the facts that the rules use.
func (l *Limits) Observe(ctx context.Context, m *machine.Machine) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var looked, priced, measured time.Time
	each := diskEach
	var old volunteer.Rules
	for {
		l.mu.Lock()
		rules, seen := l.rules, l.seen
		l.mu.Unlock()
		now := time.Now()
		fresh := asks(&rules) != asks(&old)
		old = rules
		if fresh || now.Sub(looked) >= machineEvery {
			looked = now
			seen.Battery, seen.Idle, seen.IdleKnown = volunteer.Unknown, 0, false
			if rules.PauseOnBattery {
				seen.Battery = m.Battery(ctx)
			}
			if rules.OnlyWhenIdle > 0 {
				seen.Idle, seen.IdleKnown = m.Idle(ctx)
			}
		}
		if fresh || now.Sub(priced) >= machine.MeteredEvery {
			priced, seen.Metered = now, volunteer.Unknown
			if rules.PauseOnMetered {
				seen.Metered = m.Metered(ctx)
			}
		}
		if age := now.Sub(measured); fresh || age >= each || rules.DiskQuota > 0 && age >= quotaEvery {
			measured, seen.Disk = now, diskUse(ctx, l.deps.DataDir)
			each = nextMeasure(time.Since(now))
		}
		l.mu.Lock()
		seen.Heap = l.seen.Heap
		l.seen = seen
		l.mu.Unlock()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// nextMeasure returns the interval to the next measurement of the data directory; measuring takes
// at most 0.5 % of one core.
func nextMeasure(took time.Duration) time.Duration {
	return min(max(200*took, diskLeast), diskEach)
}

// asked is the set of facts that the rules use.
type asked struct {
	battery, metered, idle bool
	disk                   int64
}

func asks(r *volunteer.Rules) asked {
	return asked{r.PauseOnBattery, r.PauseOnMetered, r.OnlyWhenIdle > 0, r.DiskQuota}
}

// diskUse returns the size of the files under dir; it skips files that disappear meanwhile.
func diskUse(ctx context.Context, dir string) (total int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return fs.SkipAll
		}
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // a removed file uses no space
		}
		if info, err := d.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return total
}

// diskEvery is the interval of free space checks; at 100 MB/s the default reserve lasts longer.
const diskEvery = time.Second

// MoreRoom is the fix for a reached disk reserve.
const MoreRoom = "free some space, or start with a lower --disk-reserve (and --forget-limits if limits set raised it)"

// WatchDisk returns an error, which stops the peer, when the disk reserve is reached or the store
// has failed. Data written before stays valid.
func WatchDisk(ctx context.Context, dir string, reserve func() uint64, store *storage.Store) error {
	tick := time.NewTicker(diskEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := storage.NewGuard(dir, reserve()).Check(); err != nil {
				return &control.Error{Kind: control.KindFailed, Text: fmt.Sprintf("stopped: %v; %s; the crawl continues where it stopped", err, MoreRoom)}
			}
		case <-store.Failed():
			return fmt.Errorf("stopped: %w", store.Err())
		case <-ctx.Done():
			return nil
		}
	}
}
