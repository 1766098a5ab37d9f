package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/p2p/protocol/identify/pb"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/scripts/harness"
)

// claimNames comes under ever new identities, each of which claims to speak protocols with long
// names, and goes.
func claimNames(ctx context.Context, t *target) {
	answer := longNames()
	var group sync.WaitGroup
	for range 6 {
		group.Go(func() {
			for ctx.Err() == nil {
				t.named(ctx, answer)
			}
		})
	}
	group.Wait()
}

// What the peer may retain of an identity: 2 KiB of protocol names, versions, keys, addresses and
// maps. Retained whole, one of these takes more than 40 KiB. The crawl may add nameSpare meanwhile.
const (
	nameBytes, nameSpare = 16 << 10, 4 << 20
	// nameCount identities are enough: fewer would be hidden by the spare.
	nameCount  = 400
	nameWithin = 40 * time.Second
	// nameRead is what the attack prints for each identity that the peer has read.
	nameRead = "identity read\n"
)

// judgeNames compares the growth of the heap with the number of identities that the peer has read,
// which does not depend on the speed of the machine.
func judgeNames(ctx context.Context, s *scene, r *report) {
	var read int
	for begun := time.Now(); read < nameCount && time.Since(begun) < nameWithin; {
		read = strings.Count(string(harness.Must(os.ReadFile(filepath.Join(s.work, r.name+".log")))), nameRead)
		harness.Check(harness.Sleep(ctx, lookEvery))
	}
	if read < nameCount/4 {
		r.Blame("%d identities were read in %v, too few to judge", read, nameWithin)
		return
	}
	least, _, err := s.heaps(ctx)
	harness.Check(err)
	grown, most := least-r.before, int64(nameSpare+read*nameBytes)
	r.Say("%d identities read, heap grown by %.1f MiB, at most %.1f", read, float64(grown)/(1<<20), float64(most)/(1<<20))
	if grown > most {
		r.Blame("the heap grew by %d KiB for each of %d identities", (grown>>10)/int64(read), read)
	}
}

// named comes and goes under a new identity, which answers an identify request. Failures are
// ignored: the next may come in.
func (t *target) named(ctx context.Context, answer []byte) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	n, err := newNet(p2p.Config{})
	if err != nil {
		return
	}
	defer func() { _ = n.Close() }()
	answered := make(chan struct{}, 1)
	n.Host().SetStreamHandler("/ipfs/id/1.0.0", func(s network.Stream) {
		_, err := s.Write(answer)
		_ = s.CloseWrite()
		if _, end := s.Read(make([]byte, 1)); err == nil && errors.Is(end, io.EOF) { // once the peer has stored it
			fmt.Print(nameRead)
		}
		_ = s.Close()
		select {
		case answered <- struct{}{}:
		default:
		}
	})
	if n.Meet(ctx, t.info) != nil {
		return
	}
	select {
	case <-answered:
	case <-ctx.Done():
	}
}

// longNames is what a peer says of itself, as identify has it.
func longNames() (answer []byte) {
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
		raw := harness.Must(proto.Marshal(m))
		answer = append(binary.AppendUvarint(answer, uint64(len(raw))), raw...)
	}
	return answer
}
