package main

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"time"

	libpeer "github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/scripts/harness"
)

// listEmptyFiles is a worker like those behind routers: it attaches to the peer, and answers
// requests for its files with four megabytes of empty parts.
func listEmptyFiles(ctx context.Context, t *target) {
	answer := append([]byte("[{}"), bytes.Repeat([]byte(",{}"), 1<<20)...)
	answer = append(answer, ']')
	net := harness.Must(newNet(p2p.Config{Reachability: p2p.ReachPrivate}))
	defer func() { _ = net.Close() }()
	kad := harness.Must(p2p.NewKad(net))
	for _, service := range []string{"status", "files"} {
		net.Handle(service, func(context.Context, libpeer.ID, []byte) ([]byte, error) { return answer, nil })
	}
	transport := p2p.NewRingTransport(net)
	config := dht.DefaultConfig()
	config.Role = dht.RoleWorker
	d := harness.Must(dht.New(config, net.Peer(net.Self()), transport, kad, slog.New(slog.DiscardHandler)))
	transport.Serve(d.Handle)
	harness.Check(net.Follow(d))
	harness.Check(net.Listen())
	done := make(chan error, 2)
	go func() { done <- d.Run(ctx) }()
	go func() { done <- net.Run(ctx) }()
	for ctx.Err() == nil && len(d.Attachments()) == 0 {
		if report := net.Bootstrap(ctx, p2p.Sources{Bootstrap: []string{t.addr}}); len(report.Entries) > 0 {
			_ = d.Join(ctx, []dht.Peer{net.Peer(report.Entries[0])})
		}
		_ = harness.Sleep(ctx, 100*time.Millisecond)
	}
	<-ctx.Done()
	for range 2 {
		<-done //nolint:errcheck // it ends with the attack, however
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
