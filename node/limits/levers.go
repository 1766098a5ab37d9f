package limits

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/apoidea/apoidea/crawl/worker"
	"github.com/apoidea/apoidea/node/volunteer"
	"github.com/apoidea/apoidea/node/volunteer/machine"
)

// Worker is what the limits move and read of the worker: worker.Worker.
type Worker interface {
	Pause()            // stops fetching and gives all hosts back
	BreakOff()         // ends the exchanges under way
	Resume()           // ends a Pause
	SetFetchers(n int) // bounds the exchanges at once; 0: none begins
	// SetBandwidth sets the cap that fetches are admitted under, in bytes a second; 0: none.
	SetBandwidth(bytes int64)
	SetMemory(bytes int64) // bounds what pages take of memory
	Stats() worker.Stats   // tells what runs, and what came in
}

var _ Worker = (*worker.Worker)(nil)

// peerLevers is the seam between the limits and the peer: the levers that they move and the gauges
// that they read.
type peerLevers struct{ Deps }

var (
	_ levers = peerLevers{}
	_ gauges = peerLevers{}
)

func (p peerLevers) pauseFetching()  { p.Worker.Pause() }
func (p peerLevers) breakOff()       { p.Worker.BreakOff() }
func (p peerLevers) resumeFetching() { p.Worker.Resume() }

func (p peerLevers) setFetchers(n int) { p.Worker.SetFetchers(n) }

func (p peerLevers) setBandwidth(down, up int64) {
	p.Line.setRates(down, up)
	p.Worker.SetBandwidth(down)
}

// setMemory bounds what pages take, and the heap of the process if it is this peer's alone.
// GOMEMLIMIT, where set, is obeyed instead.
func (p peerLevers) setMemory(bytes int64) {
	p.Worker.SetMemory(p.PageMemory(bytes))
	if !p.OwnProcess || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	if bytes == 0 {
		bytes = 1<<63 - 1 // none
	}
	debug.SetMemoryLimit(bytes)
}

func (p peerLevers) traffic() (down, up int64) { return p.Line.Total() }

func (peerLevers) processTime() time.Duration { return machine.ProcessTime() }

// heap is what the last collection left, without the bodies of pages: those have a bound of their
// own, and wait on disk beyond it. While large ones are at work a peer slowed for them would ask
// the hosts that let it wait, and hardly any other.
func (p peerLevers) heap() int64 { return max(LiveHeap()-p.Worker.Stats().Memory, 0) }

// LiveHeap is what the last collection left, in bytes.
func LiveHeap() int64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return int64(min(sample[0].Value.Uint64(), 1<<62)) // bounded
}

func (p peerLevers) work() (pages int64, busy bool) {
	s := p.Worker.Stats()
	return s.Pages + s.Duplicates, s.Hosts > 0
}

func (p peerLevers) fetching() int { return p.Worker.Stats().InFlight }

const (
	// machineEvery is how often the machine is looked at for rules that ask for it.
	machineEvery = 5 * time.Second
	// quotaEvery is how often the data directory is measured for a quota, diskEach how seldom
	// without one at most; a small directory, which is quickly looked through, every diskLeast.
	quotaEvery = 10 * time.Second
	diskEach   = 2 * time.Minute
	diskLeast  = 5 * time.Second
)

// Observe looks at the machine until ctx ends: at what the rules ask for, and no more often than it
// changes.
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
			measured, seen.Disk = now, diskUse(ctx, l.dir)
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

// nextMeasure is after how long the data directory is measured again, when that took so long: it
// costs a two hundredth of a processor at most.
func nextMeasure(took time.Duration) time.Duration {
	return min(max(200*took, diskLeast), diskEach)
}

// asked is which questions the rules have.
type asked struct {
	battery, metered, idle bool
	disk                   int64
}

func asks(r *volunteer.Rules) asked {
	return asked{r.PauseOnBattery, r.PauseOnMetered, r.OnlyWhenIdle > 0, r.DiskQuota}
}

// diskUse is the size of the files under dir, as far as they can be seen: files come and go
// meanwhile.
func diskUse(ctx context.Context, dir string) (total int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return fs.SkipAll
		}
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // what is gone takes no room
		}
		if info, err := d.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return total
}
