package limits

import (
	"encoding/json"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/worker"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/volunteer"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
	"github.com/apoidea/apoidea/storage/storagetest"
)

// bench is a worker that notes what it is told, with measurements that a test sets.
type bench struct {
	mu       sync.Mutex // guards the rest
	moves    []string
	fetchers int
	memory   int64
	line     *Line
	spent    time.Duration
}

func (b *bench) move(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.moves = append(b.moves, what)
}

func (b *bench) Pause()                { b.move("pause") }
func (b *bench) BreakOff()             { b.move("break off") }
func (b *bench) Resume()               { b.move("resume") }
func (b *bench) SetFetchers(n int)     { b.fetchers = n }
func (b *bench) SetBandwidth(int64)    {}
func (b *bench) SetMemory(bytes int64) { b.memory = bytes }
func (b *bench) Stats() worker.Stats   { return worker.Stats{} }

// limits returns limits that use b, without a stored state.
func (b *bench) limits(s *storage.Store, started volunteer.Rules) *Limits {
	b.line = NewLine()
	return &Limits{
		started: started, free: func() (uint64, error) { return 1 << 30, nil },
		cpu: func() time.Duration { return b.spent }, heap: func() int64 { return 0 },
		deps: Deps{
			Kept: memo{s.Keyspace(storage.KeyspaceMeta)}, Worker: b, Line: b.line, Log: slog.New(slog.DiscardHandler),
			PageMemory: func(bytes int64) int64 { return bytes },
		},
	}
}

// memo keeps what a start keeps for the next one.
type memo struct{ space *storage.Keyspace }

func (m memo) GetJSON(name string, v any) error {
	raw, ok, err := m.space.Get([]byte(name))
	if err != nil || !ok {
		return err
	}
	return json.Unmarshal(raw, v)
}

func (m memo) PutJSON(name string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	wait, err := m.space.Update(func(b kv.Batch) {
		b.Set([]byte(name), raw)
	})
	if err != nil {
		return err
	}
	return wait()
}

func (m memo) NoteJSON(name string, v any) error { return m.PutJSON(name, v) }

// limitsOn makes limits over a store, as a start of a peer does.
func limitsOn(t *testing.T, s *storage.Store, b *bench) *Limits {
	t.Helper()
	started := volunteer.Rules{Fetchers: 16, Memory: 100 << 20, Bandwidth: 1e6}
	l, err := load(b.limits(s, started), false)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestPauseActs: a pause has nothing begun at once, breaks off what is under way after its grace,
// once, and ends by the clock.
func TestPauseActs(t *testing.T) {
	b := new(bench)
	l := limitsOn(t, storagetest.New(t), b)
	now := time.Now()
	if err := l.setPause(volunteer.Pause{On: true, Until: now.Add(time.Minute)}); err != nil {
		t.Fatal(err)
	}
	if !l.Paused() {
		t.Error("not paused before the loop has turned")
	}
	for _, after := range []time.Duration{0, pauseGrace / 2, pauseGrace, 2 * pauseGrace, time.Minute, 2 * time.Minute} {
		l.step(now.Add(after))
	}
	if want := []string{"pause", "break off", "resume"}; !slices.Equal(b.moves, want) {
		t.Errorf("moved %q, want %q", b.moves, want)
	}
	if l.Paused() {
		t.Error("paused after its end")
	}
}

// TestLimitsOutlastRestart: what was set and a pause are there after a restart, and act before
// anything is fetched.
func TestLimitsOutlastRestart(t *testing.T) {
	s := storagetest.New(t)
	b := new(bench)
	l := limitsOn(t, s, b)
	if b.line.Down.Rate() != 1e6 || b.line.Up.Rate() != 1e6 || b.fetchers != 16 || b.memory != 100<<20 {
		t.Errorf("started with %d down, %d up, %d fetchers, memory %d", b.line.Down.Rate(), b.line.Up.Rate(), b.fetchers, b.memory)
	}
	if err := l.set(map[string]string{"bandwidth": "2Mbit", "fetchers": "4", "quota-day": "1000B"}); err != nil {
		t.Fatal(err)
	}
	l.step(time.Now())
	if b.line.Down.Rate() != 250_000 || b.line.Up.Rate() != 250_000 || b.fetchers != 4 {
		t.Errorf("set: %d down, %d up, %d fetchers", b.line.Down.Rate(), b.line.Up.Rate(), b.fetchers)
	}
	if err := l.setPause(volunteer.Pause{On: true}); err != nil {
		t.Fatal(err)
	}
	b.line.Spent(150, 900)
	l.step(time.Now())
	if err := l.keepLedger(time.Now()); err != nil {
		t.Fatal(err)
	}

	again := new(bench)
	l = limitsOn(t, s, again)
	if again.line.Down.Rate() != 250_000 || again.fetchers != 4 || !slices.Equal(again.moves, []string{"pause"}) {
		t.Errorf("after a restart %d down, %d fetchers, moved %q", again.line.Down.Rate(), again.fetchers, again.moves)
	}
	v := l.View()
	if v.Used.Day != 1050 || v.Used.Month != 1050 {
		t.Errorf("after a restart %d bytes today, %d this month: want 1050", v.Used.Day, v.Used.Month)
	}
	var rules []string
	for _, h := range v.Holds {
		rules = append(rules, h.Rule)
	}
	if !slices.Equal(rules, []string{volunteer.ByUser, volunteer.KeyQuotaDay}) {
		t.Errorf("holds %v, want the pause and the quota", rules)
	}
	if err := l.set(map[string]string{"bandwidth": "default", "quota-day": "none"}); err != nil {
		t.Fatal(err)
	}
	if err := l.setPause(volunteer.Pause{}); err != nil {
		t.Fatal(err)
	}
	l.step(time.Now())
	if again.line.Down.Rate() != 1e6 || l.Paused() {
		t.Errorf("taken back: %d down, paused %v", again.line.Down.Rate(), l.Paused())
	}
}

// TestLimitsRefused: one wrong value, and nothing is changed.
func TestLimitsRefused(t *testing.T) {
	b := new(bench)
	l := limitsOn(t, storagetest.New(t), b)
	for _, c := range []struct {
		values map[string]string
		says   string
	}{
		{map[string]string{"fetchers": "3", "bandwidth": "2Mb"}, `bandwidth "2Mb"`},
		{map[string]string{"fetchers": "3", "speed": "2Mbit"}, `"speed"`},
	} {
		err := l.set(c.values)
		if control.KindOf(err) != control.KindUsage || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: error %v, want one of usage with %s", c.values, err, c.says)
		}
		if l.step(time.Now()); b.fetchers != 16 {
			t.Errorf("%v: fetchers %d although it was refused", c.values, b.fetchers)
		}
	}
}

// TestSetAtOnce: of what two people set at the same time nothing is lost, here or after a restart.
func TestSetAtOnce(t *testing.T) {
	s := storagetest.New(t)
	l := limitsOn(t, s, new(bench))
	l.free = func() (uint64, error) {
		runtime.Gosched() // so that others come in between
		return 1 << 30, nil
	}
	for i := range 50 {
		reserve, fetchers := strconv.Itoa(1<<20+i)+"B", strconv.Itoa(1+i)
		var both sync.WaitGroup
		both.Go(func() {
			if err := l.set(map[string]string{"disk-reserve": reserve}); err != nil {
				t.Error(err)
			}
		})
		both.Go(func() {
			if err := l.set(map[string]string{"fetchers": fetchers}); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
		again := limitsOn(t, s, new(bench))
		for _, x := range []*Limits{l, again} {
			if x.rules.Fetchers != 1+i || x.rules.DiskReserve != int64(1<<20+i) {
				t.Fatalf("round %d: fetchers %d, reserve %d", i, x.rules.Fetchers, x.rules.DiskReserve)
			}
		}
	}
}

// TestPacing: while more processor time is used than the share, no exchange begins.
func TestPacing(t *testing.T) {
	b := new(bench)
	l := limitsOn(t, storagetest.New(t), b)
	if err := l.set(map[string]string{"cpu-share": "50%"}); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	worked, rested := 0, 0
	for range 100 {
		now = now.Add(paceEvery)
		if every := l.step(now); every != paceEvery {
			t.Fatalf("looked again after %v, want %v", every, paceEvery)
		}
		if b.fetchers > 0 {
			worked++
			b.spent += paceEvery
		} else {
			rested++
		}
	}
	if worked < 45 || worked > 60 {
		t.Errorf("worked in %d of 100 turns at a share of a half", worked)
	}
}

// TestReserveThatIsNotThere: a reserve above the free space would end the peer, and then nobody
// could take it back.
func TestReserveThatIsNotThere(t *testing.T) {
	s := storagetest.New(t)
	l := limitsOn(t, s, new(bench))
	if err := l.set(map[string]string{"disk-reserve": "2GiB", "fetchers": "3"}); control.KindOf(err) != control.KindUsage || !strings.Contains(err.Error(), "1024 MiB are free") {
		t.Errorf("2 GiB of 1: %v", err)
	}
	if l.rules.Fetchers != 16 {
		t.Error("the rest of a request that was refused is in force")
	}
	if err := l.set(map[string]string{"disk-reserve": "512MiB"}); err != nil {
		t.Fatal(err)
	}
	if again := limitsOn(t, s, new(bench)); again.Reserve() != 512<<20 {
		t.Errorf("%d bytes after a restart", again.Reserve())
	}
	b := new(bench)
	for range 2 { // at the start that forgets, and at the next
		forgot, err := load(b.limits(s, volunteer.Rules{DiskReserve: 1 << 20}), true)
		if err != nil || forgot.Reserve() != 1<<20 {
			t.Errorf("%d bytes, %v: not those of the start", forgot.Reserve(), err)
		}
	}
}

// TestSmallDirectoriesAreMeasuredOften: what lies on disk is told as of a few seconds ago, unless
// looking through it takes long.
func TestSmallDirectoriesAreMeasuredOften(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0: diskLeast, time.Millisecond: diskLeast, 100 * time.Millisecond: 20 * time.Second, time.Minute: diskEach,
	} {
		if got := nextMeasure(took); got != want {
			t.Errorf("after %v: again in %v, want %v", took, got, want)
		}
	}
}
