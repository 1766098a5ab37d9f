package node

import (
	"slices"
	"testing"

	"github.com/apoidea/apoidea/crawl/job"
)

// TestJobStates: a peer hears of pause, resume and cancel at its next refresh, and only of changes.
func TestJobStates(t *testing.T) {
	w := &jobWorld{present: newJobs(t, nil)}
	poster, _ := newBook(t, w, metaSpace(t))
	peer, told := newBook(t, w, metaSpace(t))
	spec := newSpec(t, nil, "http://a.example/")
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
		if _, got, ok := peer.Job(spec.ID); !ok || got != state {
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

// TestJobSurvivesItsOwner: when the owner of a job is gone, whoever owns it next learns it from those who work for it, state and all, and later
// changes are heard by all.
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
			spec := newSpec(t, nil, "http://a.example/")
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
			if _, got, ok := book.Job(spec.ID); !ok || got != want {
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
				for _, b := range []*jobBook{book, newcomer} {
					if _, got, _ := b.Job(spec.ID); got != state {
						t.Errorf("step %d: state %v, want %v", i, got, state)
					}
				}
			}
		})
	}
}

// TestJobsAreBounded: however many jobs are met or asked for, so many are kept; finished ones go first, and what went can be learnt again.
func TestJobsAreBounded(t *testing.T) {
	w := &jobWorld{present: newJobs(t, nil)}
	book, _ := newBook(t, w, metaSpace(t))
	for range 2 * maxKnownJobs {
		book.Job(job.NewID())
	}
	if len(book.wanted) != maxKnownJobs {
		t.Errorf("%d wanted", len(book.wanted))
	}
	done := newSpec(t, nil, "http://a.example/")
	if _, err := book.post(t.Context(), done); err != nil {
		t.Fatal(err)
	}
	if _, err := book.setState(t.Context(), done.ID, job.StateCanceled); err != nil {
		t.Fatal(err)
	}
	for range maxKnownJobs {
		if _, err := book.post(t.Context(), newSpec(t, nil, "http://a.example/")); err != nil {
			t.Fatal(err)
		}
	}
	if len(book.known) != maxKnownJobs {
		t.Errorf("%d known", len(book.known))
	}
	if _, _, ok := book.Job(done.ID); ok {
		t.Error("the finished job was not the first to go")
	}
	if _, err := book.get(t.Context(), done.ID); err != nil {
		t.Error(err)
	}
	if _, state, ok := book.Job(done.ID); !ok || state != job.StateCanceled {
		t.Errorf("learnt again: %v, %v", state, ok)
	}
}
