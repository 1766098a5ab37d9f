package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/time/rate"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/rpc"
	"github.com/apoidea/apoidea/storage/kv"
)

// ServiceName names the service of a job's owner: its record, state and budget.
const ServiceName = "job"

// Jobs are kept for good, with megabytes of seeds at worst. Of strangers, as workers at home are
// too, so many bytes are taken at once and then in a minute, a job counting as smallJob at least; a
// stranger, or those of one network together, may post partyAtOnce of them and then one every
// partyEvery. So neither long jobs nor one who posts many keep the short ones of others out.
const (
	strangersBytes  = 4 << 20
	strangersMinute = 1 << 20
	smallJob        = 64 << 10
	partyAtOnce     = 4
	partyEvery      = time.Minute
)

// jobMethod asks the owner of a job, or a member for all jobs that it keeps.
var jobMethod = rpc.Method[*wire.JobRequest, *wire.JobReply]{Service: ServiceName, Within: 5 * time.Second}

// Service keeps the jobs whose keys this peer owns. Requests run one after another on its loop;
// answers leave when the disk has what they acknowledge.
type Service struct {
	deps     ServiceDeps
	registry *job.Registry
	loop     *loop.Serial
	// kick wakes the seeding after a post.
	kick chan struct{}
	// strangers bounds what those post who are no members, all together, and parties each of them;
	// desk has what they ask answered one after another.
	strangers *rate.Limiter
	parties   *loop.Paces
	desk      loop.Desk
}

// ServiceDeps are what the service uses of the peer.
type ServiceDeps struct {
	Store kv.Store // where records of jobs are kept
	// Serves returns a moved error if another peer owns the job, and busy while its records may not
	// have arrived. Without them a budget would be drawn without its accounts, and a job that is on
	// its way be called unknown.
	Serves func(id job.ID) error
	// Seeds hands a job's seeds from the given one on to the owners of their hosts, and returns how
	// many of them are on disk there.
	Seeds func(ctx context.Context, spec *job.Spec, from int) (sent int, err error)
	Whose Whose // says whose jobs are kept
	// Origin names the network that a peer comes from; empty where that tells nothing. Nil: nowhere.
	Origin func(id peer.ID) string
	Log    *slog.Logger // hears of seeds that wait, and of jobs that are not kept
}

// NewService returns what answers once Run is called.
func NewService(d ServiceDeps) *Service {
	s := &Service{
		deps: d, registry: job.NewRegistry(d.Store), loop: loop.NewSerial(), kick: make(chan struct{}, 1),
		strangers: rate.NewLimiter(strangersMinute/60, strangersBytes), parties: loop.NewPaces(rate.Every(partyEvery), partyAtOnce),
	}
	s.registry.Takes = func(spec *job.Spec) bool {
		err := d.Whose.Takes(spec)
		if err != nil {
			d.Log.Warn("the record of a job is not kept", "err", err)
		}
		return err == nil
	}
	return s
}

// Run answers until ctx ends.
func (s *Service) Run(ctx context.Context) error { return s.loop.Run(ctx) }

// DoOver runs fn between requests until it says that it is through.
func (s *Service) DoOver(ctx context.Context, fn func() (through bool)) error {
	return s.loop.DoOver(ctx, fn)
}

// Remove drops the records of an arc. Within DoOver.
func (s *Service) Remove(lo, hi ring.Pos) error {
	_, err := s.registry.Remove(lo, hi)
	return err
}

// Import merges records of another peer. Within DoOver; they need not be on disk when it returns.
func (s *Service) Import(records []kv.Record) error {
	_, err := s.registry.Import(records)
	loop.Wake(s.kick) // its seeds may not have been sent
	return err
}

// Service answers peers.
func (s *Service) Service() rpc.Service {
	return jobMethod.Handle(rpc.Anyone("that this peer serves the job, and takes those of its poster; that who draws of a budget is a member; strangers get one answer after another, and post so many a minute; of a signed job its signature and that of each change, of others their form"), s.answer)
}

// answer does what is asked on the loop and waits for the disk outside of it.
func (s *Service) answer(ctx context.Context, from peer.ID, req *wire.JobRequest) (*wire.JobReply, error) {
	member := rpc.OfMember(ctx)
	switch {
	case member:
	case req.GetDraw() != nil:
		return nil, rpc.Busy("job: only members draw of a budget, as they own the hosts that use it")
	}
	id, ok := job.IDFrom(req.GetId())
	if !req.GetList() {
		if !ok {
			return nil, rpc.Refuse("job request: ID of %d bytes", len(req.GetId()))
		}
		if err := s.deps.Serves(id); err != nil {
			return nil, err
		}
	}
	done, err := func() {}, error(nil)
	if !member {
		if done, err = s.desk.Turn(ctx); err != nil {
			return nil, err
		}
	}
	var reply *wire.JobReply
	var wait func() error
	derr := s.loop.Do(ctx, func() { reply, wait, err = s.apply(from, member, id, req) })
	done() // the next need not wait for the disk
	if derr != nil {
		return nil, derr
	}
	if err == nil && wait != nil {
		err = wait()
	}
	switch {
	case errors.Is(err, job.ErrUnknown):
		return &wire.JobReply{Error: err.Error()}, nil
	case errors.Is(err, job.ErrConflict), errors.Is(err, job.ErrFinal), errors.Is(err, job.ErrSignature):
		return nil, rpc.Refuse("%v", err)
	case err != nil:
		return nil, err
	}
	if req.GetPost() != nil {
		loop.Wake(s.kick)
	}
	return reply, nil
}

// mostListed bounds an answer that lists jobs, in bytes: a frame holds a little more. To strangers
// less is told, unless one job is larger. Who asks goes on behind the last of them.
const (
	mostListed      = 3 << 20
	strangersListed = 256 << 10
)

// apply runs on the loop.
func (s *Service) apply(from peer.ID, member bool, id job.ID, req *wire.JobRequest) (reply *wire.JobReply, wait func() error, err error) {
	now := time.Now().UnixMilli()
	var rec *wire.Job
	switch {
	case req.GetList():
		room := mostListed
		if !member {
			room = strangersListed
		}
		jobs, err := s.registry.List(id, room)
		return &wire.JobReply{Jobs: jobs}, nil, err
	case req.GetPost() != nil:
		spec, serr := job.FromWire(req.GetPost())
		if serr != nil {
			return nil, nil, rpc.Refuse("%v", serr)
		}
		if spec.ID != id {
			return nil, nil, rpc.Refuse("job request: the spec names another job")
		}
		if err := s.deps.Whose.Takes(spec); err != nil {
			return nil, nil, rpc.Refuse("%v", err)
		}
		known := job.Posted()
		if req.GetState() != 0 {
			known = job.Standing{State: job.State(req.GetState()), Version: req.GetVersion(), Signature: string(req.GetStateSignature())}
		}
		if verr := known.Validate(); verr != nil {
			return nil, nil, rpc.Refuse("job request: %v", verr)
		}
		if !member {
			if err := s.room(from, spec, known, proto.Size(req.GetPost())); err != nil {
				return nil, nil, err
			}
		}
		rec, wait, err = s.registry.Restore(now, spec, known)
	case req.GetSetState() != 0:
		to := job.Standing{State: job.State(req.GetSetState()), Version: req.GetVersion(), Signature: string(req.GetStateSignature())}
		rec, wait, err = s.registry.SetState(now, id, to)
	case len(req.GetAsk()) > 0:
		reply, err = s.standings(req.GetAsk())
		return reply, nil, err
	case req.GetDraw() != nil:
		return s.registry.Draw(now, id, []byte(from), req.GetDraw())
	default:
		rec, err = s.registry.Get(id)
	}
	return &wire.JobReply{Jobs: []*wire.Job{rec}}, wait, err
}

// room says whether there is room for the job of a stranger. One that is kept already, or would not
// be taken, keeps no other out. On the loop.
func (s *Service) room(from peer.ID, spec *job.Spec, known job.Standing, size int) error {
	if _, err := spec.Vouched(known); err != nil {
		return err
	}
	if _, err := s.registry.Standing(spec.ID); !errors.Is(err, job.ErrUnknown) {
		return err
	}
	party := string(from)
	if s.deps.Origin != nil {
		party = cmp.Or(s.deps.Origin(from), party)
	}
	own, now := s.parties.Of(party), time.Now()
	if own.TokensAt(now) < 1 {
		return rpc.Busy("job: the caller, or its network, has posted several jobs of late; another is taken in a minute")
	}
	if !s.strangers.AllowN(now, max(size, smallJob)) {
		return rpc.Busy("job: strangers have posted many jobs of late; another is taken within minutes")
	}
	own.AllowN(now, 1)
	return nil
}

// standings answers for those of the jobs that this peer serves. On the loop.
func (s *Service) standings(ids [][]byte) (*wire.JobReply, error) {
	reply := &wire.JobReply{}
	for _, raw := range ids {
		id := job.ID(raw)
		if s.deps.Serves(id) != nil {
			continue
		}
		now, err := s.registry.Standing(id)
		if err != nil && !errors.Is(err, job.ErrUnknown) {
			return nil, err
		}
		reply.Standings = append(reply.Standings, &wire.JobStanding{Id: raw, State: uint32(now.State), Version: now.Version, StateSignature: []byte(now.Signature)})
	}
	return reply, nil
}

// The pace of seeding: at once after a post, then now and then. Seeds that could not be delivered
// are sent again after seedAgain, and each time twice as long: a ring that has just formed takes
// them within a second.
const (
	seedEvery = 2 * time.Second
	seedAgain = 50 * time.Millisecond
)

// RunSeeds sends the seeds of the jobs kept here until ctx ends.
func (s *Service) RunSeeds(ctx context.Context) error {
	timer := time.NewTimer(seedEvery)
	defer timer.Stop()
	wait := seedAgain
	for {
		select {
		case <-s.kick:
			wait = seedAgain
		case <-timer.C:
		case <-ctx.Done():
			return nil
		}
		err := loop.UnlessStopping(s.sow(ctx))
		if err == nil || ctx.Err() != nil {
			wait = seedAgain
			timer.Reset(seedEvery)
			continue
		}
		if wait >= seedEvery {
			s.deps.Log.Warn("seeds of a job are not delivered yet", "err", err)
		}
		timer.Reset(wait)
		wait = min(2*wait, seedEvery)
	}
}

// sow delivers what is left of the seeds of the jobs kept here, also of a job whose key another
// peer serves by now: its seeds count as outstanding here until they are on disk at the owners of
// their hosts, or the job has moved. Those that cannot be delivered hold up no other job.
func (s *Service) sow(ctx context.Context) error {
	left, err := s.Unsent(ctx)
	if err != nil {
		return err
	}
	var late []error
	for id := range left {
		if err := s.sowOne(ctx, id); err != nil {
			late = append(late, fmt.Errorf("job %s: %w", id, err))
		}
	}
	return errors.Join(late...)
}

func (s *Service) sowOne(ctx context.Context, id job.ID) error {
	rec, err := loop.Get(ctx, s.loop, func() (*wire.Job, error) { return s.registry.Get(id) })
	if errors.Is(err, job.ErrUnknown) {
		return nil // it has moved meanwhile
	}
	if err != nil {
		return err
	}
	spec, err := job.FromDisk(rec.GetSpec())
	if err != nil {
		return err
	}
	from := int(min(rec.GetSeedsSent(), uint64(len(spec.Seeds)))) // bounded by a length
	sent, err := s.deps.Seeds(ctx, spec, from)
	if sent > 0 {
		err = errors.Join(err, s.noteSent(ctx, id, uint64(from+sent))) // positive
	}
	return err
}

func (s *Service) noteSent(ctx context.Context, id job.ID, n uint64) error {
	wait, err := loop.Get(ctx, s.loop, func() (func() error, error) {
		return s.registry.SeedsSent(time.Now().UnixMilli(), id, n)
	})
	if errors.Is(err, job.ErrUnknown) {
		return nil // it has moved meanwhile: the seeds are sent again from there, which does no harm
	}
	if err != nil {
		return err
	}
	return wait()
}

// Unsent counts, per job kept here, the seeds that no owner has acknowledged: work that is
// outstanding although no host record shows it.
func (s *Service) Unsent(ctx context.Context) (left map[job.ID]int64, err error) {
	return loop.Get(ctx, s.loop, s.registry.Unsent)
}
