package limits

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/volunteer"
	"github.com/apoidea/apoidea/node/ops/volunteer/machine"
	"github.com/apoidea/apoidea/storage"
)

const (
	// limitsEvery is the interval of decisions. A change by the user takes effect at once.
	limitsEvery = 500 * time.Millisecond
	// paceEvery is the interval while processor time is limited: work and pauses alternate.
	paceEvery = 100 * time.Millisecond
	// pauseGrace is the time that fetches in progress have to finish when a pause begins.
	pauseGrace = time.Second
	// ledgerEvery is the interval of storing the traffic of the day and the month; a crash loses at
	// most one interval.
	ledgerEvery = 2 * time.Second
)

// Keys in the store.
const (
	MetaLimits = "limits"
	metaLedger = "ledger"
)

// Deps are the dependencies of Limits.
type Deps struct {
	Kept   Kept   // store of changed settings and the ledger
	Worker Worker // paused and throttled
	Line   *Line  // carries all connections
	// DataDir is the directory of which size and free space are measured.
	DataDir string
	// OwnProcess reports that the process runs only this peer, so that the memory limit also applies
	// to the heap.
	OwnProcess bool
	// PageMemory returns the share of a memory limit that pages may use, 0 for no limit.
	PageMemory func(bound int64) int64
	Log        *slog.Logger // receives the begin and end of each rule
}

// Kept stores values by name across restarts.
type Kept interface {
	// GetJSON reads a value, and does not change v if there is none.
	GetJSON(name string, v any) error
	// PutJSON stores a value and waits until it is on disk; NoteJSON does not wait.
	PutJSON(name string, v any) error
	NoteJSON(name string, v any) error // stores a value without waiting
}

// Limits decides periodically what the peer may use of machine and link, and enforces it. Its
// methods are safe for concurrent use.
type Limits struct {
	started volunteer.Rules // from flags and configuration file
	deps    Deps
	poke    chan struct{}          // signals a change
	free    func() (uint64, error) // of the disk, in bytes
	cpu     func() time.Duration   // CPU time of the process
	heap    func() int64           // live heap, in bytes
	turn    chan struct{}          // serializes changes, from reading to storing

	mu      sync.Mutex // guards the fields below; not held during disk I/O
	rules   volunteer.Rules
	changed map[string]string // by key: values set with limits set
	pause   volunteer.Pause
	ledger  volunteer.Ledger
	seen    volunteer.Observed
	now     volunteer.Decision
	resting bool // decided by the pacer
	speed   speed

	// The fields below belong to the loop.
	told    volunteer.Decision
	force   inForce
	pacer   volunteer.Pacer
	counted int64     // bytes in the ledger
	pages   int64     // pages in it
	stepped time.Time // the last step
	kept    time.Time // the ledger
}

// inForce holds the current values of the controls.
type inForce struct {
	set       bool
	paused    bool
	pausedAt  time.Time
	brokenOff bool
	fetchers  int
	down, up  int64
	memory    int64
}

// storedLimits is the state that survives a restart.
type storedLimits struct {
	Changed map[string]string `json:"changed,omitempty"`
	Pause   volunteer.Pause   `json:"pause"`
}

// New loads the state of the last run; forget deletes the settings changed with limits set.
func New(started volunteer.Rules, forget bool, d Deps) (*Limits, error) {
	return load(&Limits{
		started: started, deps: d, free: func() (uint64, error) { return storage.Free(d.DataDir) }, cpu: machine.ProcessTime, heap: LiveHeap,
	}, forget)
}

// load reads the stored state of l, whose dependencies are set.
func load(l *Limits, forget bool) (*Limits, error) {
	l.poke, l.turn = make(chan struct{}, 1), make(chan struct{}, 1)
	var stored storedLimits
	if err := l.deps.Kept.GetJSON(MetaLimits, &stored); err != nil {
		return nil, err
	}
	if forget && len(stored.Changed) > 0 {
		stored.Changed = nil
		if err := l.deps.Kept.PutJSON(MetaLimits, stored); err != nil {
			return nil, err
		}
	}
	if err := l.deps.Kept.GetJSON(metaLedger, &l.ledger); err != nil {
		return nil, err
	}
	l.changed, l.pause = make(map[string]string), stored.Pause
	for key, value := range stored.Changed {
		rules := l.started
		if k, ok := volunteer.Find(key); !ok || k.Set(&rules, value) != nil {
			l.deps.Log.Warn("stored limit is invalid; ignored", "key", key, "value", value)
			continue
		}
		l.changed[key] = value
	}
	l.rules = changedRules(l.started, l.changed)
	l.step(time.Now())
	return l, nil
}

// KeptReserve returns the disk reserve stored by limits set, in bytes; 0 if none.
func KeptReserve(k Kept) (uint64, error) {
	var stored storedLimits
	err := k.GetJSON(MetaLimits, &stored)
	value, ok := stored.Changed[volunteer.KeyDiskReserve]
	if !ok {
		return 0, err
	}
	return uint64(max(changedRules(volunteer.Rules{}, map[string]string{volunteer.KeyDiskReserve: value}).DiskReserve, 0)), err // not negative
}

// changedRules returns the rules with changes that were validated before.
func changedRules(rules volunteer.Rules, changed map[string]string) volunteer.Rules {
	for _, k := range volunteer.Keys {
		if value, ok := changed[k.Name]; ok {
			_ = k.Set(&rules, value)
		}
	}
	return rules
}

// Run enforces the limits until ctx ends, then stores the ledger.
func (l *Limits) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-l.poke:
		case <-ctx.Done():
			return l.keepLedger(time.Now())
		}
		now := time.Now()
		every := l.step(now)
		if now.Sub(l.kept) >= ledgerEvery {
			if err := l.keepLedger(now); err != nil {
				return err
			}
		}
		timer.Reset(every)
	}
}

// step decides, enforces the decision, and returns the time to the next step.
func (l *Limits) step(now time.Time) time.Duration {
	down, up := l.deps.Line.Total()
	spent, heap, worker := l.cpu(), l.Heap(), l.deps.Worker.Stats()
	pages, work := worker.Pages+worker.Duplicates, time.Duration(0)
	if worker.Hosts > 0 {
		work = min(now.Sub(l.stepped), 2*limitsEvery) // a machine that slept did not work
	}
	l.mu.Lock()
	l.ledger.Add(now, down+up-l.counted)
	l.ledger.Did(pages-l.pages, work)
	l.counted, l.pages, l.stepped = down+up, pages, now
	l.speed.record(now, down, up, spent)
	l.seen.Heap = heap
	l.resting = l.pacer.Rest(now, l.rules.CPUShare, spent)
	l.now = volunteer.Decide(now, &l.rules, l.pause, &l.seen, &l.ledger)
	d, resting, rules := l.now, l.resting, l.rules
	l.mu.Unlock()
	l.logChange(&l.told, &d)
	l.told = d
	l.apply(now, &d, resting, rules.Memory)
	if rules.CPUShare > 0 && !d.Paused {
		return paceEvery
	}
	return limitsEvery
}

// logChange logs a change of the pausing rule.
func (l *Limits) logChange(was, is *volunteer.Decision) {
	old, _ := was.Pausing()
	h, paused := is.Pausing()
	switch {
	case paused && h.Rule != old.Rule:
		l.deps.Log.Info("paused", "rule", h.Rule, "why", h.Why)
	case !paused && was.Paused:
		l.deps.Log.Info("resumed", "rule", old.Rule)
	}
}

// apply sets the controls that differ from the decision.
func (l *Limits) apply(now time.Time, d *volunteer.Decision, resting bool, memory int64) {
	f := &l.force
	fetchers := d.Fetchers
	if resting {
		fetchers = 0
	}
	if !f.set || fetchers != f.fetchers {
		l.deps.Worker.SetFetchers(fetchers)
	}
	if !f.set || d.Bandwidth != f.down || d.BandwidthUp != f.up {
		l.deps.Line.setRates(d.Bandwidth, d.BandwidthUp)
		l.deps.Worker.SetBandwidth(d.Bandwidth)
	}
	if !f.set || memory != f.memory {
		l.setMemory(memory)
	}
	f.set, f.fetchers, f.down, f.up, f.memory = true, fetchers, d.Bandwidth, d.BandwidthUp, memory
	switch {
	case d.Paused && !f.paused:
		l.deps.Worker.Pause()
		f.paused, f.pausedAt, f.brokenOff = true, now, false
	case !d.Paused && f.paused:
		l.deps.Worker.Resume()
		f.paused = false
	case f.paused && !f.brokenOff && now.Sub(f.pausedAt) >= pauseGrace:
		l.deps.Worker.BreakOff()
		f.brokenOff = true
	}
}

// setMemory limits the memory of pages, and sets the soft heap limit if the process runs only this
// peer. GOMEMLIMIT takes precedence.
func (l *Limits) setMemory(bytes int64) {
	l.deps.Worker.SetMemory(l.deps.PageMemory(bytes))
	if !l.deps.OwnProcess || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	if bytes == 0 {
		bytes = 1<<63 - 1 // none
	}
	debug.SetMemoryLimit(bytes)
}

// keepLedger stores the traffic of the day and the month. It does not wait for the disk; writes of
// a killed process are not lost.
func (l *Limits) keepLedger(now time.Time) error {
	l.mu.Lock()
	ledger := l.ledger
	l.mu.Unlock()
	l.kept = now
	return l.deps.Kept.NoteJSON(metaLedger, &ledger)
}

// Holding returns the hold that pauses, if any.
func (l *Limits) Holding() (volunteer.Hold, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now.Pausing()
}

// Paused reports whether fetching is paused.
func (l *Limits) Paused() bool {
	_, paused := l.Holding()
	return paused
}

// setPause begins or ends a pause by the user, and stores it.
func (l *Limits) setPause(p volunteer.Pause) error {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	l.mu.Lock()
	l.pause = p
	stored := l.stored()
	l.mu.Unlock()
	return l.store(stored)
}

// set changes rules by key, all or none, and stores them.
func (l *Limits) set(values map[string]string) error {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	l.mu.Lock()
	changed := maps.Clone(l.changed)
	l.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(values)) { // so that the same request gives the same error
		k, ok := volunteer.Find(key)
		if !ok {
			return control.Usage(fmt.Sprintf("limits: unknown key %.40q: must be one of %s", key, keyNames()))
		}
		value := strings.TrimSpace(values[key])
		if value == "default" {
			delete(changed, key)
			continue
		}
		rules := l.started
		if err := k.Set(&rules, value); err != nil {
			return control.Usage("limits: " + err.Error())
		}
		changed[key] = k.Get(&rules)
	}
	if _, ok := values[volunteer.KeyDiskReserve]; ok {
		if err := l.leavesRoom(changedRules(l.started, changed).DiskReserve); err != nil {
			return err
		}
	}
	l.mu.Lock()
	l.changed, l.rules = changed, changedRules(l.started, changed)
	stored := l.stored()
	l.mu.Unlock()
	return l.store(stored)
}

// leavesRoom rejects a disk reserve above the free space: the peer would stop at once.
func (l *Limits) leavesRoom(reserve int64) error {
	free, err := l.free()
	if err != nil {
		return fmt.Errorf("limits: disk-reserve: %w", err)
	}
	if uint64(max(reserve, 0)) > free { // not negative
		return control.Usage(fmt.Sprintf("limits: disk-reserve %s: only %d MiB are free, so the peer would stop at once", volunteer.SizeText(reserve), free>>20))
	}
	return nil
}

func keyNames() string {
	names := make([]string, len(volunteer.Keys))
	for i, k := range volunteer.Keys {
		names[i] = k.Name
	}
	return strings.Join(names, ", ")
}

// stored returns the state to store; the mutex is held.
func (l *Limits) stored() storedLimits {
	return storedLimits{Changed: maps.Clone(l.changed), Pause: l.pause}
}

// store writes s and wakes the loop. It decides first, so that the caller reads the new state.
func (l *Limits) store(s storedLimits) error {
	l.mu.Lock()
	l.now = volunteer.Decide(time.Now(), &l.rules, l.pause, &l.seen, &l.ledger)
	l.mu.Unlock()
	select {
	case l.poke <- struct{}{}:
	default:
	}
	return l.deps.Kept.PutJSON(MetaLimits, s)
}

// Reserve returns the free disk space at which the peer stops.
func (l *Limits) Reserve() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return uint64(max(l.rules.DiskReserve, 1)) // positive
}

// Heap returns the live heap without page bodies, which have their own limit. Throttling for large
// pages in progress would leave mostly slow hosts in use.
func (l *Limits) Heap() int64 { return max(l.heap()-l.deps.Worker.Stats().Memory, 0) }

// BandwidthCap returns the current download limit in bytes per second, 0 for none.
func (l *Limits) BandwidthCap() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now.Bandwidth
}

// View returns settings, active throttles and usage.
func (l *Limits) View() *control.Limits {
	fetching := l.deps.Worker.Stats().InFlight
	l.mu.Lock()
	defer l.mu.Unlock()
	v := &control.Limits{Paused: l.now.Paused, Holds: append([]control.Hold{}, l.now.Holds...)}
	for _, k := range volunteer.Keys {
		_, changed := l.changed[k.Name]
		v.Settings = append(v.Settings, control.Setting{Key: k.Name, Value: k.Get(&l.rules), Default: k.Get(&l.started), Changed: changed, About: k.About})
	}
	v.Caps = control.Caps{
		Bandwidth: l.now.Bandwidth, BandwidthUp: l.now.BandwidthUp, Fetchers: l.now.Fetchers, CPUShare: l.rules.CPUShare, Memory: l.rules.Memory,
		DiskQuota: l.rules.DiskQuota, DiskReserve: l.rules.DiskReserve, QuotaDay: l.rules.QuotaDay, QuotaMonth: l.rules.QuotaMonth,
	}
	v.Used = control.Used{Fetchers: fetching, Memory: machine.Resident(), Disk: l.seen.Disk, Day: l.ledger.Day, Month: l.ledger.Month, DayPages: l.ledger.Pages, DayWorkS: l.ledger.WorkS, All: l.ledger.All, AllPages: l.ledger.AllPages}
	v.Used.Bandwidth, v.Used.BandwidthUp, v.Used.CPUShare = l.speed.of()
	v.Observed = control.Observed{Battery: l.seen.Battery.String(), Metered: l.seen.Metered.String()}
	if l.seen.IdleKnown {
		s := l.seen.Idle.Seconds()
		v.Observed.IdleS = &s
	}
	return v
}

// speed measures the use of the last second.
type speed struct {
	marks [speedMarks]speedMark
	next  int
}

// speedMarks is the number of samples, one per speedEvery: together about a second.
const (
	speedMarks = 6
	speedEvery = 200 * time.Millisecond
)

type speedMark struct {
	at       time.Time
	down, up int64
	spent    time.Duration
}

// record adds a sample, at most one per speedEvery.
func (s *speed) record(now time.Time, down, up int64, spent time.Duration) {
	last := &s.marks[(s.next+speedMarks-1)%speedMarks]
	if now.Sub(last.at) < speedEvery {
		return
	}
	s.marks[s.next] = speedMark{now, down, up, spent}
	s.next = (s.next + 1) % speedMarks
}

// of returns bytes per second in each direction, and cores; zero with fewer than two samples.
func (s *speed) of() (down, up int64, cores float64) {
	last := s.marks[(s.next+speedMarks-1)%speedMarks]
	first := last
	for _, m := range s.marks { // the oldest of the last second and a half
		if !m.at.IsZero() && m.at.Before(first.at) && last.at.Sub(m.at) <= 3*limitsEvery {
			first = m
		}
	}
	span := last.at.Sub(first.at).Seconds()
	if span <= 0 {
		return 0, 0, 0
	}
	return int64(float64(last.down-first.down) / span), int64(float64(last.up-first.up) / span), (last.spent - first.spent).Seconds() / span
}
