package hosts

import (
	"context"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/node/rpc"
)

// The first byte of a request tells what it is.
const (
	tagLinks   = 'L' // to the owners of hosts
	tagSession = 'S'
	tagVouch   = 'V'
	tagOffer   = 'O' // to workers
)

// What hosts' owners, senders of links and workers ask of each other. Of an answer that names
// places in a list, each is one of the list that was sent.
var (
	linksMethod = rpc.Method[*wire.Links, *wire.LinksReply]{
		Service: rpc.ServiceOwner, Tag: tagLinks,
		Check: func(q *wire.Links, a *wire.LinksReply) error {
			return placesIn(len(q.GetUrl()), "links reply", a.GetBusy(), a.GetMoved())
		},
	}
	// SessionMethod carries what a worker says to an owner.
	SessionMethod = rpc.Method[*wire.Session, *wire.SessionReply]{Service: rpc.ServiceOwner, Tag: tagSession}
	// VouchMethod asks the owner of a host for a word on a worker.
	VouchMethod = rpc.Method[*wire.Vouch, *wire.VouchReply]{Service: rpc.ServiceOwner, Tag: tagVouch}
	// OfferMethod asks a worker to take hosts.
	OfferMethod = rpc.Method[*wire.Offer, *wire.OfferReply]{
		Service: rpc.ServiceWorker, Tag: tagOffer, Within: offerTimeout,
		Check: func(q *wire.Offer, a *wire.OfferReply) error {
			return placesIn(len(q.GetHosts()), "offer reply", a.GetDeclined())
		},
	}
)

// posterLinks are the links a second that an owner takes of one who posts jobs and is no member,
// such as a worker at home, posterBurst how many at once; of all of them together it takes
// postersTimes as many.
const posterLinks, posterBurst, postersTimes = 1000, 2 * wire.MaxLinks, 2

// placesIn says what is wrong with places in a list of n.
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

// Service answers workers and senders of links.
func (w *Owners) Service() rpc.Service {
	return rpc.Together(
		linksMethod.Handle(rpc.Anyone("that the caller is a member, or posted the job, so many a second; that the job is known and admits the URL, and this peer serves its host"),
			func(ctx context.Context, from peer.ID, m *wire.Links) (*wire.LinksReply, error) {
				posted := w.posted(from, m)
				switch {
				case posted && w.mayPost(from, len(m.GetUrl())), rpc.OfMember(ctx), posted && w.waits(ctx, from, len(m.GetUrl())):
					return w.Links(ctx, m)
				case posted:
					return nil, rpc.Busy("a peer takes so many links a second of those who post jobs and are no members")
				default:
					return nil, rpc.Busy("links are taken of members, and of who posted the job")
				}
			}),
		SessionMethod.Handle(rpc.Anyone("that the job is known; who reports has the host or had it, or stands near; who asks for a host was offered it, or stands near; what is said of the host itself is said under its lease"), w.Session),
		VouchMethod.Handle(rpc.Members("that this peer serves the host"), w.vouch),
	)
}

// mayPost counts links of one who posted a job, unless they are too many for now.
func (w *Owners) mayPost(from peer.ID, n int) bool {
	own, now := w.ofPoster.Of(string(from)), time.Now()
	return own.TokensAt(now) >= float64(n) && w.posters.AllowN(now, n) && own.AllowN(now, n)
}

// waits is mayPost for a caller that waits for its turn, as long as it likes: parts of a list that
// are refused would have all of it come again.
func (w *Owners) waits(ctx context.Context, from peer.ID, n int) bool {
	return w.ofPoster.Of(string(from)).WaitN(ctx, n) == nil && w.posters.AllowN(time.Now(), n)
}

// posted says whether all links are of jobs that their sender posted: it may be a worker at home,
// which hands in seeds. A job that is not known is asked for, and the seeds come again.
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

// Links takes a batch of links; it returns when they are on disk.
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

// Session takes what a worker says; it returns when that is on disk. A message without a number
// that lists leases alone renews them, and does not wait for others.
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
			w.deps.Heard(string(from), m.GetBacklog(), m.GetCapacity())
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

// vouch says whether a peer works on a host, or did.
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
