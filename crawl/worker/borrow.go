package worker

import (
	"context"
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/crawl/worker/session"
)

// ErrLendsNothing is the answer of an owner of a version that knows no loans.
var ErrLendsNothing = errors.New("the owner of the host lends nothing")

const (
	// lendTime bounds a question for a loan, and the word that one is over.
	lendTime = 2 * time.Second
	// lendLook is when to look for the answer to a question that is under way.
	lendLook = 100 * time.Millisecond
	// lendRetry is when to ask an owner again that has not answered, lendPatience for how long that goes on: it may be that the host moves.
	lendRetry    = time.Second
	lendPatience = 5 * time.Second
	// lendsNothing is for how long an owner that lends nothing is not asked again; refusedFor the same for a host that is not to be had.
	lendsNothing = 10 * time.Minute
	refusedFor   = time.Minute
	// unusedFor is how long a loan waits for the visit that it is for.
	unusedFor = 2 * time.Second
	// restoreTries is how often an owner is told that a loan is over: if it does not hear of it, the loan ends by itself.
	restoreTries = 3
)

// loan is the leave to make one request to another host: its owner has lent it, or it is this worker's own.
type loan struct {
	number uint64
	until  time.Duration // lease clock: no request is written from then on
	own    *host         // nil: it is lent
	cancel context.CancelCauseFunc
}

// permit is asked right before the request is written. It takes no lock.
func (l *loan) permit(clock Clock) error {
	switch {
	case l == nil:
		return nil
	case l.own != nil && l.own.permit(clock) != nil, l.own == nil && clock.Now() >= l.until:
		return errLoanOver
	default:
		return nil
	}
}

// interrupt cancels the request under way if the time is over. An own host may have been taken from the worker since: the request may end as long as the lease
// would have held. Under the worker's mutex.
func (l *loan) interrupt(clock time.Duration, late bool) {
	until := l.until
	if l.own != nil {
		until = l.own.Until()
	}
	if (late || clock >= until) && l.cancel != nil {
		l.cancel(errLoanOver)
	}
}

// lending is what came of asking a host's owner for it.
type lending struct {
	asking  bool      // or telling it that a loan is over
	ready   *loan     // until a visit makes use of it
	again   time.Time // when to ask again
	refused string    // why it is not to be had before that
	nothing bool      // the owner lends nothing: nobody is asked before that
	failing time.Time // since then the owner has not answered; zero: it has
}

// borrow has a request to another host be made under a loan, if its owner lends anything. If there is none yet it says when to look again, or why not to. Under the
// mutex.
func (w *Worker) borrow(ctx context.Context, now time.Time, q *robotsQuestion, sake string) (again time.Time, why string) {
	if w.deps.Lend == nil {
		return time.Time{}, ""
	}
	a := &w.abroad
	maps.DeleteFunc(a.asked, func(_ string, l *lending) bool {
		return !l.asking && l.ready == nil && now.Sub(l.again) > lendPatience
	})
	name := link.Host(q.url)
	l := a.asked[name]
	switch {
	case l != nil && l.ready != nil:
		q.loan = l.ready
		delete(a.asked, name)
		return time.Time{}, ""
	case l != nil && l.asking:
		return now.Add(lendLook), ""
	case l != nil && l.again.After(now):
		if l.nothing {
			return time.Time{}, ""
		}
		return l.again, l.refused
	case l == nil:
		l = &lending{}
		name = strings.Clone(name)
		a.asked[name] = l
	}
	l.asking = true
	w.wg.Go(func() { w.ask(ctx, name, sake, l) })
	return now.Add(lendLook), ""
}

// ask asks the owner of a host for it, and takes its answer in.
func (w *Worker) ask(ctx context.Context, name, sake string, l *lending) {
	call, cancel := context.WithTimeout(ctx, lendTime)
	sent := w.clock.Now()
	reply, err := w.deps.Lend(call, &wire.Loan{Host: name, Sake: sake})
	cancel()
	if err == nil {
		err = reply.Validate()
	}
	w.mu.Lock()
	l.answered(time.Now(), sent, reply, err)
	ready := l.ready
	w.mu.Unlock()
	if ready == nil {
		return
	}
	unused := time.NewTimer(unusedFor)
	defer unused.Stop()
	select {
	case <-unused.C:
	case <-ctx.Done():
	}
	w.mu.Lock()
	still := l.ready == ready && w.abroad.asked[name] == l
	if still {
		w.abroad.restoring(name)
	}
	w.mu.Unlock()
	if still {
		w.restore(ctx, name, ready)
	}
}

// answered takes in what an owner said to a question that was sent at that time of the lease clock, or that it said nothing.
func (l *lending) answered(now time.Time, sent time.Duration, reply *wire.LoanReply, err error) {
	l.asking, l.refused, l.nothing = false, "", false
	if err == nil {
		l.failing = time.Time{}
		l.again = now.Add(max(time.Duration(reply.GetWaitMs())*time.Millisecond, lendLook))
		if l.refused = reply.GetRefused(); l.refused != "" {
			l.again = now.Add(refusedFor)
		}
		if reply.GetNumber() > 0 {
			lent := time.Duration(reply.GetLentMs()) * time.Millisecond
			l.ready = &loan{number: reply.GetNumber(), until: sent + session.Safe(lent)}
		}
		return
	}
	if l.failing.IsZero() {
		l.failing = now
	}
	l.again = now.Add(lendRetry)
	switch {
	case now.Sub(l.failing) < lendPatience:
	case errors.Is(err, ErrLendsNothing):
		l.nothing, l.again = true, now.Add(lendsNothing)
	default:
		l.refused = "its owner does not answer: " + err.Error()
	}
}

// restoring has nobody ask for a host until its owner has heard that a loan of it is over: it would name the same loan again, and end it when it hears. Under the
// worker's mutex.
func (a *abroad) restoring(name string) {
	a.asked[strings.Clone(name)] = &lending{asking: true}
}

// restore tells the owner of a host, which is restoring, that a loan of it is over. At the end of the run as well, as nobody else has the host before. If the owner
// does not answer, it may yet hear: the host is not asked for before the loan would be over by itself.
func (w *Worker) restore(ctx context.Context, name string, l *loan) {
	heard := false
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if heard {
			delete(w.abroad.asked, name)
			return
		}
		w.abroad.asked[name] = &lending{again: time.Now().Add(max(l.until-w.clock.Now(), 0))}
	}()
	for range restoreTries {
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), lendTime)
		_, err := w.deps.Lend(call, &wire.Loan{Host: name, Number: l.number})
		cancel()
		if heard = err == nil; heard || ctx.Err() != nil {
			return
		}
		w.log.Debug("owner does not hear that a loan is over", "host", name, "err", err)
		select {
		case <-time.After(lendRetry):
		case <-ctx.Done():
		}
	}
}
