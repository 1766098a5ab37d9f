package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/p2p/protocol/identify/pb"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/scripts/harness"
)

// attackNames comes under ever new identities, each of which says that it speaks protocols with
// long names, and goes.
var attackNames = attack{
	name: "names", does: "ever new identities say that they speak 124 protocols of 250 bytes, and go", slow: true,
	make: func(ctx context.Context, t *target) error {
		answer, err := longNames()
		if err != nil {
			return err
		}
		var group sync.WaitGroup
		for range 6 {
			group.Go(func() {
				for ctx.Err() == nil {
					if err := t.named(ctx, answer); err != nil {
						return
					}
				}
			})
		}
		group.Wait()
		return nil
	},
}

// named comes and goes under a new identity, which answers who it is.
func (t *target) named(ctx context.Context, answer []byte) error {
	n, err := newNet(p2p.Config{})
	if err != nil {
		return err
	}
	defer func() { _ = n.Close() }()
	said := make(chan struct{}, 1)
	n.Host().SetStreamHandler("/ipfs/id/1.0.0", func(s network.Stream) {
		_, _ = s.Write(answer)
		_ = s.Close()
		select {
		case said <- struct{}{}:
		default:
		}
	})
	within, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	if err := n.Meet(within, t.info); err != nil {
		return nil //nolint:nilerr // the next may come in
	}
	select {
	case <-said:
		return harness.Sleep(within, 30*time.Millisecond) // until it is read
	case <-within.Done():
		return nil
	}
}

// longNames is what a peer says of itself, as identify has it.
func longNames() (answer []byte, err error) {
	long := strings.Repeat("a", 8000)
	parts := []*pb.Identify{{AgentVersion: &long}, {ProtocolVersion: &long}}
	for part := range 4 {
		m := new(pb.Identify)
		for i := range 31 {
			m.Protocols = append(m.Protocols, fmt.Sprintf("/%d/%s", part*31+i, strings.Repeat("x", 245)))
		}
		parts = append(parts, m)
	}
	for _, m := range parts {
		raw, err := proto.Marshal(m)
		if err != nil {
			return nil, err
		}
		answer = append(binary.AppendUvarint(answer, uint64(len(raw))), raw...)
	}
	return answer, nil
}
