package hosts

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/errgroup"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/services/rpc"
)

// The first byte of a request identifies its type.
const (
	tagLinks   = 'L' // to the owners of hosts
	tagSession = 'S'
	tagVouch   = 'V'
	tagAgain   = 'A'
	tagShares  = 'H'
	tagOffer   = 'O' // to workers
)

// Methods between owners of hosts, senders of links and workers. Indexes in a reply must be within
// the list that was sent.
var (
	linksMethod = rpc.Method[*wire.Links, *wire.LinksReply]{
		Service: rpc.ServiceOwner, Tag: tagLinks,
		Check: func(q *wire.Links, a *wire.LinksReply) error {
			return placesIn(len(q.GetUrl()), "links reply", a.GetBusy(), a.GetMoved())
		},
	}
	// SessionMethod carries a worker's message to an owner.
	SessionMethod = rpc.Method[*wire.Session, *wire.SessionReply]{Service: rpc.ServiceOwner, Tag: tagSession}
	// VouchMethod asks the owner of a host whether a peer is or was its worker.
	VouchMethod = rpc.Method[*wire.Vouch, *wire.VouchReply]{Service: rpc.ServiceOwner, Tag: tagVouch}
	// againMethod asks the owner of a host to fetch pages again.
	againMethod = rpc.Method[*wire.Again, *wire.AgainReply]{Service: rpc.ServiceOwner, Tag: tagAgain}
	// sharesMethod asks a neighbor for its part of the visits of jobs.
	sharesMethod = rpc.Method[*wire.Shares, *wire.Shares]{Service: rpc.ServiceOwner, Tag: tagShares, Within: 5 * time.Second}
	// OfferMethod offers hosts to a worker.
	OfferMethod = rpc.Method[*wire.Offer, *wire.OfferReply]{
		Service: rpc.ServiceWorker, Tag: tagOffer, Within: offerTimeout,
		Check: func(q *wire.Offer, a *wire.OfferReply) error {
			return placesIn(len(q.GetHosts()), "offer reply", a.GetDeclined())
		},
	}
)

// posterLinks are the links per second accepted from a job poster that is not a member, such as a
// worker at home, posterBurst their burst, and postersTimes the factor for all of them together.
const posterLinks, posterBurst, postersTimes = 1000, 2 * wire.MaxLinks, 2

// memberLinks are the links of a job per second accepted from a member, memberBurst their burst;
// hostLinks and hostBurst are those for one host. Pages of cnr-2000 have ten links, of which a
// third leave a block of 1,000 adjacent pages; so 2,000 are the links of 600 pages a second to the
// hosts of one other peer. The most linked block gets 41 % of them: hostLinks is half.
const (
	memberLinks, memberBurst = 2000, 64 << 10
	hostLinks, hostBurst     = 1000, 32 << 10
)

// placesIn returns an error for an index outside a list of n.
func placesIn(n int, what string, lists ...[]uint32) error {
	for _, list := range lists {
		for _, i := range list {
			if uint64(i) >= uint64(n) { // a length
				return fmt.Errorf("%s: index %d of %d", what, i, n)
			}
		}
	}
	return nil
}

// Service returns the service for workers and senders of links.
func (w *Owners) Service() rpc.Service {
	return rpc.Together(
		linksMethod.Handle(rpc.Anyone("caller is a member or posted the job; rate limits by caller, job and host; job is known and admits the URL; this peer owns its host"),
			func(ctx context.Context, from peer.ID, m *wire.Links) (*wire.LinksReply, error) {
				posted := w.posted(from, m)
				switch {
				case posted && w.mayPost(from, len(m.GetUrl())):
					return w.Links(ctx, m)
				case rpc.OfMember(ctx):
					return w.linksOfMember(ctx, from, m)
				case posted && w.waits(ctx, from, len(m.GetUrl())):
					return w.Links(ctx, m)
				case posted:
					return nil, rpc.Busy("links: rate limit for job posters that are not members")
				default:
					return nil, rpc.Busy("links: the caller is neither a member nor the poster of the job")
				}
			}),
		SessionMethod.Handle(rpc.Anyone("job is known; outcomes: caller has the host, or a certificate of its lease by an owner; requests: host was offered to the caller, or it is a neighbor; host state: caller holds the lease"), w.Session),
		againMethod.Handle(rpc.Anyone("this peer owns the host; the posters of the jobs have signed the request, in the last ten minutes; an IndexNow notice: the caller is a member"), w.again),
		sharesMethod.Handle(rpc.Members("nothing"), func(ctx context.Context, _ peer.ID, _ *wire.Shares) (m *wire.Shares, err error) {
			err = w.Look(ctx, func(o *owner.Owner) { m = o.Shares() })
			return m, err
		}),
		VouchMethod.Handle(rpc.Members("this peer owns the host"), w.vouch),
	)
}

// mayPost counts the links of a job poster, and reports whether they are within the rate limit.
func (w *Owners) mayPost(from peer.ID, n int) bool {
	own, now := w.ofPoster.Of(string(from)), time.Now()
	return own.TokensAt(now) >= float64(n) && w.posters.AllowN(now, n) && own.AllowN(now, n)
}

// linksOfMember processes the links of a member that are within its rate limits, and returns the
// others as busy.
func (w *Owners) linksOfMember(ctx context.Context, from peer.ID, m *wire.Links) (*wire.LinksReply, error) {
	now := time.Now()
	var within, over []uint32
	for i, url := range m.GetUrl() {
		n := uint32(0)
		if len(m.GetJob()) > 0 {
			n = m.GetJob()[i]
		}
		key := string(from) + string(m.GetJobIds()[n])
		all := w.ofMember.Of(key)
		if all.TokensAt(now) >= 1 && w.ofHost.Allow(now, key+link.Host(string(url)), 1) && all.AllowN(now, 1) {
			within = append(within, uint32(i)) // an index of a bounded list
		} else {
			over = append(over, uint32(i)) // as above
		}
	}
	if len(over) == 0 {
		return w.Links(ctx, m)
	}
	rpc.Rejected(ctx, "Links", rpc.Busy(fmt.Sprintf("links: %d of %d are above the rate limit of the caller for the job or host; they are retried", len(over), len(m.GetUrl()))))
	reply := &wire.LinksReply{}
	if len(within) > 0 {
		var err error
		if reply, err = w.Links(ctx, &wire.Links{
			Rules: m.GetRules(), JobIds: m.GetJobIds(), Url: pick(m.GetUrl(), within), Job: pick(m.GetJob(), within), Depth: pick(m.GetDepth(), within),
			Hops: pick(m.GetHops(), within), Kind: pick(m.GetKind(), within), Sources: m.GetSources(), Source: pick(m.GetSource(), within),
		}); err != nil {
			return nil, err
		}
	}
	return &wire.LinksReply{Moved: pick(within, reply.GetMoved()), Busy: append(pick(within, reply.GetBusy()), over...)}, nil
}

// pick returns the values of a column at some indexes; nil if the column is omitted.
func pick[T any](column []T, at []uint32) (values []T) {
	if len(column) == 0 {
		return nil
	}
	for _, i := range at {
		values = append(values, column[i])
	}
	return values
}

// waits is mayPost, but waits for the poster's own rate limit: rejecting parts of a list would
// cause all of it to be sent again.
func (w *Owners) waits(ctx context.Context, from peer.ID, n int) bool {
	return w.ofPoster.Of(string(from)).WaitN(ctx, n) == nil && w.posters.AllowN(time.Now(), n)
}

// posted reports whether all links are of jobs that their sender posted, which may be a worker at
// home that sends seeds. An unknown job is requested, and the seeds are sent again.
func (w *Owners) posted(from peer.ID, m *wire.Links) bool {
	for _, raw := range m.GetJobIds() {
		spec, _, known := w.deps.Jobs.Job(job.ID(raw))
		if !known {
			w.deps.Jobs.Want(job.ID(raw))
		}
		if !known || !spec.By(string(from)) {
			return false
		}
	}
	return len(m.GetJobIds()) > 0
}

// Again asks the owner of a host to fetch pages again, and returns the number of jobs that do.
func (w *Owners) Again(ctx context.Context, m *wire.Again) (jobs int, err error) {
	reply, err := againMethod.CallOwner(ctx, w.deps.Router, ring.HostKey(m.GetHost()), m)
	return int(reply.GetJobs()), err
}

// againWithin is how old a request to fetch pages again may be.
const againWithin = 10 * time.Minute

func (w *Owners) again(ctx context.Context, _ peer.ID, m *wire.Again) (*wire.AgainReply, error) {
	if err := w.Serves(m.GetHost()); err != nil {
		return nil, err
	}
	if age := w.deps.Now().Sub(time.Unix(int64(m.GetAtS()), 0)); age.Abs() > againWithin {
		return nil, rpc.Refuse("the request was signed %v ago: check the clocks of this peer and of the host's owner", age.Round(time.Second))
	}
	if m.GetIndexNow() && !rpc.OfMember(ctx) {
		return nil, rpc.Busy("the caller is not known to be a member, which has checked the site's key")
	}
	jobs := 0
	err := w.Do(ctx, func(o *owner.Owner) { jobs = o.Refresh(m) })
	return &wire.AgainReply{Jobs: uint32(jobs)}, err //nolint:gosec // few
}

// RunShares exchanges the thresholds and shares of jobs that are fetched again with the neighbors,
// once an hour of the schedule, until ctx ends.
func (w *Owners) RunShares(ctx context.Context) error {
	var jobs [][]byte
	var next time.Time
	for {
		var mine *wire.Shares
		if err := w.Look(ctx, func(o *owner.Owner) { mine = o.Shares() }); err != nil {
			return err
		}
		same := slices.EqualFunc(jobs, mine.GetJobIds(), bytes.Equal)
		if jobs = mine.GetJobIds(); len(jobs) > 0 && (!same || !time.Now().Before(next)) {
			next = time.Now().Add(w.hour)
			ids, size := w.deps.Neighbors()
			heard := make([]*wire.Shares, len(ids))
			var asked errgroup.Group
			asked.SetLimit(sharesAtOnce)
			for i, id := range ids {
				asked.Go(func() error {
					heard[i], _ = sharesMethod.Call(ctx, w.deps.Net, id, mine)
					return nil
				})
			}
			_ = asked.Wait()
			heard = slices.DeleteFunc(heard, func(m *wire.Shares) bool { return m == nil })
			if err := w.Do(ctx, func(o *owner.Owner) { o.Share(size, heard) }); err != nil {
				return err
			}
		}
		if err := loop.Sleep(ctx, min(sharesPause, w.hour)); err != nil {
			return nil //nolint:nilerr // the end
		}
	}
}

// sharesPause is the interval of looking for new jobs that are fetched again, sharesAtOnce the
// number of neighbors asked at the same time.
const sharesPause, sharesAtOnce = 10 * time.Second, 4

// Links processes a batch of links; it returns when they are on disk.
func (w *Owners) Links(ctx context.Context, m *wire.Links) (*wire.LinksReply, error) {
	var d *owner.Delivery
	if err := w.DoOver(ctx, func(o *owner.Owner) bool {
		if d == nil {
			d = o.Delivery(m)
		}
		if !d.Go() {
			return false
		}
		w.taken.links(m, d.Reply())
		return true
	}); err != nil {
		return nil, err
	}
	return d.Reply(), nil
}

// Session processes a worker's message; it returns when its writes are on disk. A message without a
// number that only lists leases renews them, and does not wait for others.
func (w *Owners) Session(ctx context.Context, from peer.ID, m *wire.Session) (*wire.SessionReply, error) {
	if m.GetSeq() == 0 && len(m.GetHosts()) == 0 && len(m.GetHeld()) > 0 {
		var reply *wire.SessionReply
		err := w.Look(ctx, func(o *owner.Owner) { reply = o.Renew(w.now(), string(from), m) })
		if err != nil {
			return nil, err
		}
		return reply, nil
	}
	var v *owner.Visit
	if err := w.DoOver(ctx, func(o *owner.Owner) bool {
		if v == nil {
			v = o.Visit(string(from), m)
			w.deps.SetLoad(string(from), m.GetBacklog(), m.GetCapacity())
		}
		if !v.Go() {
			return false
		}
		w.taken.reports(v)
		return true
	}); err != nil {
		return nil, err
	}
	if v.Unasked > 0 {
		w.deps.Unasked(from, v.Unasked)
	}
	return v.Reply(), nil
}

// vouch reports whether a peer is or was the worker of a host.
func (w *Owners) vouch(ctx context.Context, _ peer.ID, m *wire.Vouch) (*wire.VouchReply, error) {
	if err := w.Serves(m.GetHost()); err != nil {
		return nil, err
	}
	reply := &wire.VouchReply{}
	if err := w.Look(ctx, func(o *owner.Owner) { reply.Worked = o.Worked(string(m.GetWorker()), m.GetHost()) }); err != nil {
		return nil, err
	}
	return reply, nil
}
