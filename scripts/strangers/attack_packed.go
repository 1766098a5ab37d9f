package main

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/services/records"
	"github.com/apoidea/apoidea/node/services/wire"
	"github.com/apoidea/apoidea/storage"
)

// attackPacked pushes records of hosts whose links are packed a thousandfold.
var attackPacked = attack{
	name: "packed", does: "records are pushed whose links are packed a thousandfold",
	make: func(ctx context.Context, t *target) error {
		pushes, err := packedPushes()
		if err != nil {
			return err
		}
		return t.crowd(ctx, identities, func(s *stranger) {
			for i := 0; ctx.Err() == nil; i++ {
				_, _ = s.Call(ctx, s.of, records.ServiceRecords, pushes[i%len(pushes)])
			}
		})
	},
}

// packedPushes are messages of some hundred kilobytes, each of one host: of thirty hosts, a third
// of whose keys the peer may own.
func packedPushes() (pushes [][]byte, err error) {
	list := ondisk.Links{}
	for range 30_000 {
		list.Links = append(list.Links, ondisk.Link{URL: "http://a.example/" + strings.Repeat("a", 900)})
	}
	packed := list.Encode()
	for i := range 30 {
		host := ondisk.Host{Name: fmt.Sprintf("h%d.example", i)}
		pos := ring.PosOf(ring.HostKey(host.Name))
		m := &wire.Records{Space: uint32(storage.KeyspaceHosts), Key: [][]byte{ondisk.HostKey(pos)}, Value: [][]byte{host.Encode()}}
		id := job.NewID()
		for n := range 64 {
			m.Key, m.Value = append(m.Key, ondisk.OutboxKey(pos, id, uint64(n))), append(m.Value, packed)
		}
		raw, err := proto.Marshal(m)
		if err != nil {
			return nil, err
		}
		pushes = append(pushes, raw)
	}
	return pushes, nil
}
