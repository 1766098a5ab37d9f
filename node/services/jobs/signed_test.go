package jobs

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/node/control"
)

// keyed is a book whose peer signs by a key.
func keyed(t *testing.T, w *jobWorld, key job.Key) *Registry {
	t.Helper()
	b := newBookOf(t, w)
	b.deps.Key = key
	return b
}

// TestSignedJobRequests: what the owner of a signed job answers strangers, in order, and what the
// job comes to. None of them has the key of its poster.
func TestSignedJobRequests(t *testing.T) {
	s, key := newJobs(t, nil), crawltest.Key(1)
	spec := crawltest.SignedJob(t, key, nil, "http://a.example/")
	id := spec.ID[:]
	sign := func(state job.State, version uint64) []byte {
		return []byte(key.SignState(spec.ID, job.Standing{State: state, Version: version}).Signature)
	}
	changed, plain := proto.CloneOf(spec.Wire()), proto.CloneOf(spec.Wire())
	changed.MaxPages = 7
	plain.Signature = nil
	const paused, canceled = uint32(job.StatePaused), uint32(job.StateCanceled)
	for _, row := range []struct {
		name    string
		req     *wire.JobRequest
		refused bool
		version uint64 // of the job, behind it
	}{
		{"a spec that was changed", &wire.JobRequest{Id: id, Post: changed}, true, 0},
		{"post", &wire.JobRequest{Id: id, Post: spec.Wire()}, false, 1},
		{"the same without signature", &wire.JobRequest{Id: id, Post: plain}, true, 1},
		{"cancel", &wire.JobRequest{Id: id, SetState: canceled}, true, 1},
		{"cancel with a version", &wire.JobRequest{Id: id, SetState: canceled, Version: 1 << 40}, true, 1},
		{"cancel by the signature of another version", &wire.JobRequest{Id: id, SetState: canceled, Version: 3, StateSignature: sign(job.StateCanceled, 2)}, true, 1},
		{"restore as canceled", &wire.JobRequest{Id: id, Post: spec.Wire(), State: canceled, Version: 1 << 40}, true, 1},
		{"restore as done", &wire.JobRequest{Id: id, Post: spec.Wire(), State: uint32(job.StateDone), Version: 2, StateSignature: sign(job.StatePaused, 2)}, true, 1},
		{"pause, as the poster signed", &wire.JobRequest{Id: id, SetState: paused, Version: 2, StateSignature: sign(job.StatePaused, 2)}, false, 2},
		{"resume, as the poster signed", &wire.JobRequest{Id: id, SetState: uint32(job.StateRunning), Version: 3, StateSignature: sign(job.StateRunning, 3)}, false, 3},
		{"pause, as the poster signed long ago", &wire.JobRequest{Id: id, SetState: paused, Version: 2, StateSignature: sign(job.StatePaused, 2)}, false, 3},
		{"restore as known", &wire.JobRequest{Id: id, Post: spec.Wire(), State: paused, Version: 4, StateSignature: sign(job.StatePaused, 4)}, false, 4},
	} {
		raw, err := proto.Marshal(row.req)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Service().Handle(t.Context(), "stranger", raw)
		if (err != nil) != row.refused || row.refused && calls.CodeOf(err) != calls.CodeRefused {
			t.Errorf("%s: %v", row.name, err)
		}
		now, err := s.State.Standing(spec.ID)
		if now.Version != row.version || now.State == job.StateCanceled || (err != nil) != (row.version == 0) {
			t.Errorf("%s: %v, %v", row.name, now, err)
		}
	}
}

// TestLyingOwnerEndsNothing: whoever keeps a signed job, and says that it is at an end or another,
// is not believed; what the poster signs is heard of once there is an honest owner.
func TestLyingOwnerEndsNothing(t *testing.T) {
	key := crawltest.Key(1)
	for name, lie := range map[string]func(rec *wire.Job, s *wire.JobStanding){
		"canceled": func(rec *wire.Job, s *wire.JobStanding) {
			rec.State, rec.Version = uint32(job.StateCanceled), 1<<40
			s.State, s.Version = uint32(job.StateCanceled), 1<<40
		},
		"paused, by another key": func(rec *wire.Job, s *wire.JobStanding) {
			now := crawltest.Key(2).SignState(job.ID(s.GetId()), job.Standing{State: job.StatePaused, Version: 9})
			setTold(rec, s, now)
		},
		"done, and a spec without signature": func(rec *wire.Job, s *wire.JobStanding) {
			setTold(rec, s, job.Standing{State: job.StateDone, Version: 9})
			rec.Spec.Signature = nil
		},
		"canceled, and the spec of another": func(rec *wire.Job, s *wire.JobStanding) {
			other := crawltest.Job(t, nil, "http://a.example/")
			other.ID = job.ID(rec.GetSpec().GetId())
			if err := crawltest.Key(2).Sign(other); err != nil {
				t.Error(err)
			}
			rec.Spec = other.Wire()
			setTold(rec, s, crawltest.Key(2).SignState(other.ID, job.Standing{State: job.StateCanceled, Version: 9}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &jobWorld{present: newJobs(t, nil)}
			space := metaSpace(t)
			book, _ := newBook(t, w, space)
			book.deps.Key = key
			spec := crawltest.SignedJob(t, key, nil, "http://a.example/")
			if _, err := book.post(t.Context(), spec); err != nil {
				t.Fatal(err)
			}
			w.lie = func(reply *wire.JobReply) {
				rec, s := &wire.Job{Spec: spec.Wire()}, &wire.JobStanding{Id: spec.ID[:]}
				for _, rec = range reply.GetJobs() {
					lie(rec, s)
				}
				for _, s = range reply.GetStandings() {
					lie(rec, s)
				}
			}
			runs := func(when string) {
				t.Helper()
				if k, ok := book.look(spec.ID); !ok || k.State != job.StateRunning {
					t.Errorf("%s: %v, %v", when, k.State, ok)
				}
				if kept, s, err := book.kept(spec.ID); err != nil || s != job.Posted() || !kept.Signed() {
					t.Errorf("%s: on disk %v, %v", when, s, err)
				}
			}
			for range 3 {
				book.refresh(t.Context(), w.later())
				runs("refreshed")
				if _, err := book.get(t.Context(), spec.ID); err == nil {
					t.Error("the lie is taken")
				}
				runs("asked")
			}
			w.lie = nil
			if _, err := book.setState(t.Context(), spec.ID, job.StatePaused); err != nil {
				t.Fatal(err)
			}
			if k, _ := book.look(spec.ID); k.State != job.StatePaused {
				t.Errorf("in the end it is %v", k.State)
			}
		})
	}
}

func setTold(rec *wire.Job, s *wire.JobStanding, now job.Standing) {
	rec.State, rec.Version, rec.StateSignature = uint32(now.State), now.Version, []byte(now.Signature)
	s.State, s.Version, s.StateSignature = rec.GetState(), rec.GetVersion(), rec.GetStateSignature()
}

// TestSignedJobSurvivesItsOwner: state and signature come to the next owner by those who work for
// the job and do not have the key, also after a restart.
func TestSignedJobSurvivesItsOwner(t *testing.T) {
	key := crawltest.Key(1)
	w := &jobWorld{present: newJobs(t, nil)}
	poster, space := keyed(t, w, key), metaSpace(t)
	worker, _ := newBook(t, w, space)
	spec := crawltest.SignedJob(t, key, nil, "http://a.example/")
	if _, err := poster.post(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	for _, state := range []job.State{job.StatePaused, job.StateRunning, job.StatePaused} {
		if _, err := poster.setState(t.Context(), spec.ID, state); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := worker.get(t.Context(), spec.ID); err != nil {
		t.Fatal(err)
	}
	worker, _ = newBook(t, w, space)
	w.present = newJobs(t, nil)
	worker.refresh(t.Context(), w.later())
	now, err := w.present.State.Standing(spec.ID)
	if err != nil || now.State != job.StatePaused || now.Version != 4 {
		t.Errorf("the next owner knows %v, %v", now, err)
	}
	if _, err := poster.setState(t.Context(), spec.ID, job.StateCanceled); err != nil {
		t.Fatal(err)
	}
	worker.refresh(t.Context(), w.later())
	if k, _ := worker.look(spec.ID); k.State != job.StateCanceled {
		t.Errorf("the worker has not heard of the end: %v", k.State)
	}
}

// TestWhoMayChangeAJob: without the poster's key a job is neither paused nor canceled, which says
// whose it is; whoever waits for it does no harm. Two peers with the key can both change it.
func TestWhoMayChangeAJob(t *testing.T) {
	w := &jobWorld{present: newJobs(t, nil)}
	key := crawltest.Key(1)
	spec := crawltest.SignedJob(t, key, nil, "http://a.example/")
	if _, err := keyed(t, w, key).post(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	ring := func(context.Context) (*control.Ring, error) { return &control.Ring{Closed: true}, nil }
	at := func(key job.Key) *Poster {
		b := keyed(t, w, key)
		if _, err := b.get(t.Context(), spec.ID); err != nil {
			t.Fatal(err)
		}
		return NewPoster(PosterDeps{Registry: b, Ring: ring})
	}
	id := spec.ID.String()
	foreign := at(crawltest.Key(2))
	for _, action := range []string{"pause", "resume", "cancel"} {
		_, err := foreign.SetJob(t.Context(), id, action)
		if control.KindOf(err) != control.KindRefused || !strings.Contains(err.Error(), id) || !strings.Contains(err.Error(), "12D3KooW") {
			t.Errorf("%s: %v", action, err)
		}
	}
	if _, err := foreign.SetJob(t.Context(), id, "finish"); err != nil {
		t.Errorf("finish: %v", err)
	}
	if now, err := w.present.State.Standing(spec.ID); err != nil || now != job.Posted() {
		t.Errorf("it is %v, %v", now, err)
	}
	one, two := at(key), at(key)
	for i, step := range []struct {
		at     *Poster
		action string
		want   job.Standing
	}{
		{one, "resume", job.Standing{State: job.StateRunning, Version: 1}}, // it runs as posted
		{one, "pause", job.Standing{State: job.StatePaused, Version: 2}},
		{two, "resume", job.Standing{State: job.StateRunning, Version: 3}},
		{two, "resume", job.Standing{State: job.StateRunning, Version: 3}},
		{one, "cancel", job.Standing{State: job.StateCanceled, Version: 4}},
		{two, "cancel", job.Standing{State: job.StateCanceled, Version: 4}},
	} {
		j, err := step.at.SetJob(t.Context(), id, step.action)
		now, serr := w.present.State.Standing(spec.ID)
		if now.Signature = ""; err != nil || serr != nil || now != step.want || j.State != step.want.State.String() {
			t.Errorf("step %d, %s: %v, %v; %v, %v", i, step.action, j, err, now, serr)
		}
	}
	other := keyed(t, w, crawltest.Key(2)) // a peer that posted by its identity, before it had a key in a file
	other.deps.Own = crawltest.Key(1)
	if rec, err := other.setState(t.Context(), spec.ID, job.StateCanceled); err != nil || job.State(rec.GetState()) != job.StateCanceled {
		t.Errorf("by its identity: %v, %v", rec, err)
	}
	if _, err := two.SetJob(t.Context(), id, "resume"); err == nil || errors.Is(err, job.ErrSignature) {
		t.Errorf("resumed what is canceled: %v", err)
	}
}

// TestPostedAt: a job that is signed by another key than the peer's own names the peer, which hands
// in the rest of its seeds.
func TestPostedAt(t *testing.T) {
	own, shared := crawltest.Key(1), crawltest.Key(2)
	for _, key := range []job.Key{own, shared} {
		b := keyed(t, &jobWorld{}, key)
		b.deps.Own = own
		spec, err := NewPoster(PosterDeps{Registry: b}).sign(control.JobSpec{URLs: []string{"http://a.example/"}})
		if err != nil || !spec.By(string(own.ID())) || spec.By(string(shared.ID())) || string(spec.Poster) != string(key.ID()) {
			t.Errorf("%+v, %v", spec, err)
		}
		if again, err := job.FromWire(spec.Wire()); err != nil || !again.By(string(own.ID())) {
			t.Errorf("%+v, %v", again, err)
		}
	}
}
