package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	libpeer "github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/scripts/harness"
)

// ringName is the network of the peers: their default.
const ringName = "main"

// identities are how many peers an attacker pretends to be where it says nothing else.
const identities = 8

// target is who is attacked.
type target struct {
	info libpeer.AddrInfo
	addr string
	all  []libpeer.AddrInfo // with the other members of the ring, if liars attack it
	job  string             // ID of the job that its ring crawls
	port int                // of the web
	// pages are those of each host of the web.
	pages int
}

// attackAs makes an attack until ctx ends.
func attackAs(ctx context.Context, o *options) error {
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, 10) // strangers have processors of their own, and not these
	t := &target{job: o.job, port: o.port, pages: o.pages}
	for addr := range strings.SplitSeq(o.target, ",") {
		info, err := libpeer.AddrInfoFromString(addr)
		if err != nil {
			return err
		}
		for _, addr := range info.Addrs {
			if !manet.IsIPLoopback(addr) {
				return fmt.Errorf("%s is not on this machine", addr)
			}
		}
		t.all = append(t.all, *info)
	}
	t.info, t.addr = t.all[0], strings.Split(o.target, ",")[0]
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if o.liars {
		return harness.Try(func() { harness.Check(lieAs(ctx, o, t)) })
	}
	chosen, err := choose([]string{o.as}, false)
	if err != nil {
		return err
	}
	return harness.Try(func() { chosen[0].make(ctx, t) })
}

// stranger is an identity that was made up a moment ago.
type stranger struct {
	*p2p.Net
	of libpeer.ID
}

// crowd makes up n identities that are connected, and has each do something at once, until that is
// done. Those that the peer keeps out do nothing.
func (t *target) crowd(ctx context.Context, n int, do func(s *stranger)) {
	var group sync.WaitGroup
	var all []*stranger
	var failed error
	for range n {
		s, err := t.newStranger(ctx)
		if err != nil {
			failed = err
			continue
		}
		all = append(all, s)
		group.Go(func() { do(s) })
	}
	<-ctx.Done()
	for _, s := range all {
		_ = s.Close()
	}
	group.Wait()
	if len(all) == 0 {
		harness.Check(failed)
	}
}

func (t *target) newStranger(ctx context.Context) (*stranger, error) {
	net, err := newNet(p2p.Config{})
	if err != nil {
		return nil, err
	}
	s := &stranger{net, t.info.ID}
	within, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	if err := net.Meet(within, t.info); err != nil {
		return nil, fmt.Errorf("%w (and %w)", err, net.Close())
	}
	return s, nil
}

// open opens a stream.
func (s *stranger) open(ctx context.Context, id protocol.ID) (network.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	return s.Host().NewStream(ctx, s.of, id)
}

// within calls a function with the time that a call may take.
func (s *stranger) within(ctx context.Context, call func(ctx context.Context)) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	call(ctx)
}

// streams keeps n streams of a protocol open until ctx ends: bytes are written to each, and it is
// used until the peer has had enough. Then it is opened again.
func (s *stranger) streams(ctx context.Context, n int, id protocol.ID, first []byte, use func(ctx context.Context, st network.Stream)) {
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			for ctx.Err() == nil {
				st, err := s.open(ctx, id)
				if err != nil {
					_ = harness.Sleep(ctx, 50*time.Millisecond)
					continue
				}
				if _, err := st.Write(first); err == nil {
					use(ctx, st)
				}
				_ = st.Reset()
			}
		})
	}
	group.Wait()
}

// hold reads a stream until the peer ends it.
func hold(ctx context.Context, st network.Stream) {
	stop := context.AfterFunc(ctx, func() { _ = st.Reset() })
	defer stop()
	_, _ = io.Copy(io.Discard, st)
}

// request is a frame as dht/calls writes it, of which announced bytes are to follow the head.
func request(id uint64, payload []byte, announced int) []byte {
	head := binary.AppendUvarint([]byte{1}, id)
	head = binary.AppendUvarint(head, 30_000) // milliseconds
	frame := binary.AppendUvarint(nil, uint64(len(head)+max(announced, len(payload))))
	return append(append(frame, head...), payload...)
}

// socket is the address of the peer without the parts of libp2p.
func (t *target) socket() string {
	for _, a := range t.info.Addrs {
		if _, err := a.ValueForProtocol(ma.P_TCP); err == nil {
			return harness.Must(manet.ToNetAddr(a)).String()
		}
	}
	harness.Check(fmt.Errorf("%s is over no TCP", t.addr))
	return ""
}
