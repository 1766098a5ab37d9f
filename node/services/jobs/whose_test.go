package jobs

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/storage/kv"
)

// nameOf is the ID of a job key of tests.
func nameOf(n byte) peer.ID { return peer.ID(crawltest.Key(n).ID()) }

// TestWhose: whose jobs are taken.
func TestWhose(t *testing.T) {
	plain, one, two := crawltest.Job(t, nil, "http://a.example/"), crawltest.SignedJob(t, crawltest.Key(1), nil, "http://a.example/"), crawltest.SignedJob(t, crawltest.Key(2), nil, "http://a.example/")
	posing := crawltest.Job(t, func(m *wire.JobSpec) { m.Poster = crawltest.Key(1).ID() }, "http://a.example/")
	ones := map[peer.ID]bool{nameOf(1): true}
	for _, row := range []struct {
		name  string
		whose Whose
		takes []*job.Spec
	}{
		{"any", Whose{}, []*job.Spec{plain, posing, one, two}},
		{"any that is signed", Whose{Signed: true}, []*job.Spec{one, two}},
		{"one", Whose{Keys: ones}, []*job.Spec{one}},
		{"one that is signed", Whose{Keys: ones, Signed: true}, []*job.Spec{one}},
		{"nobody", Whose{Keys: map[peer.ID]bool{}}, nil},
	} {
		for i, spec := range []*job.Spec{plain, posing, one, two} {
			want := false
			for _, taken := range row.takes {
				want = want || taken == spec
			}
			err := row.whose.Takes(spec)
			if (err == nil) != want {
				t.Errorf("%s, spec %d: %v", row.name, i, err)
			}
			if err != nil && spec.Signed() && !strings.Contains(err.Error(), peer.ID(spec.Poster).String()) {
				t.Errorf("%s, spec %d: it does not name the key: %v", row.name, i, err)
			}
		}
	}
}

func TestReadKeys(t *testing.T) {
	keys, err := ReadKeys([]byte("# ours\n\n" + nameOf(1).String() + "\n  " + nameOf(2).String() + " # of the other office\r\n"))
	if err != nil || len(keys) != 2 || !keys[nameOf(1)] || !keys[nameOf(2)] {
		t.Errorf("%v, %v", keys, err)
	}
	if keys, err := ReadKeys(nil); err != nil || keys == nil {
		t.Errorf("an empty list: %v, %v; want nobody's, not everybody's", keys, err)
	}
	if _, err := ReadKeys([]byte(nameOf(1).String() + "\nme\n")); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("a name that is no ID: %v", err)
	}
}

// TestJobsOfOthersAreNotTaken: a peer that takes the jobs of one key keeps the record of no other,
// whichever way it comes, works for none, and says so once.
func TestJobsOfOthersAreNotTaken(t *testing.T) {
	whose := Whose{Keys: map[peer.ID]bool{nameOf(1): true}}
	open := newJobs(t, nil)
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	s := NewService(ServiceDeps{Store: crawltest.NewStore(), Serves: func(job.ID) error { return nil }, Whose: whose, Log: log})
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	defer func() { cancel(); <-ran }()

	ours, theirs, nobodys := crawltest.SignedJob(t, crawltest.Key(1), nil, "http://a.example/"), crawltest.SignedJob(t, crawltest.Key(2), nil, "http://a.example/"), crawltest.Job(t, nil, "http://a.example/")
	for _, spec := range []*job.Spec{ours, theirs, nobodys} {
		raw, err := proto.Marshal(&wire.JobRequest{Id: spec.ID[:], Post: spec.Wire()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := open.Service().Handle(t.Context(), "p", raw); err != nil {
			t.Fatal(err)
		}
		_, err = s.Service().Handle(t.Context(), "p", raw)
		if (spec == ours) != (err == nil) || spec != ours && calls.CodeOf(err) != calls.CodeRefused {
			t.Errorf("posted: %v", err)
		}
	}
	var records []kv.Record
	if err := open.State.Export([16]byte{}, [16]byte{}, func(k, v []byte) bool {
		records = append(records, kv.Record{Key: bytes.Clone(k), Value: bytes.Clone(v)})
		return true
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.State.Import(records); err != nil {
		t.Errorf("records of others hold up the rest: %v", err)
	}
	if list, err := s.State.List(job.ID{}, 1<<20); err != nil || len(list) != 1 || job.ID(list[0].GetSpec().GetId()) != ours.ID {
		t.Errorf("kept are %v, %v", list, err)
	}

	w, space := &jobWorld{present: open}, metaSpace(t)
	before, _ := newBook(t, w, space) // a run that took all
	for _, spec := range []*job.Spec{ours, theirs} {
		if _, err := before.get(t.Context(), spec.ID); err != nil {
			t.Fatal(err)
		}
	}
	said.Reset()
	book, err := NewRegistry(RegistryDeps{Owners: w, Keep: space, Changed: func(*job.Spec, job.State) {}, Key: crawltest.Key(2), Whose: whose, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		for _, spec := range []*job.Spec{ours, theirs, nobodys} {
			book.Want(spec.ID)
			book.fetchWanted(t.Context())
			_, _, ok := book.Job(spec.ID)
			if got, err := book.Spec(t.Context(), spec.ID); (err == nil) != (spec == ours) || ok != (spec == ours) || ok && got.ID != spec.ID {
				t.Errorf("worked for: %v, %v", ok, err)
			}
			if _, err := (Worked{book}).Spec(t.Context(), spec.ID); errors.Is(err, job.ErrNotTaken) != (spec != ours) {
				t.Errorf("for a worker: %v", err)
			}
		}
	}
	if n := strings.Count(said.String(), "level=WARN"); n != 2 || len(book.wanted) > 0 {
		t.Errorf("said %d times, %d wanted:\n%s", n, len(book.wanted), said.String())
	}
	if _, err := (Worked{book}).Spec(t.Context(), job.ID{1}); !errors.Is(err, job.ErrNotTaken) {
		t.Errorf("a job that nobody knows: %v", err)
	}
	if _, err := (Worked{before}).Spec(t.Context(), job.ID{1}); err == nil || errors.Is(err, job.ErrNotTaken) {
		t.Errorf("a job that nobody knows, where all are taken: %v", err)
	}
	p := NewPoster(PosterDeps{Registry: book, Ready: func(context.Context) error { return nil }})
	if _, err := p.Post(t.Context(), control.JobSpec{URLs: []string{"http://a.example/"}}); control.KindOf(err) != control.KindRefused || !strings.Contains(err.Error(), nameOf(2).String()) {
		t.Errorf("its own: %v", err)
	}
}

// TestTurnedAwayByALie: an owner that tells a job without its signature keeps a peer from it for a
// while, and no longer.
func TestTurnedAwayByALie(t *testing.T) {
	w := &jobWorld{present: newJobs(t, nil)}
	spec := crawltest.SignedJob(t, crawltest.Key(1), nil, "http://a.example/")
	if _, err := newBookOf(t, w).post(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	book := newBookOf(t, w)
	book.deps.Whose.Signed = true
	w.lie = func(reply *wire.JobReply) { reply.Jobs[0].Spec.Signature = nil }
	knows := func() bool {
		book.Want(spec.ID)
		book.fetchWanted(t.Context())
		_, ok := book.look(spec.ID)
		return ok
	}
	if knows() {
		t.Error("a job that nobody signed is worked for")
	}
	w.lie = nil
	if knows() || len(book.wanted) > 0 {
		t.Error("it is asked for again at once")
	}
	book.turned[spec.ID] = turned{err: book.turned[spec.ID].err}
	if !knows() {
		t.Error("it is not asked for again")
	}
}

// TestOwnerThatDoesNotTakeAJob is told of it less and less, as that is a long message.
func TestOwnerThatDoesNotTakeAJob(t *testing.T) {
	w := &jobWorld{present: newJobs(t, nil)}
	book := newBookOf(t, w)
	if _, err := book.post(t.Context(), crawltest.Job(t, nil, "http://a.example/")); err != nil {
		t.Fatal(err)
	}
	w.present = newJobs(t, nil)
	w.present.deps.Whose.Signed = true
	begin := w.posts
	for range 120 {
		w.now = w.now.Add(refreshEvery)
		book.refresh(t.Context(), w.now)
	}
	if n := w.posts - begin; n < 2 || n > 12 {
		t.Errorf("told %d times in two minutes", n)
	}
}
