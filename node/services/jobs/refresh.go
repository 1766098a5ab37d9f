package jobs

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/node/services/rpc"
)

// refreshEvery is the interval of state requests to the owners of jobs, and so the delay of pause
// and cancel. The interval of a done or canceled job grows up to finishedRefresh: it may be
// resumed, or its owner may have lost it.
const (
	refreshEvery    = time.Second
	finishedRefresh = time.Minute
)

// refreshPart is the number of jobs refreshed in one sequence; several run concurrently.
const refreshPart = 32

// turn orders the requests of a sequence: jobs with a reply the last time first, the others by
// time.
func (k *known) turn() time.Time {
	if k.failed {
		return k.due
	}
	return time.Time{}
}

// refresh requests the states of the due jobs, in as few requests as there are owners. It takes at
// most refreshEvery: the remaining jobs stay due.
func (b *Registry) refresh(ctx context.Context, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, refreshEvery)
	defer cancel()
	var due []known
	for _, k := range b.all() {
		if !k.due.After(now) {
			due = append(due, k)
		}
	}
	// Neighbors on the ring have one owner.
	slices.SortFunc(due, func(x, y known) int { return bytes.Compare(x.at[:], y.at[:]) })
	var rows sync.WaitGroup
	for row := range slices.Chunk(due, refreshPart) {
		rows.Go(func() { b.refreshRow(ctx, now, row) })
	}
	rows.Wait()
}

// refreshRow requests all states from the owner of the first job, the missing ones from the owner
// of the first of these, and so on.
func (b *Registry) refreshRow(ctx context.Context, now time.Time, row []known) {
	slices.SortStableFunc(row, func(x, y known) int { return x.turn().Compare(y.turn()) })
	for len(row) > 0 && ctx.Err() == nil {
		first := row[0].spec.ID
		heard, err := b.standings(ctx, row)
		if _, ok := heard[first]; !ok {
			if err == nil {
				err = errors.New("no state in the owner's reply")
			}
			b.deps.Log.Debug("job not refreshed", "job", first.String(), "err", err)
			b.asked(now, first, err)
			row = row[1:]
		}
		row = slices.DeleteFunc(row, func(k known) bool {
			s, ok := heard[k.spec.ID]
			if ok {
				err := b.received(ctx, &k, s)
				if err != nil && ctx.Err() == nil {
					b.deps.Log.Debug("job not restored", "job", k.spec.ID.String(), "err", err)
				}
				b.asked(now, k.spec.ID, err)
			}
			return ok
		})
	}
}

// standings requests the states of a sequence of jobs from the owner of the first.
func (b *Registry) standings(ctx context.Context, row []known) (map[job.ID]job.Standing, error) {
	req := &wire.JobRequest{}
	for i := range row {
		req.Ask = append(req.Ask, row[i].spec.ID[:])
	}
	reply, err := b.ask(ctx, row[0].spec.ID, req)
	if err != nil {
		return nil, err
	}
	heard := make(map[job.ID]job.Standing, len(reply.GetStandings()))
	for _, s := range reply.GetStandings() {
		heard[job.ID(s.GetId())] = standingOf(s)
	}
	return heard, nil
}

// asked sets the next refresh of a job. The interval grows for an owner that sends false states or
// rejects the job, and for a finished job.
func (b *Registry) asked(now time.Time, id job.ID, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.known[id]
	if k == nil {
		return
	}
	k.failed = err != nil
	finished := (k.State == job.StateCanceled || k.State == job.StateDone) && err == nil
	slower := finished || errors.Is(err, job.ErrSignature) || rpc.Refused(err)
	if !slower {
		k.pause = refreshEvery
	}
	k.due = now.Add(k.pause - refreshEvery/2) // ticks are not exact
	if slower {
		k.pause = min(2*k.pause, finishedRefresh)
	}
}

// received processes a state received from a job's owner. If the state is outdated because an
// earlier owner was lost, or not signed by the job's poster, the job is posted to the owner again
// with the state known here, which merges.
func (b *Registry) received(ctx context.Context, k *known, s job.Standing) error {
	if s.State != job.StateNone {
		vouched, err := k.spec.Vouched(s)
		if err != nil {
			b.deps.Log.Warn("job owner sent a state without the poster's signature", "job", k.spec.ID.String(), "state", s.State.String(), "poster", peer.ID(k.spec.Poster).String())
		}
		s = vouched
	}
	merged := k.Merge(s)
	if merged == s && merged == k.Standing {
		return nil
	}
	spec, _, err := b.kept(k.spec.ID)
	if errors.Is(err, errUnknown) {
		_, err = b.get(ctx, k.spec.ID)
	}
	if err != nil || spec == nil {
		return err
	}
	if merged == s {
		return b.learn(spec, s)
	}
	_, err = b.one(ctx, spec.ID, &wire.JobRequest{Post: spec.Wire(), State: uint32(merged.State), Version: merged.Version, Refresh: uint64(merged.Refresh), StateSignature: []byte(merged.Signature)})
	return err
}
