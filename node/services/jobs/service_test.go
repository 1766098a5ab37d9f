package jobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/node/services/rpc/rpctest"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/storagetest"
)

var quietLog = slog.New(slog.DiscardHandler)

// jobWorld is the owners of a job, one after another, and those who ask them.
type jobWorld struct {
	mu      sync.Mutex
	present *Service             // nil: nobody answers
	lie     func(*wire.JobReply) // nil: owners answer as they should
	posts   int
	asks    int
	now     time.Time
}

// later is when all jobs are due again.
func (w *jobWorld) later() time.Time {
	w.now = w.now.Add(2 * finishedRefresh)
	return w.now
}

// CallOwner implements rpc.Owners.
func (w *jobWorld) CallOwner(ctx context.Context, _ ring.Key, _ string, raw []byte) ([]byte, error) {
	w.mu.Lock()
	s, lie := w.present, w.lie
	req := new(wire.JobRequest)
	if proto.Unmarshal(raw, req) == nil && req.GetPost() != nil {
		w.posts++
	}
	if len(req.GetAsk()) > 0 {
		w.asks++
	}
	w.mu.Unlock()
	if s == nil {
		return nil, calls.ErrUnreachable
	}
	answer, err := s.Service().Handle(ctx, "asker", raw)
	if err != nil || lie == nil {
		return answer, err
	}
	reply := new(wire.JobReply)
	if err := proto.Unmarshal(answer, reply); err != nil {
		return nil, err
	}
	lie(reply)
	return proto.Marshal(reply)
}

// newJobs starts a job's owner without any job.
func newJobs(t *testing.T, seeds func(context.Context, *job.Spec, int) (int, error)) *Service {
	t.Helper()
	s := NewService(ServiceDeps{
		Self: "asker", Store: crawltest.NewStore(), Serves: func(job.ID) error { return nil }, Seeds: seeds, Log: quietLog,
		Spec:   func(job.ID) (*job.Spec, job.Standing, bool) { return nil, job.Standing{}, false },
		Member: func(context.Context, peer.ID) bool { return true },
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return s
}

// newBook returns a book that asks w, and what it was told of changes.
func newBook(t *testing.T, w *jobWorld, space *storage.Keyspace) (*Registry, *[]job.State) {
	t.Helper()
	var mu sync.Mutex // jobs are asked after in several rows
	var told []job.State
	b, err := NewRegistry(RegistryDeps{Owners: w, Keep: space, Log: quietLog, Changed: func(_ *job.Spec, s job.State) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, s)
	}})
	if err != nil {
		t.Fatal(err)
	}
	return b, &told
}

func newBookOf(t *testing.T, w *jobWorld) *Registry {
	t.Helper()
	b, _ := newBook(t, w, metaSpace(t))
	return b
}

func metaSpace(t *testing.T) *storage.Keyspace {
	t.Helper()
	return storagetest.New(t).Keyspace(storage.KeyspaceMeta)
}

// TestJobRequests: what the owner of a job answers, in order.
func TestJobRequests(t *testing.T) {
	s := newJobs(t, nil)
	spec, other := crawltest.Job(t, nil, "http://a.example/"), crawltest.Job(t, nil, "http://b.example/")
	changed := proto.CloneOf(spec.Wire())
	changed.MaxPages = 7
	for _, row := range []struct {
		name    string
		req     *wire.JobRequest
		code    calls.Code
		unknown bool
		state   job.State
		version uint64
	}{
		{name: "an unknown job", req: &wire.JobRequest{Id: spec.ID[:], Get: true}, unknown: true},
		{name: "pause an unknown job", req: &wire.JobRequest{Id: spec.ID[:], SetState: uint32(job.StatePaused)}, unknown: true},
		{name: "post", req: &wire.JobRequest{Id: spec.ID[:], Post: spec.Wire()}, state: job.StateRunning, version: 1},
		{name: "post the same again", req: &wire.JobRequest{Id: spec.ID[:], Post: spec.Wire()}, state: job.StateRunning, version: 1},
		{name: "post another under its name", req: &wire.JobRequest{Id: spec.ID[:], Post: changed}, code: calls.CodeRefused},
		{name: "post under another name", req: &wire.JobRequest{Id: spec.ID[:], Post: other.Wire()}, code: calls.CodeRefused},
		{name: "pause", req: &wire.JobRequest{Id: spec.ID[:], SetState: uint32(job.StatePaused)}, state: job.StatePaused, version: 2},
		{name: "pause again", req: &wire.JobRequest{Id: spec.ID[:], SetState: uint32(job.StatePaused)}, state: job.StatePaused, version: 2},
		{name: "resume", req: &wire.JobRequest{Id: spec.ID[:], SetState: uint32(job.StateRunning)}, state: job.StateRunning, version: 3},
		{name: "post with an earlier state", req: &wire.JobRequest{Id: spec.ID[:], Post: spec.Wire(), State: uint32(job.StatePaused), Version: 2}, state: job.StateRunning, version: 3},
		{name: "post with a later state", req: &wire.JobRequest{Id: spec.ID[:], Post: spec.Wire(), State: uint32(job.StatePaused), Version: 6}, state: job.StatePaused, version: 6},
		{name: "post with a state that is none", req: &wire.JobRequest{Id: spec.ID[:], Post: spec.Wire(), State: 99, Version: 9}, code: calls.CodeRefused},
		{name: "post with no version", req: &wire.JobRequest{Id: spec.ID[:], Post: spec.Wire(), State: uint32(job.StatePaused)}, code: calls.CodeRefused},
		{name: "cancel", req: &wire.JobRequest{Id: spec.ID[:], SetState: uint32(job.StateCanceled)}, state: job.StateCanceled, version: 7},
		{name: "resume what is canceled", req: &wire.JobRequest{Id: spec.ID[:], SetState: uint32(job.StateRunning)}, code: calls.CodeRefused},
		{name: "no name", req: &wire.JobRequest{Get: true}, code: calls.CodeRefused},
	} {
		raw, err := proto.Marshal(row.req)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := s.Service().Handle(t.Context(), "asker", raw)
		if calls.CodeOf(err) != row.code || (err == nil) != (row.code == 0) {
			t.Errorf("%s: error %v", row.name, err)
		}
		if err != nil {
			continue
		}
		reply := new(wire.JobReply)
		if err := proto.Unmarshal(answer, reply); err != nil || reply.Validate() != nil {
			t.Fatalf("%s: %v", row.name, err)
		}
		if row.unknown {
			if reply.GetError() == "" {
				t.Errorf("%s: %v", row.name, reply)
			}
		} else if rec := reply.GetJobs()[0]; job.State(rec.GetState()) != row.state || rec.GetVersion() != row.version {
			t.Errorf("%s: state %v, version %d", row.name, job.State(rec.GetState()), rec.GetVersion())
		}
	}
}

// TestSeeds: seeds that are taken in part are noted, counted as outstanding, and the rest is sent
// later; one job's trouble is not another's.
func TestSeeds(t *testing.T) {
	sent := make(map[job.ID][]string)
	room := make(map[job.ID]int)
	full := errors.New("busy")
	s := newJobs(t, func(_ context.Context, spec *job.Spec, from int) (int, error) {
		n := min(room[spec.ID], len(spec.Seeds)-from)
		sent[spec.ID] = append(sent[spec.ID], spec.Seeds[from:from+n]...)
		if from+n < len(spec.Seeds) {
			return n, full
		}
		return n, nil
	})
	seeds := []string{"http://a.example/", "http://b.example/", "http://c.example/"}
	var specs []*job.Spec
	for range 3 {
		spec := crawltest.Job(t, nil, seeds...)
		specs = append(specs, spec)
		if _, err := s.answer(t.Context(), "poster", &wire.JobRequest{Id: spec.ID[:], Post: spec.Wire()}); err != nil {
			t.Fatal(err)
		}
	}
	s.deps.Serves = func(job.ID) error { return errors.New("another serves it by now") } // the seeds are still this peer's to send
	stuck, half, free := specs[0].ID, specs[1].ID, specs[2].ID
	room[half], room[free] = 2, 9
	for i, want := range []struct {
		fails bool
		left  map[job.ID]int64
	}{
		{true, map[job.ID]int64{stuck: 3, half: 1}},
		{true, map[job.ID]int64{stuck: 3}},
		{false, map[job.ID]int64{}},
		{false, map[job.ID]int64{}},
	} {
		if i == 2 {
			room[stuck] = 9
		}
		if err := s.sow(t.Context()); (err != nil) != want.fails || err != nil && !errors.Is(err, full) {
			t.Errorf("round %d: %v", i, err)
		}
		left, err := s.Unsent(t.Context())
		if err != nil || len(left) != len(want.left) {
			t.Errorf("round %d: left %v, %v; want %v", i, left, err, want.left)
		}
		for id, n := range want.left {
			if left[id] != n {
				t.Errorf("round %d: %d left of %s, want %d", i, left[id], id, n)
			}
		}
	}
	for _, spec := range specs {
		if !slices.Equal(sent[spec.ID], seeds) {
			t.Errorf("sent of %s: %v", spec.ID, sent[spec.ID])
		}
	}
}

// TestSeedsTakenSoonAfterRefusal: owners of a ring that has just formed refuse seeds for a moment;
// they are sent again at once, and nobody is warned.
func TestSeedsTakenSoonAfterRefusal(t *testing.T) {
	tries := make(chan time.Time, 10)
	s := newJobs(t, func(_ context.Context, spec *job.Spec, from int) (int, error) {
		if tries <- time.Now(); len(tries) < 3 {
			return 0, errors.New("no room")
		}
		return len(spec.Seeds) - from, nil
	})
	var log bytes.Buffer
	s.deps.Log = slog.New(slog.NewTextHandler(&log, nil))
	spec := crawltest.Job(t, nil, "http://a.example/")
	if _, err := s.answer(t.Context(), "poster", &wire.JobRequest{Id: spec.ID[:], Post: spec.Wire()}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), seedEvery)
	defer cancel()
	if err := s.RunSeeds(ctx); err != nil || len(tries) < 3 || log.Len() > 0 {
		t.Errorf("%v, %d tries: %s", err, len(tries), log.String())
	}
}

// TestSeedsOfCanceledJobs are not sent, and not outstanding.
func TestSeedsOfCanceledJobs(t *testing.T) {
	s := newJobs(t, func(context.Context, *job.Spec, int) (int, error) {
		t.Error("sent")
		return 0, nil
	})
	spec := crawltest.Job(t, nil, "http://a.example/")
	for _, req := range []*wire.JobRequest{{Post: spec.Wire()}, {SetState: uint32(job.StateCanceled)}} {
		req.Id = spec.ID[:]
		if _, err := s.answer(t.Context(), peer.ID("p"), req); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.sow(t.Context()); err != nil {
		t.Error(err)
	}
	if left, err := s.Unsent(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// TestJobsOfStrangers: strangers post some jobs and then wait, however many of them there are, and
// draw of no budget. What is not taken, or was before, does not count.
func TestJobsOfStrangers(t *testing.T) {
	s := newJobs(t, nil)
	others := job.NewID()
	s.deps.Serves = func(id job.ID) error {
		if id == others {
			return &calls.Error{Code: calls.CodeMoved}
		}
		return nil
	}
	post := func(req *wire.JobRequest) calls.Code {
		raw, err := proto.Marshal(req)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Service().Behind(rpctest.Untrusted{})(t.Context(), peer.ID(req.GetId()), raw)
		return calls.CodeOf(err)
	}
	kept, signed := crawltest.Job(t, nil, "http://a.example/"), crawltest.SignedJob(t, crawltest.Key(1), nil, "http://a.example/")
	forged := proto.CloneOf(signed.Wire())
	forged.MaxPages = 7
	if code := post(&wire.JobRequest{Id: kept.ID[:], Post: kept.Wire()}); code != 0 {
		t.Fatalf("the first: %v", code)
	}
	taken := 1
	for range partyAtOnce {
		for _, row := range []struct {
			req  *wire.JobRequest
			code calls.Code
		}{
			{&wire.JobRequest{Id: kept.ID[:], Post: kept.Wire()}, 0},
			{&wire.JobRequest{Id: others[:], Post: kept.Wire()}, calls.CodeMoved},
			{&wire.JobRequest{Id: signed.ID[:], Post: kept.Wire()}, calls.CodeRefused},
			{&wire.JobRequest{Id: signed.ID[:], Post: forged}, calls.CodeRefused},
			{&wire.JobRequest{Id: signed.ID[:], Post: signed.Wire(), State: uint32(job.StatePaused), Version: 2}, calls.CodeRefused},
		} {
			if code := post(row.req); code != row.code {
				t.Errorf("%v: %v, want %v", row.req, code, row.code)
			}
		}
	}
	const most = strangersBytes / smallJob
	for range 2 * most {
		spec := crawltest.Job(t, nil, "http://a.example/")
		if post(&wire.JobRequest{Id: spec.ID[:], Post: spec.Wire()}) != calls.CodeBusy {
			taken++
		}
	}
	if taken < most || taken > most+1 {
		t.Errorf("%d jobs of strangers are taken at once, want %d", taken, most)
	}
	id := job.NewID()
	if code := post(&wire.JobRequest{Id: id[:], Draw: &wire.Draw{Pages: 1}}); code != calls.CodeBusy {
		t.Errorf("a stranger draws: %v", code)
	}
}

// TestPostersLeaveRoom: neither who posts many jobs, nor many who post long ones, keep others from
// posting.
func TestPostersLeaveRoom(t *testing.T) {
	s := newJobs(t, nil)
	post := func(from peer.ID, seeds ...string) bool {
		spec := crawltest.Job(t, nil, seeds...)
		raw, err := proto.Marshal(&wire.JobRequest{Id: spec.ID[:], Post: spec.Wire()})
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Service().Behind(rpctest.Untrusted{})(t.Context(), from, raw)
		return err == nil
	}
	taken := 0
	for range 10 * partyAtOnce {
		if post("stranger", "http://a.example/") {
			taken++
		}
	}
	if taken != partyAtOnce {
		t.Errorf("one posted %d jobs, want %d", taken, partyAtOnce)
	}
	if !post("honest", "http://a.example/") {
		t.Error("another does not get in beside one who posts many")
	}
	var long []string
	for i := range 1000 {
		long = append(long, fmt.Sprintf("http://%d.example/%s", i, strings.Repeat("x", 1000)))
	}
	taken = 0
	for i := range 20 {
		if post(peer.ID(fmt.Sprint("long", i)), long...) {
			taken++
		}
	}
	if taken == 0 || taken > strangersBytes>>20 {
		t.Errorf("%d jobs of a megabyte were taken", taken)
	}
	if !post("another", "http://a.example/") {
		t.Error("another does not get in beside those who post long jobs")
	}
}

// TestJobsOfMembers: a member posts some jobs at once and then a few a minute, whatever keys it
// signs them with, and a key whatever members post its jobs; unfinished jobs of a key have a limit.
func TestJobsOfMembers(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		s := newJobs(t, nil)
		rejected := 0
		post := func(from peer.ID, key byte, seeds ...string) error {
			spec := crawltest.SignedJob(t, crawltest.Key(key), nil, seeds...)
			raw, err := proto.Marshal(&wire.JobRequest{Id: spec.ID[:], Post: spec.Wire()})
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.Service().Behind(counting{n: &rejected})(t.Context(), from, raw)
			return err
		}
		many := func(n int, from func(i int) (peer.ID, byte)) (taken int) {
			for i := range n {
				id, key := from(i)
				if err := post(id, key, "http://a.example/"); err == nil {
					taken++
				} else if calls.CodeOf(err) != calls.CodeBusy || !strings.Contains(err.Error(), "retry later") {
					t.Fatal(err)
				}
			}
			return taken
		}
		if n := many(100, func(i int) (peer.ID, byte) { return "one", byte(100 + i) }); n != postsAtOnce || rejected != 100-n {
			t.Errorf("%d jobs of a member with many keys are taken, %d rejections counted", n, rejected)
		}
		if n := many(100, func(i int) (peer.ID, byte) { return peer.ID(fmt.Sprint(i)), 1 }); n != postsAtOnce {
			t.Errorf("%d jobs of a key posted by many members are taken", n)
		}
		time.Sleep(time.Minute)
		if n := many(100, func(int) (peer.ID, byte) { return "one", 2 }); n != int(time.Minute/postEvery) {
			t.Errorf("%d jobs are taken a minute later", n)
		}
		if n := many(100, func(int) (peer.ID, byte) { return "asker", 3 }); n != 100 {
			t.Errorf("%d of 100 jobs of this peer are taken", n)
		}
		long := strings.Repeat("x", 2000)
		var seeds []string
		for i := range 1000 {
			seeds = append(seeds, fmt.Sprintf("http://%d.example/%s", i, long))
		}
		var last error
		taken := 0
		for i := range 40 {
			if last = post(peer.ID(fmt.Sprint("long", i)), 4, seeds...); last != nil {
				break
			}
			taken++
			time.Sleep(2 * time.Minute)
		}
		if calls.CodeOf(last) != calls.CodeRefused || !strings.Contains(last.Error(), "cancel jobs") || taken != posterBytes/(2021*1000) {
			t.Errorf("%d long jobs of a key are taken, then %v", taken, last)
		}
	})
}

// TestDrawsOfMembers: a member draws for hosts that it owns and the job admits, and holds a part of
// the budget at most. Once it has left the ring and is silent, others get what it has not used.
func TestDrawsOfMembers(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		s := newJobs(t, nil)
		left := make(map[peer.ID]bool)
		s.deps.Member = func(_ context.Context, id peer.ID) bool { return !left[id] }
		spec := crawltest.Job(t, func(m *wire.JobSpec) { m.MaxPages, m.Scope = 300, []string{"*.example"} }, "http://a.example/")
		s.deps.Spec = func(job.ID) (*job.Spec, job.Standing, bool) { return spec, job.Posted(), true }
		if _, _, err := s.State.Post(1, spec); err != nil {
			t.Fatal(err)
		}
		rejected := 0
		draw := func(from, owner peer.ID, d *wire.Draw) *wire.JobReply {
			t.Helper()
			raw, err := proto.Marshal(&wire.JobRequest{Id: spec.ID[:], Draw: d})
			if err != nil {
				t.Fatal(err)
			}
			gate := counting{n: &rejected}
			gate.Owner = owner
			raw, err = s.Service().Behind(gate)(t.Context(), from, raw)
			reply := new(wire.JobReply)
			if err != nil || proto.Unmarshal(raw, reply) != nil {
				t.Fatal(err)
			}
			return reply
		}
		for name, hosts := range map[string][]string{"no host": nil, "a host of another": {"a.example"}, "a host that the job does not admit": {"a.test"}} {
			owner := peer.ID("other")
			if name == "a host that the job does not admit" {
				owner = "liar"
			}
			before := rejected
			if r := draw("liar", owner, &wire.Draw{Pages: 9, Host: hosts}); r.GetPages() != 0 || r.GetExhausted() || rejected != before+1 {
				t.Errorf("%s: %v, rejected %d times", name, r, rejected-before)
			}
		}
		var r *wire.JobReply
		for range 9 {
			r = draw("liar", "liar", &wire.Draw{Pages: 18, DrawnPages: r.GetPages(), Host: []string{"x.example"}})
		}
		if r.GetPages() != 50 {
			t.Errorf("%d of 300 pages are drawn", r.GetPages())
		}
		if r = draw("liar", "liar", &wire.Draw{DrawnPages: 300}); r.GetPages() != 50 {
			t.Errorf("%d pages are drawn, as it claims", r.GetPages())
		}
		honest := &wire.Draw{Host: []string{"a.example"}}
		fetch := func() (all uint64) {
			for range 100 {
				honest.Pages = 18
				honest.DrawnPages = draw("honest", "honest", honest).GetPages()
				honest.UsedPages = honest.DrawnPages
			}
			return honest.UsedPages
		}
		if n := fetch(); n != 250 {
			t.Errorf("%d pages are fetched beside the liar", n)
		}
		if time.Sleep(3 * time.Minute); fetch() != 250 {
			t.Errorf("%d pages are fetched beside a silent member", honest.UsedPages)
		}
		left["liar"] = true
		if n := fetch(); n != 300 {
			t.Errorf("%d pages are fetched after it has left", n)
		}
	})
}

// counting is a gate of members that counts rejected requests.
type counting struct {
	rpctest.Members
	n *int
}

func (c counting) Rejected(peer.ID, string, error) { *c.n++ }

// TestStrangersTakeTurns: while one stranger is answered others wait, and members do not.
func TestStrangersTakeTurns(t *testing.T) {
	s := newJobs(t, nil)
	list, err := proto.Marshal(&wire.JobRequest{List: true})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(gate rpc.Authorizer, within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		_, err := s.Service().Behind(gate)(ctx, "asker", list)
		return err
	}
	done, err := s.desk.Turn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := ask(rpctest.Untrusted{}, 50*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second stranger: %v", err)
	}
	if err := ask(rpctest.Members{}, time.Minute); err != nil {
		t.Errorf("a member: %v", err)
	}
	done()
	if err := ask(rpctest.Untrusted{}, time.Minute); err != nil {
		t.Errorf("after the first was answered: %v", err)
	}
}
