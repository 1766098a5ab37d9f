package hosts

import (
	"context"
	"errors"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/node/loop"
)

// effects starts the effects of a step. It is called in order, once the step is on disk, and does
// not block.
func (w *Owners) effects(r owner.Ready) {
	for _, p := range r.Places {
		w.Spawn(func(ctx context.Context) {
			c := w.deps.Place(ctx, p)
			w.Post(func(o *owner.Owner) { o.Placed(p.Host, c) })
		})
	}
	for _, offer := range r.Offers {
		w.Spawn(func(ctx context.Context) { w.offer(ctx, offer) })
	}
	for _, id := range r.NeedJobs {
		w.deps.Jobs.Want(id)
	}
	for _, d := range r.Draws {
		w.Spawn(func(ctx context.Context) {
			reply, err := w.deps.Jobs.Draw(ctx, d.Job, d.Draw)
			if err != nil {
				w.deps.Log.Debug("budget not drawn", "job", d.Job.String(), "err", err)
			}
			w.Post(func(o *owner.Owner) { o.Drawn(d, reply) })
		})
	}
	if len(r.Admissions) > 0 {
		w.deps.Admit(r.Admissions)
	}
	if r.Outbox {
		loop.Wake(w.outbox.wake)
	}
}

// offerTimeout bounds an offer; the owner's own timeout is about equal.
const offerTimeout = 2 * time.Second

// offer offers hosts to a worker, and reports the declined ones to the owner.
func (w *Owners) offer(ctx context.Context, offer owner.Offer) {
	to := peer.ID(offer.Worker)
	var declined []int
	if to == w.deps.Self {
		declined = w.deps.OfferOwn(offer.Hosts)
	} else {
		var err error
		if declined, err = w.offerTo(ctx, to, offer.Hosts); err != nil {
			if refusal, ok := errors.AsType[*calls.Error](err); ok {
				w.deps.Declined(offer.Worker, refusal.Message)
			}
			w.deps.Log.Debug("offer failed", "peer", to, "hosts", len(offer.Hosts), "err", err)
			declined = make([]int, len(offer.Hosts))
			for i := range declined {
				declined[i] = i
			}
		}
	}
	if len(declined) == 0 {
		return
	}
	hosts := make([]string, len(declined))
	for k, i := range declined {
		hosts[k] = offer.Hosts[i]
	}
	w.Post(func(o *owner.Owner) { o.Declined(offer.Worker, hosts) })
}

func (w *Owners) offerTo(ctx context.Context, to peer.ID, hosts []string) ([]int, error) {
	reply, err := OfferMethod.Call(w.deps.ToWorker(ctx, to), w.deps.Router, to, &wire.Offer{Hosts: hosts})
	if err != nil {
		return nil, err
	}
	var declined []int
	for _, i := range reply.GetDeclined() {
		declined = append(declined, int(i))
	}
	return declined, nil
}
