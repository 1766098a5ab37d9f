package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/ops/limits"
	"github.com/apoidea/apoidea/node/ops/volunteer/machine"
	"github.com/apoidea/apoidea/node/services/records"
)

// Run joins the ring, works until ctx ends, the peer leaves or a part fails, and returns when none
// of its goroutines is left. Requests are answered until the handoff is complete.
func (n *Node) Run(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The ring and the services outlive the worker, which reports while it shuts down.
	below, stopBelow := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBelow()
	base, bctx := errgroup.WithContext(below)
	n.startBelow(bctx, base)
	top, tctx := errgroup.WithContext(ctx)
	n.startAbove(tctx, top)
	top.Go(func() error {
		select {
		case <-bctx.Done(): // a lower part failed
			return bctx.Err()
		case <-n.stop:
			return ErrStopped
		case <-tctx.Done():
			return nil
		}
	})
	err = top.Wait()
	n.leaving.Store(true)
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	left := errStays
	if bctx.Err() == nil {
		err = errors.Join(err, n.ring.remember())
		switch {
		case !errors.Is(err, ErrStopped):
			n.awaitReports(bctx)
		case n.ring.dht.Size() <= 1:
			left = errNobody
		default:
			left = n.goodbye(bctx)
			err = errors.Join(err, left)
		}
	}
	n.ended(left)
	stopBelow()
	if berr := loop.UnlessCanceled(base.Wait()); berr != nil {
		err = errors.Join(berr, err)
	}
	return errors.Join(err, n.close())
}

// reportTime is how long a stopping peer waits for reports of workers that stop too, as in a
// cluster: unreported URLs are fetched again.
const reportTime = time.Second

// awaitReports returns when no worker has a lease of this peer, or after reportTime.
func (n *Node) awaitReports(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reportTime)
	defer cancel()
	for leased := int64(1); leased > 0; {
		if n.owners.Look(ctx, func(o *owner.Owner) { leased = o.Totals().HostsLeased }) != nil || leased > 0 && loop.Sleep(ctx, 20*time.Millisecond) != nil {
			return
		}
	}
}

// startBelow starts the serving parts: the ring, the services and the API, which answer until the
// handoff is complete.
func (n *Node) startBelow(ctx context.Context, g *errgroup.Group) {
	g.Go(func() error { return n.ring.net.Run(ctx) })
	g.Go(func() error { return loop.UnlessCanceled(n.ring.dht.Run(ctx)) })
	g.Go(func() error { return n.contents.Run(ctx) })
	g.Go(func() error { return n.subnets.Run(ctx) })
	g.Go(func() error { return n.domains.Run(ctx) })
	g.Go(func() error { return n.jobs.Run(ctx) })
	g.Go(func() error { return loop.UnlessStopping(n.owners.Run(ctx)) })
	g.Go(func() error { return n.ship.Serve(ctx) })
	g.Go(func() error { return n.ship.Run(ctx) })
	g.Go(func() error { return n.keeping.Run(ctx) })
	g.Go(func() error { return n.ring.keepMemory(ctx) })
	g.Go(func() error { return n.members.Run(ctx) })
	g.Go(func() error { return n.essentials.run(ctx) })
	g.Go(func() error {
		api := control.NewServer(n, n.token, n.log)
		api.Handle("GET /metrics", n.metrics.Handler(n.log))
		return api.Serve(ctx, n.api)
	})
}

// startAbove starts the parts that create work: they end first.
func (n *Node) startAbove(ctx context.Context, g *errgroup.Group) {
	g.Go(func() error { return n.ring.join(ctx) })
	if n.ring.nearby != nil {
		g.Go(func() error { return n.ring.nearby.run(ctx, n.ring) })
	}
	g.Go(func() error { return n.becomeReady(ctx) })
	for _, d := range n.debug {
		g.Go(func() error { return control.ServeDebug(ctx, d.name, d.listener, d.handler, n.token, n.log) })
	}
	if n.page != nil {
		g.Go(func() error { return n.page.server.Serve(ctx, n.page.listener) })
	}
	g.Go(func() error { return limits.WatchDisk(ctx, n.cfg.DataDir, n.limits.Reserve, n.store) })
	g.Go(func() error { return n.limits.Run(ctx) })
	g.Go(func() error { return n.limits.Observe(ctx, machine.This()) })
	g.Go(func() error { return n.afterReady(ctx, n.jobs.RunSeeds) })
	g.Go(func() error { return n.afterReady(ctx, n.registry.Run) })
	g.Go(func() error { return n.afterReady(ctx, n.owners.RunOutbox) })
	g.Go(func() error { return n.afterReady(ctx, n.owners.RunShares) })
	g.Go(func() error { return n.afterReady(ctx, n.promote) })
	g.Go(func() error { return n.afterReady(ctx, n.placer.Run) })
	g.Go(func() error { return n.afterReady(ctx, n.wishes.Run) })
	g.Go(func() error {
		return n.afterReady(ctx, func(ctx context.Context) error {
			return n.wishes.RunClaims(ctx, n.owners, n.owners.NextClaim, n.domains)
		})
	})
	if n.form != nil {
		g.Go(func() error {
			return n.afterReady(ctx, func(ctx context.Context) error { return n.wishes.Serve(ctx, n.form) })
		})
	}
	g.Go(func() error { return n.afterReady(ctx, n.fetch) })
}

// fetch runs the crawler of this peer once Held is closed.
func (n *Node) fetch(ctx context.Context) error {
	if n.cfg.Held != nil {
		select {
		case <-n.cfg.Held:
		case <-ctx.Done():
			return nil
		}
	}
	return n.crawl.Run(ctx)
}

// errStays answers a leave request to a peer that ends for another reason.
var errStays = errors.New("peer stopped without leaving; its records stay for the next start")

// errNobody answers a leave request to a peer that is alone. It ends anyway.
var errNobody error = &control.Error{Kind: control.KindAlone, Text: "no other ring member can take over this peer's records: they stay in its data directory"}

// leaveTime is the timeout of the handoff when a peer leaves.
const leaveTime = records.DepartTime

// goodbye leaves the ring and hands every host to its next owner. A peer that only stops does
// neither: it keeps its records for its next start.
func (n *Node) goodbye(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	if err := n.ring.dht.Leave(ctx); err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	if err := n.keeping.HandOver(ctx); err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	return nil
}

// becomeReady opens the services when this peer may serve.
func (n *Node) becomeReady(ctx context.Context) error {
	if err := n.ring.joined(ctx); err != nil {
		return loop.UnlessCanceled(err)
	}
	close(n.ready)
	return nil
}

// close releases what New opened, after everything has stopped.
func (n *Node) close() error {
	var errs []error
	if n.crawl != nil {
		errs = append(errs, n.crawl.Close())
	}
	if n.ring != nil && n.ring.net != nil {
		errs = append(errs, n.ring.net.Close())
	}
	errs = append(errs, closeListener(n.api), n.page.close(), closeListener(n.form))
	for _, d := range n.debug {
		_ = d.listener.Close() // closed already if it served
	}
	if n.store != nil {
		errs = append(errs, n.store.Close())
	}
	_ = os.Remove(filepath.Join(n.cfg.DataDir, AddrFile))
	return errors.Join(errs...)
}

// closeListener closes a listener that may be nil or already closed by its server.
func closeListener(l net.Listener) error {
	if l == nil {
		return nil
	}
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// stages are the states of a peer's life: furnished, ready, asked to leave, left. Each is reached
// at most once; only the last always is.
type stages struct {
	furnished chan struct{} // closed when all parts are built
	ready     chan struct{} // closed when the peer serves
	stop      chan struct{} // closed by a request to leave
	leaving   atomic.Bool   // asked to leave, or ending for another reason
	left      chan struct{} // closed when the peer has left the ring, or ends without leaving
	leftErr   error         // result of leaving; read it after left
}

func newStages() *stages {
	return &stages{furnished: make(chan struct{}), ready: make(chan struct{}), stop: make(chan struct{}), left: make(chan struct{})}
}

// Ready returns when the peer serves its arc.
func (s *stages) Ready(ctx context.Context) error {
	select {
	case <-s.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// afterReady runs a part once the peer serves.
func (s *stages) afterReady(ctx context.Context, run func(context.Context) error) error {
	if err := s.Ready(ctx); err != nil {
		return loop.UnlessCanceled(err)
	}
	return run(ctx)
}

// Leave implements control.Backend. Run does the work; ctx ends the wait and not the leaving.
func (s *stages) Leave(ctx context.Context) error {
	s.BeginLeave()
	select {
	case <-s.left:
		return s.leftErr
	case <-ctx.Done():
		return ctx.Err()
	}
}

// BeginLeave makes Run stop the work, hand over this peer's records, and return.
func (s *stages) BeginLeave() {
	if s.leaving.CompareAndSwap(false, true) {
		close(s.stop)
	}
}

// Leaving reports whether the peer ends, or was asked to.
func (s *stages) Leaving() bool { return s.leaving.Load() }

// ended reports the result of leaving to the callers of Leave.
func (s *stages) ended(err error) {
	s.leftErr = err
	close(s.left)
}
