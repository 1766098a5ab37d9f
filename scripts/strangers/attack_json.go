package main

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	libpeer "github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/scripts/harness"
)

// listEmptyFiles is a worker like those behind routers: it attaches to the peer, and answers
// requests for its files with four megabytes of empty parts.
func listEmptyFiles(ctx context.Context, t *target) {
	answer := append([]byte("[{}"), bytes.Repeat([]byte(",{}"), 1<<20)...)
	answer = append(answer, ']')
	net := harness.Must(newNet(p2p.Config{Reachability: p2p.ReachPrivate}))
	handlers := make(map[string]calls.Handler)
	for _, service := range []string{"status", "files"} {
		handlers[service] = func(context.Context, libpeer.ID, []byte) ([]byte, error) { return answer, nil }
	}
	_, leave := attend(ctx, net, dht.RoleWorker, t.addr, handlers)
	<-ctx.Done()
	leave()
}

// leaveTime bounds the farewell of a peer of an attack.
const leaveTime = 2 * time.Second

// attend has a peer take part in the ring of another one, until leave is called.
func attend(ctx context.Context, net *p2p.Net, role dht.Role, entry string, handlers map[string]calls.Handler) (d *dht.DHT, leave func()) {
	kad := harness.Must(p2p.NewKad(net))
	for service, handler := range handlers {
		net.Handle(service, handler)
	}
	transport := p2p.NewRingTransport(net)
	config := dht.DefaultConfig()
	config.Role = role
	d = harness.Must(dht.New(config, net.Peer(net.Self()), transport, kad, slog.New(slog.DiscardHandler)))
	transport.Serve(d.Handle)
	harness.Check(net.Follow(d))
	harness.Check(net.Listen())
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { _ = d.Run(ctx) })
	running.Go(func() { _ = net.Run(ctx) })
	running.Go(func() {
		for ctx.Err() == nil && d.State() != dht.Serving && len(d.Attachments()) == 0 {
			if report := net.Bootstrap(ctx, p2p.Sources{Bootstrap: []string{entry}}); len(report.Entries) > 0 {
				_ = d.Join(ctx, []dht.Peer{net.Peer(report.Entries[0])})
			}
			_ = harness.Sleep(ctx, time.Second)
		}
	})
	return d, func() {
		within, cancel := context.WithTimeout(ctx, leaveTime)
		_ = d.Leave(within)
		cancel()
		stop()
		running.Wait()
		_ = net.Close()
	}
}

// judgeEmptyFiles expects that the worker is asked: the list of the ring's archives names its
// answer as one that cannot be used.
func judgeEmptyFiles(ctx context.Context, s *scene, r *report) {
	for begun := time.Now(); time.Since(begun) < joinTime; {
		for _, m := range harness.Must(s.peers[0].Client.Archives(ctx, true)).Missing {
			if strings.Contains(m.Error, "list of files") {
				r.Say("its answer is refused: %.80s", m.Error)
				return
			}
		}
		_ = harness.Sleep(ctx, 50*time.Millisecond)
	}
	r.Blame("the worker was not asked")
}
