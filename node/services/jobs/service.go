package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/time/rate"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/storage/kv"
)

// ServiceName is the service of a job's owner: its record, state and budget.
const ServiceName = "job"

// Jobs are stored permanently, with up to megabytes of seeds. Of untrusted peers, including workers
// at home, a number of bytes is accepted at once and then per minute, where a job counts as at
// least smallJob; one of them, or all of one network, may post partyAtOnce jobs and then one every
// partyEvery. So neither long jobs nor a peer with many block short ones of others.
const (
	strangersBytes  = 4 << 20
	strangersMinute = 1 << 20
	smallJob        = 64 << 10
	partyAtOnce     = 4
	partyEvery      = time.Minute
)

// Every caller, and every key that signs jobs, may post postsAtOnce jobs and then one every
// postEvery, with postBytes of specs and then postBytesMinute (10,000 seeds take 0.5 MiB). Of a key
// posterJobs unfinished jobs, with posterBytes of specs, are stored. Each owner of jobs counts its
// own.
const (
	postsAtOnce     = 32
	postEvery       = 3 * time.Second
	postBytes       = 64 << 20
	postBytesMinute = 1 << 20
	posterJobs      = 4096
	posterBytes     = 64 << 20
)

// jobMethod calls the owner of a job, or a member for all jobs that it stores.
var jobMethod = rpc.Method[*wire.JobRequest, *wire.JobReply]{Service: ServiceName, Within: 5 * time.Second}

// Service stores the jobs whose keys this peer owns. Requests run one after another on its loop;
// replies are sent when the acknowledged changes are on disk.
type Service struct {
	*loop.Serial // serializes access to State
	State        *job.Registry

	deps ServiceDeps
	// kick wakes the seeding after a post.
	kick chan struct{}
	// posts and sizes limit the number and the bytes of posts, by caller and by poster.
	posts, sizes *loop.Paces
	// strangers limits the posts of all untrusted peers together, and parties those of each; desk
	// serializes their requests.
	strangers *rate.Limiter
	parties   *loop.Paces
	desk      loop.Desk
}

// ServiceDeps are the dependencies of a Service.
type ServiceDeps struct {
	Self  peer.ID  // this peer, whose posts are not limited
	Store kv.Store // stores the records of jobs
	// Serves returns a moved error if another peer owns the job, and busy while its records may be
	// missing. Without them a budget would be drawn without its accounts, and a job in transit would
	// be reported as unknown.
	Serves func(id job.ID) error
	// Seeds sends a job's seeds, starting at from, to the owners of their hosts, and returns how many
	// are on disk there.
	Seeds func(ctx context.Context, spec *job.Spec, from int) (sent int, err error)
	Whose Whose // selects the accepted jobs
	// Spec returns the spec of a job, if it is known here.
	Spec func(id job.ID) (*job.Spec, job.Standing, bool)
	// Member reports whether a peer is a member. It may query the ring.
	Member func(ctx context.Context, id peer.ID) bool
	// Origin returns the network of a peer; empty if unknown. Nil: always unknown.
	Origin func(id peer.ID) string
	Log    *slog.Logger // reports undelivered seeds and rejected jobs
}

// NewService returns a Service, which replies once Run is called.
func NewService(d ServiceDeps) *Service {
	s := &Service{
		posts: loop.NewPaces(rate.Every(postEvery), postsAtOnce, loop.MaxPeers), sizes: loop.NewPaces(postBytesMinute/60, postBytes, loop.MaxPeers),
		Serial: loop.NewSerial(), State: job.NewRegistry(d.Store), deps: d, kick: make(chan struct{}, 1),
		strangers: rate.NewLimiter(strangersMinute/60, strangersBytes), parties: loop.NewPaces(rate.Every(partyEvery), partyAtOnce, loop.MaxPeers),
	}
	s.State.Self = string(d.Self)
	s.State.Takes = func(spec *job.Spec) bool {
		err := d.Whose.Takes(spec)
		if err != nil {
			d.Log.Warn("job record rejected", "err", err)
		}
		return err == nil
	}
	return s
}

// Imported wakes the seeding: the seeds of imported jobs may not have been sent.
func (s *Service) Imported() { loop.Wake(s.kick) }

// Service returns the service for other peers.
func (s *Service) Service() rpc.Service {
	return jobMethod.Handle(rpc.Anyone("this peer owns the job and accepts its poster; draws: caller is a member and owns a host of the job that it names; posts: rate limits by caller, its network and poster, limit of unfinished jobs; untrusted callers: one request at a time; signed jobs: signatures of job and changes; unsigned jobs: format"), s.answer)
}

// answer runs the request on the loop, and waits for the disk outside of it.
func (s *Service) answer(ctx context.Context, from peer.ID, req *wire.JobRequest) (*wire.JobReply, error) {
	member := rpc.OfMember(ctx)
	switch {
	case member:
	case req.GetDraw() != nil:
		return nil, rpc.Busy("job: only members may draw from a budget")
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
	if d := req.GetDraw(); d != nil && from != s.deps.Self && (d.GetPages() > 0 || d.GetBytes() > 0) && !s.mayDraw(ctx, id, d) {
		rpc.Rejected(ctx, "JobRequest", rpc.Refuse("draw: the caller owns none of the hosts %.200q of the job", d.GetHost()))
		d.Pages, d.Bytes = 0, 0 // its account is merged, and it may ask again
	}
	done, err := func() {}, error(nil)
	if !member {
		if done, err = s.desk.Turn(ctx); err != nil {
			return nil, err
		}
	}
	var reply *wire.JobReply
	var wait func() error
	derr := s.Do(ctx, func() { reply, wait, err = s.apply(from, member, id, req) })
	done() // the next request need not wait for the disk
	if derr != nil {
		return nil, derr
	}
	if d := req.GetDraw(); d != nil && err == nil && (d.GetPages() > 0 || d.GetBytes() > 0) && reply.GetPages() <= d.GetDrawnPages() && reply.GetBytes() <= d.GetDrawnBytes() && s.reclaim(ctx, id) {
		if derr := s.Do(ctx, func() { reply, wait, err = s.apply(from, member, id, req) }); derr != nil {
			return nil, derr
		}
	}
	if calls.CodeOf(err) == calls.CodeBusy {
		rpc.Rejected(ctx, "JobRequest", err)
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

// mayDraw reports whether the caller owns one of the hosts that a draw names, and the job's spec
// admits that host.
func (s *Service) mayDraw(ctx context.Context, id job.ID, d *wire.Draw) bool {
	var keys []ring.Key
	spec, _, known := s.deps.Spec(id)
	for _, host := range d.GetHost() {
		if !known || spec.MayDraw(host) {
			keys = append(keys, ring.HostKey(host))
		}
	}
	return slices.Contains(rpc.OfOwner(ctx, keys...), true)
}

// reclaimTime bounds the check of peers that hold a part of a budget; later draws continue it.
const reclaimTime = 2 * time.Second

// reclaim returns tokens to a budget that peers hold which are no members any more, and reports
// whether there were any.
func (s *Service) reclaim(ctx context.Context, id job.ID) (some bool) {
	ctx, cancel := context.WithTimeout(ctx, reclaimTime)
	defer cancel()
	peers, err := loop.Get(ctx, s.Serial, func() ([]string, error) { return s.State.Silent(time.Now().UnixMilli(), id) })
	for _, p := range peers {
		if s.deps.Member(ctx, peer.ID(p)) || ctx.Err() != nil {
			continue
		}
		if _, err = loop.Get(ctx, s.Serial, func() (struct{}, error) { return struct{}{}, s.State.Reclaim(id, p) }); err != nil {
			break
		}
		some = true
	}
	if err != nil {
		s.deps.Log.Debug("tokens of departed peers not reclaimed", "job", id.String(), "err", err)
	}
	return some
}

// mostListed bounds a reply that lists jobs, in bytes: a frame holds slightly more. Untrusted peers
// get less, unless one job is larger. The caller continues behind the last job.
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
		jobs, err := s.State.List(id, room)
		return &wire.JobReply{Jobs: jobs}, nil, err
	case req.GetPost() != nil:
		spec, serr := job.FromWire(req.GetPost())
		if serr != nil {
			return nil, nil, rpc.Refuse("%v", serr)
		}
		if spec.ID != id {
			return nil, nil, rpc.Refuse("job request: the spec is of another job")
		}
		if err := s.deps.Whose.Takes(spec); err != nil {
			return nil, nil, rpc.Refuse("%v", err)
		}
		known := job.Posted()
		if req.GetState() != 0 {
			known = standingOf(req)
		}
		if verr := known.Validate(); verr != nil {
			return nil, nil, rpc.Refuse("job request: %v", verr)
		}
		if from != s.deps.Self {
			if err := s.room(from, member, spec, known, proto.Size(req.GetPost())); err != nil {
				return nil, nil, err
			}
		}
		rec, wait, err = s.State.Restore(now, spec, known)
	case req.GetSetState() != 0:
		to := standingOf(req)
		to.State = job.State(req.GetSetState())
		rec, wait, err = s.State.SetState(now, id, to)
	case len(req.GetAsk()) > 0:
		reply, err = s.standings(req.GetAsk())
		return reply, nil, err
	case req.GetDraw() != nil:
		return s.State.Draw(now, id, []byte(from), req.GetDraw())
	default:
		rec, err = s.State.Get(id)
	}
	return &wire.JobReply{Jobs: []*wire.Job{rec}}, wait, err
}

// room returns an error if a limit of posts is exceeded. A job that is already stored, or would be
// rejected, is not counted. On the loop.
func (s *Service) room(from peer.ID, member bool, spec *job.Spec, known job.Standing, size int) error {
	if _, err := spec.Vouched(known); err != nil {
		return err
	}
	if _, err := s.State.Standing(spec.ID); !errors.Is(err, job.ErrUnknown) {
		return err
	}
	now, keys := time.Now(), []string{string(from)}
	if spec.Signed() {
		keys = append(keys, string(spec.Poster))
		jobs, bytes, err := s.State.Unfinished(spec.Poster)
		if err != nil {
			return err
		}
		if jobs >= posterJobs || bytes+size > posterBytes {
			return rpc.Refuse("job: its poster has %d unfinished jobs of %d bytes here, limits are %d and %d: cancel jobs that are no longer needed", jobs, bytes, posterJobs, posterBytes)
		}
	}
	for _, key := range keys {
		if s.posts.Of(key).TokensAt(now) < 1 || s.sizes.Of(key).TokensAt(now) < float64(size) {
			return rpc.Busy(fmt.Sprintf("job: rate limit of posts for a caller or key (%d, then one every %v; bytes: %d, then %d a minute); retry later", postsAtOnce, postEvery, postBytes, postBytesMinute))
		}
	}
	if !member {
		party := string(from)
		if s.deps.Origin != nil {
			party = cmp.Or(s.deps.Origin(from), party)
		}
		own := s.parties.Of(party)
		if own.TokensAt(now) < 1 {
			return rpc.Busy("job: rate limit of posts for the caller or its network; retry in a minute")
		}
		if !s.strangers.AllowN(now, max(size, smallJob)) {
			return rpc.Busy("job: rate limit of posts for untrusted peers; retry in some minutes")
		}
		own.AllowN(now, 1)
	}
	for _, key := range slices.Compact(keys) {
		s.posts.Allow(now, key, 1)
		s.sizes.Allow(now, key, size)
	}
	return nil
}

// standings returns the states of those jobs that this peer owns. On the loop.
func (s *Service) standings(ids [][]byte) (*wire.JobReply, error) {
	reply := &wire.JobReply{}
	for _, raw := range ids {
		id := job.ID(raw)
		if s.deps.Serves(id) != nil {
			continue
		}
		now, err := s.State.Standing(id)
		if err != nil && !errors.Is(err, job.ErrUnknown) {
			return nil, err
		}
		reply.Standings = append(reply.Standings, &wire.JobStanding{Id: raw, State: uint32(now.State), Version: now.Version, Refresh: uint64(now.Refresh), StateSignature: []byte(now.Signature)})
	}
	return reply, nil
}

// Intervals of seeding: at once after a post, then periodically. Undelivered seeds are sent again
// after seedAgain, which doubles each time: a ring that has just formed accepts them within a
// second.
const (
	seedEvery = 2 * time.Second
	seedAgain = 50 * time.Millisecond
)

// RunSeeds sends the seeds of the jobs stored here until ctx ends.
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
			s.deps.Log.Warn("seeds not delivered", "err", err)
		}
		timer.Reset(wait)
		wait = min(2*wait, seedEvery)
	}
}

// sow sends the remaining seeds of the jobs stored here, also of a job whose key another peer owns
// by now: its seeds count as outstanding here until they are on disk at the owners of their hosts,
// or the job has moved. Failures delay no other job.
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
	rec, err := loop.Get(ctx, s.Serial, func() (*wire.Job, error) { return s.State.Get(id) })
	if errors.Is(err, job.ErrUnknown) {
		return nil // moved meanwhile
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
	wait, err := loop.Get(ctx, s.Serial, func() (func() error, error) {
		return s.State.SeedsSent(time.Now().UnixMilli(), id, n)
	})
	if errors.Is(err, job.ErrUnknown) {
		return nil // moved meanwhile: the seeds are sent again from there, without harm
	}
	if err != nil {
		return err
	}
	return wait()
}

// Unsent returns the number of seeds by job stored here that no owner has acknowledged: outstanding
// work that no host record contains.
func (s *Service) Unsent(ctx context.Context) (left map[job.ID]int64, err error) {
	return loop.Get(ctx, s.Serial, s.State.Unsent)
}
