package jobs

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
)

// TestJobStates: a peer hears of pause, resume and cancel at its next refresh, and only of changes.
func TestJobStates(t *testing.T) {
	w := &jobWorld{present: newJobs(t, nil)}
	poster, _ := newBook(t, w, metaSpace(t))
	peer, told := newBook(t, w, metaSpace(t))
	spec := crawltest.Job(t, nil, "http://a.example/")
	if _, err := poster.post(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if _, _, ok := peer.Job(spec.ID); ok {
		t.Error("known before it was asked for")
	}
	peer.fetchWanted(t.Context())
	var want []job.State
	for _, state := range []job.State{job.StateRunning, job.StatePaused, job.StateRunning, job.StateCanceled} {
		if _, err := poster.setState(t.Context(), spec.ID, state); err != nil {
			t.Fatal(err)
		}
		peer.refresh(t.Context(), w.later())
		peer.refresh(t.Context(), w.later())
		want = append(want, state)
		if _, got, ok := peer.Job(spec.ID); !ok || got.State != state {
			t.Errorf("state %v, want %v", got, state)
		}
	}
	if !slices.Equal(*told, want) {
		t.Errorf("told of %v, want %v", *told, want)
	}
	if len(peer.wanted) > 0 {
		t.Errorf("still wanted: %v", peer.wanted)
	}
}

// TestJobSurvivesItsOwner: when the owner of a job is gone, whoever owns it next learns it from
// those who work for it, state and all, and later changes are heard by all.
func TestJobSurvivesItsOwner(t *testing.T) {
	for _, row := range []struct {
		name   string
		before []job.State
	}{
		{"running", nil},
		{"paused", []job.State{job.StatePaused}},
		{"resumed", []job.State{job.StatePaused, job.StateRunning}},
		{"paused often", []job.State{job.StatePaused, job.StateRunning, job.StatePaused, job.StateRunning, job.StatePaused}},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := &jobWorld{present: newJobs(t, nil)}
			space := metaSpace(t)
			book, _ := newBook(t, w, space)
			spec := crawltest.Job(t, nil, "http://a.example/")
			if _, err := book.post(t.Context(), spec); err != nil {
				t.Fatal(err)
			}
			want := job.StateRunning
			for _, want = range row.before {
				if _, err := book.setState(t.Context(), spec.ID, want); err != nil {
					t.Fatal(err)
				}
			}
			w.present = nil
			book, _ = newBook(t, w, space) // a restart meanwhile: the spec is on disk
			book.refresh(t.Context(), w.later())
			if _, got, ok := book.Job(spec.ID); !ok || got.State != want {
				t.Fatalf("with the owner gone: %v, %v", got, ok)
			}
			w.present = newJobs(t, nil)
			for range 3 {
				book.refresh(t.Context(), w.later())
			}
			if w.posts != 2 {
				t.Errorf("posted %d times, want once and once anew", w.posts)
			}
			newcomer, _ := newBook(t, w, metaSpace(t))
			for i, state := range []job.State{want, job.StatePaused, job.StateRunning, job.StateCanceled} {
				if i > 0 {
					if _, err := newcomer.setState(t.Context(), spec.ID, state); err != nil {
						t.Fatal(err)
					}
				} else if _, err := newcomer.get(t.Context(), spec.ID); err != nil {
					t.Fatal(err)
				}
				book.refresh(t.Context(), w.later())
				for _, b := range []*Registry{book, newcomer} {
					if _, got, _ := b.Job(spec.ID); got.State != state {
						t.Errorf("step %d: state %v, want %v", i, got, state)
					}
				}
			}
		})
	}
}

// TestJobsAreBounded: however many jobs are met or asked for, so many are kept; finished ones go
// first, and what went can be learnt again.
func TestJobsAreBounded(t *testing.T) {
	w := &jobWorld{present: newJobs(t, nil)}
	book, _ := newBook(t, w, metaSpace(t))
	for range 2 * maxKnown {
		book.Job(job.NewID())
	}
	if len(book.wanted) != maxKnown {
		t.Errorf("%d wanted", len(book.wanted))
	}
	done := crawltest.Job(t, nil, "http://a.example/")
	if _, err := book.post(t.Context(), done); err != nil {
		t.Fatal(err)
	}
	if _, err := book.setState(t.Context(), done.ID, job.StateCanceled); err != nil {
		t.Fatal(err)
	}
	for range maxKnown {
		if _, err := book.post(t.Context(), crawltest.Job(t, nil, "http://a.example/")); err != nil {
			t.Fatal(err)
		}
	}
	if len(book.known) != maxKnown {
		t.Errorf("%d known", len(book.known))
	}
	if _, _, ok := book.Job(done.ID); ok {
		t.Error("the finished job was not the first to go")
	}
	if _, err := book.get(t.Context(), done.ID); err != nil {
		t.Error(err)
	}
	if _, state, ok := book.Job(done.ID); !ok || state.State != job.StateCanceled {
		t.Errorf("learnt again: %v, %v", state, ok)
	}
}

// keptIn are the jobs that a book has on disk.
func keptIn(t *testing.T, space *storage.Keyspace) map[job.ID]job.State {
	t.Helper()
	kept := make(map[job.ID]job.State)
	if err := space.Scan([]byte(KeyPrefix), kv.PrefixEnd([]byte(KeyPrefix)), func(_, value []byte) bool {
		spec, s, err := Read(value)
		if err != nil {
			t.Fatal(err)
		}
		kept[spec.ID] = s.State
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return kept
}

// TestMadeUpJobs: while somebody makes up a hundred thousand jobs a second, one that is there, and
// comes once a second, is learnt; when that ends they are forgotten, and nobody is asked any more.
func TestMadeUpJobs(t *testing.T) {
	w := &jobWorld{present: newJobs(t, nil)}
	poster, book := newBookOf(t, w), newBookOf(t, w)
	spec := crawltest.Job(t, nil, "http://a.example/")
	if _, err := poster.post(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	var made uint64
	for second := 0; ; second++ {
		for range 100_000 {
			made++
			var id job.ID
			binary.BigEndian.PutUint64(id[:], made)
			book.Want(id)
		}
		book.fetchWanted(t.Context())
		if _, _, ok := book.Job(spec.ID); ok {
			break
		}
		if second == 40 {
			t.Fatal("not known")
		}
	}
	for id, wish := range book.wanted {
		wish.since = wish.since.Add(-wantedFor)
		book.wanted[id] = wish
	}
	for range maxKnown / wantedAtOnce {
		book.fetchWanted(t.Context())
	}
	if len(book.wanted) > 0 {
		t.Errorf("%d are still wanted", len(book.wanted))
	}
	late := job.NewID()
	book.Want(late)
	book.fetchWanted(t.Context())
	if len(book.wanted) != 1 {
		t.Error("one whose owner has not got it yet is forgotten at once")
	}
}

// TestJobsOnDiskAreBounded: finished jobs that memory has no room for go from the disk as well,
// also those of earlier runs; unfinished ones are what a book begins with.
func TestJobsOnDiskAreBounded(t *testing.T) {
	const unfinished = 20
	space := metaSpace(t)
	var running []job.ID
	for i := range maxKnown + 100 {
		spec := crawltest.Job(t, nil, "http://a.example/")
		s := job.Standing{State: []job.State{job.StateDone, job.StateCanceled}[i%2], Version: 2}
		if i < unfinished {
			s.State, running = job.StateRunning, append(running, spec.ID)
		}
		raw, err := proto.Marshal(recordOf(spec, s))
		if err != nil {
			t.Fatal(err)
		}
		if err := space.UpdateNoSync(func(w kv.Batch) { w.Set(keyOf(spec.ID), raw) }); err != nil {
			t.Fatal(err)
		}
	}
	book, _ := newBook(t, &jobWorld{}, space)
	for _, id := range running {
		if _, ok := book.look(id); !ok {
			t.Errorf("job %s is running, and not known", id)
		}
	}
	if n := len(keptIn(t, space)); len(book.known) != maxKnown || n != maxKnown {
		t.Errorf("%d known, %d on disk, want %d", len(book.known), n, maxKnown)
	}
	for range 50 {
		if err := book.learn(crawltest.Job(t, nil, "http://a.example/"), job.Standing{State: job.StateRunning, Version: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(keptIn(t, space)); len(book.known) != maxKnown || n != maxKnown {
		t.Errorf("with more jobs: %d known, %d on disk, want %d", len(book.known), n, maxKnown)
	}
}

// TestRunningJobIsReadBack: one that memory had no room for is on disk, and found there when it is
// wanted, also if its owner is gone.
func TestRunningJobIsReadBack(t *testing.T) {
	book := newBookOf(t, &jobWorld{})
	var gone *job.Spec
	var all []*job.Spec
	for range maxKnown + 1 {
		all = append(all, crawltest.Job(t, nil, "http://a.example/"))
		if err := book.learn(all[len(all)-1], job.Standing{State: job.StatePaused, Version: 2}); err != nil {
			t.Fatal(err)
		}
	}
	for _, spec := range all {
		if _, ok := book.look(spec.ID); !ok {
			gone = spec
		}
	}
	book.Want(gone.ID)
	book.fetchWanted(t.Context())
	if _, state, ok := book.Job(gone.ID); !ok || state.State != job.StatePaused {
		t.Errorf("the job is %v, %v", state, ok)
	}
	for _, spec := range all {
		if got, err := book.Spec(t.Context(), spec.ID); err != nil || got.ID != spec.ID || !got.InScope("a.example") {
			t.Fatalf("job %s: %v", spec.ID, err)
		}
	}
}

// TestCanceledStaysCanceled: the owner dies before all have heard of the end of a job. Whoever is
// the first to tell the next owner, and with how many changes of state behind it, the job ends
// everywhere.
func TestCanceledStaysCanceled(t *testing.T) {
	for _, row := range []struct {
		name       string
		cancelLast bool // the one that heard of it is the last to speak to the next owner
		changes    []job.State
	}{
		{"running elsewhere", true, nil},
		{"told first", false, nil},
		{"changed often elsewhere", true, []job.State{job.StatePaused, job.StateRunning, job.StateDone, job.StateRunning}},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := &jobWorld{present: newJobs(t, nil)}
			knows, missed := newBookOf(t, w), newBookOf(t, w)
			spec := crawltest.Job(t, nil, "http://a.example/")
			if _, err := knows.post(t.Context(), spec); err != nil {
				t.Fatal(err)
			}
			if _, err := missed.get(t.Context(), spec.ID); err != nil {
				t.Fatal(err)
			}
			if _, err := knows.setState(t.Context(), spec.ID, job.StateCanceled); err != nil {
				t.Fatal(err)
			}
			w.present = newJobs(t, nil)
			order := []*Registry{knows, missed, knows}
			if row.cancelLast {
				order = []*Registry{missed, knows, missed}
			}
			for i, b := range order {
				b.refresh(t.Context(), w.later())
				if i > 0 || !row.cancelLast {
					continue
				}
				for _, state := range row.changes {
					if _, err := missed.setState(t.Context(), spec.ID, state); err != nil {
						t.Fatal(err)
					}
				}
			}
			for i, b := range []*Registry{knows, missed, newBookOf(t, w)} {
				if _, err := b.get(t.Context(), spec.ID); err != nil {
					t.Fatal(err)
				}
				if _, state, _ := b.Job(spec.ID); state.State != job.StateCanceled {
					t.Errorf("book %d: %v", i, state)
				}
			}
		})
	}
}

// TestBookIsReadWhileItLearns: the owner's loop reads the state of a job while it changes. The race
// detector judges.
func TestBookIsReadWhileItLearns(t *testing.T) {
	b := newBookOf(t, &jobWorld{present: newJobs(t, nil)})
	spec := crawltest.Job(t, nil, "http://a.example/")
	if err := b.learn(spec, job.Standing{State: job.StateRunning, Version: 1}); err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	learnt := make(chan struct{})
	reading.Go(func() {
		for {
			select {
			case <-learnt:
				return
			default:
			}
			if _, state, ok := b.Job(spec.ID); !ok || state.State == job.StateNone {
				t.Error("a job is not known any more")
			}
		}
	})
	for version := range uint64(100) {
		state := []job.State{job.StateRunning, job.StatePaused}[version%2]
		if err := b.learn(spec, job.Standing{State: state, Version: version + 2}); err != nil {
			t.Fatal(err)
		}
	}
	close(learnt)
	reading.Wait()
}

// TestJobsAreAskedAfterTogether: many running jobs of one owner cost few requests a second, and
// finished ones next to none.
func TestJobsAreAskedAfterTogether(t *testing.T) {
	w := &jobWorld{present: newJobs(t, nil)}
	poster, book := newBookOf(t, w), newBookOf(t, w)
	const jobs = 3*refreshPart - 1
	ids := make([]job.ID, jobs)
	for i := range ids {
		spec := crawltest.Job(t, nil, "http://a.example/")
		ids[i] = spec.ID
		if _, err := poster.post(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		if _, err := book.get(t.Context(), spec.ID); err != nil {
			t.Fatal(err)
		}
	}
	asks := func(seconds int) int {
		begin := w.asks
		for range seconds {
			w.now = w.now.Add(refreshEvery)
			book.refresh(t.Context(), w.now)
		}
		return w.asks - begin
	}
	if n := asks(10); n != 30 {
		t.Errorf("%d requests in ten seconds for %d running jobs, want 30", n, jobs)
	}
	for _, id := range ids {
		if _, err := poster.setState(t.Context(), id, job.StateDone); err != nil {
			t.Fatal(err)
		}
	}
	asks(1)
	for _, id := range ids {
		if _, got, _ := book.Job(id); got.State != job.StateDone {
			t.Fatalf("job %s: %v", id, got.State)
		}
	}
	asks(120)
	if n := asks(600); n > 33 {
		t.Errorf("%d requests in ten minutes for finished jobs", n)
	}
	if _, err := poster.setState(t.Context(), ids[0], job.StateRunning); err != nil {
		t.Fatal(err)
	}
	asks(int(finishedRefresh/refreshEvery) + 1)
	if _, state, _ := book.Job(ids[0]); state.State != job.StateRunning {
		t.Errorf("a resumed job: %v", state)
	}
}

// TestJobsWithoutAnswer: jobs whose owner does not answer, or has not got them all, do not keep the
// others from being heard of.
func TestJobsWithoutAnswer(t *testing.T) {
	for _, row := range []struct {
		name  string
		mute  func(job.ID) error
		heard bool
	}{
		{"moved", func(job.ID) error { return errors.New("moved") }, false},
		{"served", func(job.ID) error { return nil }, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := &jobWorld{present: newJobs(t, nil)}
			poster, book := newBookOf(t, w), newBookOf(t, w)
			var ids []job.ID
			for range 12 {
				spec := crawltest.Job(t, nil, "http://a.example/")
				ids = append(ids, spec.ID)
				if _, err := poster.post(t.Context(), spec); err != nil {
					t.Fatal(err)
				}
				if _, err := book.get(t.Context(), spec.ID); err != nil {
					t.Fatal(err)
				}
				if _, err := poster.setState(t.Context(), spec.ID, job.StatePaused); err != nil {
					t.Fatal(err)
				}
			}
			mute := ids[:6]
			w.present.deps.Serves = func(id job.ID) error {
				if slices.Contains(mute, id) {
					return row.mute(id)
				}
				return nil
			}
			book.refresh(t.Context(), w.later())
			for i, id := range ids {
				want := job.StatePaused
				if i < len(mute) && !row.heard {
					want = job.StateRunning
				}
				if _, got, _ := book.Job(id); got.State != want {
					t.Errorf("job %d: %v, want %v", i, got.State, want)
				}
			}
			begin := w.asks
			book.refresh(t.Context(), w.later())
			if first := w.asks - begin; !row.heard && first != len(mute)+1 {
				t.Errorf("%d requests, want one for all that answer and one for each that does not", first)
			}
		})
	}
}

// TestJobsOfAnyClock: a job whose poster says that it was made in the year 146 million is listed
// with the others, which JSON could not tell.
func TestJobsOfAnyClock(t *testing.T) {
	for _, ms := range []int64{0, -1, math.MinInt64, math.MaxInt64, 1_770_000_000_000, 1_770_000_005_000, 1_769_999_940_000} {
		j := jobOf(&wire.Job{Spec: &wire.JobSpec{Id: make([]byte, 16), CreatedMs: ms}})
		if _, err := json.Marshal(j); err != nil {
			t.Errorf("%d: %v", ms, err)
		}
		if j.Created.IsZero() != (ms <= 0 || ms == math.MaxInt64) {
			t.Errorf("%d: created %v", ms, j.Created)
		}
	}
}
