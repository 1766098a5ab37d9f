package limits

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/volunteer"
	"github.com/apoidea/apoidea/node/volunteer/machine"
	"github.com/apoidea/apoidea/storage"
)

const (
	// limitsEvery is how often it is decided anew what holds. What a person changes is acted on at
	// once.
	limitsEvery = 500 * time.Millisecond
	// paceEvery is the same while processor time is rationed: work and rest alternate at this beat.
	paceEvery = 100 * time.Millisecond
	// pauseGrace is what exchanges under way have to end by themselves when a pause begins.
	pauseGrace = time.Second
	// ledgerEvery is how often the bytes of the day and the month are kept: a crash forgets no more
	// than those since.
	ledgerEvery = 2 * time.Second
)

// The names under which they are kept.
const (
	MetaLimits = "limits"
	metaLedger = "ledger"
)

// Deps are what the limits use of the peer.
type Deps struct {
	Kept   Kept   // where changed settings and the ledger are kept
	Worker Worker // that is paused and slowed
	Line   *Line  // that all connections pass
	// DataDir is where the free space is looked at, and what takes room there.
	DataDir string
	// OwnProcess says that the process is this peer's alone, so that the heap has the bound on
	// memory as well.
	OwnProcess bool
	// PageMemory is what pages may take of a bound on memory, 0 for none.
	PageMemory func(bound int64) int64
	Log        *slog.Logger // hears when a rule begins or ends to hold
}

// Kept is what a peer keeps between two runs, by name.
type Kept interface {
	// GetJSON reads a value, and leaves v alone if there is none.
	GetJSON(name string, v any) error
	// PutJSON stores a value and waits until it is on disk; NoteJSON does not wait.
	PutJSON(name string, v any) error
	NoteJSON(name string, v any) error // stores a value, without the wait
}

// Limits is what this peer may use of its machine and its link, decided again and again, and put
// into force. Its methods are safe for concurrent use.
type Limits struct {
	started volunteer.Rules // as flags and file have them
	meta    Kept
	log     *slog.Logger
	levers  levers
	gauges  gauges
	poke    chan struct{}          // something was changed
	free    func() (uint64, error) // of the disk, in bytes
	dir     string                 // where that is
	turn    chan struct{}          // held by who changes what is kept, from reading it to the disk

	mu      sync.Mutex // guards what follows; never held over the disk
	rules   volunteer.Rules
	changed map[string]string // by key: what limits set gave
	pause   volunteer.Pause
	ledger  volunteer.Ledger
	seen    volunteer.Observed
	now     volunteer.Decision
	resting bool // the pacer's word
	speed   speed

	// The rest is of the loop alone.
	told    volunteer.Decision
	force   inForce
	pacer   volunteer.Pacer
	counted int64     // bytes in the ledger
	pages   int64     // pages in it
	stepped time.Time // the last step
	kept    time.Time // the ledger
}

// levers are what a decision moves.
type levers interface {
	// pauseFetching has nothing begun from now on, breakOff ends what is under way, resumeFetching
	// takes the pause back.
	pauseFetching()
	breakOff()
	resumeFetching()
	setFetchers(n int)
	setBandwidth(down, up int64)
	setMemory(bytes int64)
}

// gauges are what is held against the rules. They do not block.
type gauges interface {
	// traffic is all that came and went since the start, in bytes.
	traffic() (down, up int64)
	// processTime is what the process has used, heap what it could not collect, without the bodies
	// of pages.
	processTime() time.Duration
	heap() int64
	fetching() int
	// work is how many pages were fetched since the start, and whether a host is in hand.
	work() (pages int64, busy bool)
}

// inForce is what the levers were moved to last.
type inForce struct {
	set       bool
	paused    bool
	pausedAt  time.Time
	brokenOff bool
	fetchers  int
	down, up  int64
	memory    int64
}

// storedLimits is what survives a restart.
type storedLimits struct {
	Changed map[string]string `json:"changed,omitempty"`
	Pause   volunteer.Pause   `json:"pause"`
}

// New takes up what the last run kept; forget leaves out, for good, what limits set changed then.
func New(started volunteer.Rules, forget bool, d Deps) (*Limits, error) {
	p := peerLevers{d}
	return moving(&Limits{
		started: started, meta: d.Kept, levers: p, gauges: p, log: d.Log, free: func() (uint64, error) { return storage.Free(d.DataDir) }, dir: d.DataDir,
	}, forget)
}

// moving takes up what was kept, with levers and gauges that are there.
func moving(l *Limits, forget bool) (*Limits, error) {
	l.poke, l.turn = make(chan struct{}, 1), make(chan struct{}, 1)
	var stored storedLimits
	if err := l.meta.GetJSON(MetaLimits, &stored); err != nil {
		return nil, err
	}
	if forget && len(stored.Changed) > 0 {
		stored.Changed = nil
		if err := l.meta.PutJSON(MetaLimits, stored); err != nil {
			return nil, err
		}
	}
	if err := l.meta.GetJSON(metaLedger, &l.ledger); err != nil {
		return nil, err
	}
	l.changed, l.pause = make(map[string]string), stored.Pause
	for key, value := range stored.Changed {
		rules := l.started
		if k, ok := volunteer.Find(key); !ok || k.Set(&rules, value) != nil {
			l.log.Warn("stored limit is not understood, and left out", "key", key, "value", value)
			continue
		}
		l.changed[key] = value
	}
	l.rules = changedRules(l.started, l.changed)
	l.step(time.Now())
	return l, nil
}

// KeptReserve is the disk reserve that limits set made in earlier runs, in bytes; 0 if it did not.
func KeptReserve(k Kept) (uint64, error) {
	var stored storedLimits
	err := k.GetJSON(MetaLimits, &stored)
	value, ok := stored.Changed[volunteer.KeyDiskReserve]
	if !ok {
		return 0, err
	}
	return uint64(max(changedRules(volunteer.Rules{}, map[string]string{volunteer.KeyDiskReserve: value}).DiskReserve, 0)), err // not negative
}

// changedRules are the rules with changes that were checked before.
func changedRules(rules volunteer.Rules, changed map[string]string) volunteer.Rules {
	for _, k := range volunteer.Keys {
		if value, ok := changed[k.Name]; ok {
			_ = k.Set(&rules, value)
		}
	}
	return rules
}

// Run keeps the limits in force until ctx ends; then the ledger is kept.
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

// step decides what holds and puts it into force; it returns when to look again.
func (l *Limits) step(now time.Time) time.Duration {
	down, up := l.gauges.traffic()
	spent := l.gauges.processTime()
	heap := l.gauges.heap()
	pages, busy := l.gauges.work()
	work := time.Duration(0)
	if busy {
		work = min(now.Sub(l.stepped), 2*limitsEvery) // a machine that slept did not work
	}
	l.mu.Lock()
	l.ledger.Add(now, down+up-l.counted)
	l.ledger.Did(pages-l.pages, work)
	l.counted, l.pages, l.stepped = down+up, pages, now
	l.speed.note(now, down, up, spent)
	l.seen.Heap = heap
	l.resting = l.pacer.Rest(now, l.rules.CPUShare, spent)
	l.now = volunteer.Decide(now, &l.rules, l.pause, &l.seen, &l.ledger)
	d, resting, rules := l.now, l.resting, l.rules
	l.mu.Unlock()
	l.tell(&l.told, &d)
	l.told = d
	l.apply(now, &d, resting, rules.Memory)
	if rules.CPUShare > 0 && !d.Paused {
		return paceEvery
	}
	return limitsEvery
}

// tell logs a change of what pauses.
func (l *Limits) tell(was, is *volunteer.Decision) {
	old, _ := was.Pausing()
	h, paused := is.Pausing()
	switch {
	case paused && h.Rule != old.Rule:
		l.log.Info("paused", "rule", h.Rule, "why", h.Why)
	case !paused && was.Paused:
		l.log.Info("goes on after a pause", "rule", old.Rule)
	}
}

// apply moves the levers that are not where they belong.
func (l *Limits) apply(now time.Time, d *volunteer.Decision, resting bool, memory int64) {
	f := &l.force
	fetchers := d.Fetchers
	if resting {
		fetchers = 0
	}
	if !f.set || fetchers != f.fetchers {
		l.levers.setFetchers(fetchers)
	}
	if !f.set || d.Bandwidth != f.down || d.BandwidthUp != f.up {
		l.levers.setBandwidth(d.Bandwidth, d.BandwidthUp)
	}
	if !f.set || memory != f.memory {
		l.levers.setMemory(memory)
	}
	f.set, f.fetchers, f.down, f.up, f.memory = true, fetchers, d.Bandwidth, d.BandwidthUp, memory
	switch {
	case d.Paused && !f.paused:
		l.levers.pauseFetching()
		f.paused, f.pausedAt, f.brokenOff = true, now, false
	case !d.Paused && f.paused:
		l.levers.resumeFetching()
		f.paused = false
	case f.paused && !f.brokenOff && now.Sub(f.pausedAt) >= pauseGrace:
		l.levers.breakOff()
		f.brokenOff = true
	}
}

// keepLedger stores the bytes of the day and the month if there are more. It does not wait for the
// disk: what a killed process has written is read again.
func (l *Limits) keepLedger(now time.Time) error {
	l.mu.Lock()
	ledger := l.ledger
	l.mu.Unlock()
	l.kept = now
	return l.meta.NoteJSON(metaLedger, &ledger)
}

// Holding is the hold that pauses, if one does.
func (l *Limits) Holding() (volunteer.Hold, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now.Pausing()
}

// Paused says whether nothing is to be fetched now.
func (l *Limits) Paused() bool {
	_, paused := l.Holding()
	return paused
}

// setPause begins or ends the pause by a person, on disk as well.
func (l *Limits) setPause(p volunteer.Pause) error {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	l.mu.Lock()
	l.pause = p
	stored := l.stored()
	l.mu.Unlock()
	return l.store(stored)
}

// set changes rules by their keys, all or none, on disk as well.
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

// leavesRoom refuses a disk reserve that is not there: the peer would end at once, and then there
// is nobody to take it back.
func (l *Limits) leavesRoom(reserve int64) error {
	free, err := l.free()
	if err != nil {
		return fmt.Errorf("limits: disk-reserve: %w", err)
	}
	if uint64(max(reserve, 0)) > free { // not negative
		return control.Usage(fmt.Sprintf("limits: disk-reserve %s: only %d MiB are free, so the peer would end at once", volunteer.SizeText(reserve), free>>20))
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

// stored is what is to be kept; the mutex is held.
func (l *Limits) stored() storedLimits {
	return storedLimits{Changed: maps.Clone(l.changed), Pause: l.pause}
}

// store keeps what was changed and has the loop act on it. What is in force is decided here
// already, so that whoever asked sees it.
func (l *Limits) store(s storedLimits) error {
	l.mu.Lock()
	l.now = volunteer.Decide(time.Now(), &l.rules, l.pause, &l.seen, &l.ledger)
	l.mu.Unlock()
	select {
	case l.poke <- struct{}{}:
	default:
	}
	return l.meta.PutJSON(MetaLimits, s)
}

// Reserve is the free disk space at which the peer ends.
func (l *Limits) Reserve() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return uint64(max(l.rules.DiskReserve, 1)) // positive
}

// Heap is what counts of the heap for the bound on memory, in bytes.
func (l *Limits) Heap() int64 { return l.gauges.heap() }

// BandwidthCap is the bandwidth that may come at present, in bytes a second, 0 for any.
func (l *Limits) BandwidthCap() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now.Bandwidth
}

// View is what is told of the limits.
func (l *Limits) View() *control.Limits {
	fetching := l.gauges.fetching()
	l.mu.Lock()
	defer l.mu.Unlock()
	v := &control.Limits{Paused: l.now.Paused, Holds: []control.Hold{}}
	for _, h := range l.now.Holds {
		v.Holds = append(v.Holds, holdOf(&h))
	}
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

func holdOf(h *volunteer.Hold) control.Hold {
	c := control.Hold{Rule: h.Rule, Effect: "slow", Why: h.Why, Ends: h.Ends}
	if h.Pauses {
		c.Effect = "pause"
	}
	if !h.Until.IsZero() {
		c.Until = &h.Until
	}
	return c
}

// speed is what was used in the last second or so.
type speed struct {
	marks [speedMarks]speedMark
	next  int
}

// speedMarks are kept, one each speedEvery: so the span between the oldest and the newest is about
// a second.
const (
	speedMarks = 6
	speedEvery = 200 * time.Millisecond
)

type speedMark struct {
	at       time.Time
	down, up int64
	spent    time.Duration
}

// note adds what the gauges say, unless it did a moment ago.
func (s *speed) note(now time.Time, down, up int64, spent time.Duration) {
	last := &s.marks[(s.next+speedMarks-1)%speedMarks]
	if now.Sub(last.at) < speedEvery {
		return
	}
	s.marks[s.next] = speedMark{now, down, up, spent}
	s.next = (s.next + 1) % speedMarks
}

// of is bytes a second each way, and cores. Zero before there are two marks.
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
