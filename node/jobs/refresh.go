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
	"github.com/apoidea/apoidea/node/rpc"
)

// refreshEvery is how often a peer asks the owners of the jobs it works for whether their state has
// changed: the delay of pause and cancel. A job that is done or canceled is asked after less and
// less, down to once in finishedRefresh: it may be resumed, or its owner may have forgotten it.
const (
	refreshEvery    = time.Second
	finishedRefresh = time.Minute
)

// refreshPart is the number of jobs that are asked after in one row; several rows go on at the same
// time.
const refreshPart = 32

// turn orders the questions of a row: those first that were answered the last time, the others one
// after the other.
func (k *known) turn() time.Time {
	if k.failed {
		return k.due
	}
	return time.Time{}
}

// refresh asks after the jobs that are due, in as few requests as there are owners. It takes no
// longer than refreshEvery: a job that was not asked after stays due.
func (b *Book) refresh(ctx context.Context, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, refreshEvery)
	defer cancel()
	var due []known
	for _, k := range b.all() {
		if !k.due.After(now) {
			due = append(due, k)
		}
	}
	// Neighbours on the ring have one owner.
	slices.SortFunc(due, func(x, y known) int { return bytes.Compare(x.at[:], y.at[:]) })
	var rows sync.WaitGroup
	for row := range slices.Chunk(due, refreshPart) {
		rows.Go(func() { b.refreshRow(ctx, now, row) })
	}
	rows.Wait()
}

// refreshRow asks the owner of the first job about all, the owner of the first that is left about
// the rest, and so on.
func (b *Book) refreshRow(ctx context.Context, now time.Time, row []known) {
	slices.SortStableFunc(row, func(x, y known) int { return x.turn().Compare(y.turn()) })
	for len(row) > 0 && ctx.Err() == nil {
		first := row[0].spec.ID
		heard, err := b.standings(ctx, row)
		if _, ok := heard[first]; !ok {
			if err == nil {
				err = errors.New("its owner says nothing about it")
			}
			b.deps.Log.Debug("job not refreshed", "job", first.String(), "err", err)
			b.asked(now, first, err)
			row = row[1:]
		}
		row = slices.DeleteFunc(row, func(k known) bool {
			s, ok := heard[k.spec.ID]
			if ok {
				err := b.hear(ctx, &k, s)
				if err != nil && ctx.Err() == nil {
					b.deps.Log.Debug("job not restored", "job", k.spec.ID.String(), "err", err)
				}
				b.asked(now, k.spec.ID, err)
			}
			return ok
		})
	}
}

// standings asks the owner of the first job of a row about all of it.
func (b *Book) standings(ctx context.Context, row []known) (map[job.ID]job.Standing, error) {
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
		heard[job.ID(s.GetId())] = job.Standing{State: job.State(s.GetState()), Version: s.GetVersion(), Signature: string(s.GetStateSignature())}
	}
	return heard, nil
}

// asked sets when a job is asked after again. An owner that lies, or does not take the job, is
// asked less and less, as is one of a job that is finished.
func (b *Book) asked(now time.Time, id job.ID, err error) {
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
	k.due = now.Add(k.pause - refreshEvery/2) // the ticks that bring it about are not on the dot
	if slower {
		k.pause = min(2*k.pause, finishedRefresh)
	}
}

// hear takes in what a job's owner says of its state. The owner may be behind, if an earlier one is
// gone with what it knew, or tell what the job's poster did not sign: then the job is posted to it
// with the state known here, which merges.
func (b *Book) hear(ctx context.Context, k *known, s job.Standing) error {
	if s.State != job.StateNone {
		vouched, err := k.spec.Vouched(s)
		if err != nil {
			b.deps.Log.Warn("the owner of a job tells a state that its poster did not sign", "job", k.spec.ID.String(), "state", s.State.String(), "poster", peer.ID(k.spec.Poster).String())
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
	_, err = b.one(ctx, spec.ID, &wire.JobRequest{Post: spec.Wire(), State: uint32(merged.State), Version: merged.Version, StateSignature: []byte(merged.Signature)})
	return err
}
