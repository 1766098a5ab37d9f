package main

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/services/records"
	"github.com/apoidea/apoidea/node/services/wire"
	"github.com/apoidea/apoidea/scripts/harness"
	"github.com/apoidea/apoidea/storage"
)

// attackRecords brings records of hosts as if it had owned them: their pages are gone, and nobody
// may ask them for a day. If they are taken, pages are missing in the end.
var attackRecords = attack{
	name: "records", does: "records of hosts by one who never owned them: their pages are gone, they are to be left alone",
	make: func(ctx context.Context, t *target) error {
		id, err := job.ParseID(t.job)
		if err != nil {
			return err
		}
		now := time.Now().UnixMilli()
		lies := make(map[string]*wire.Records) // by host
		for _, url := range webgen.New(webgen.Config{Hosts: webHosts, PagesPerHost: 300}).Truth(webgen.Walk{Port: t.port, MaxDepth: -1}).URLs {
			host := link.Host(url)
			pos := ring.PosOf(ring.HostKey(host))
			m := lies[host]
			if m == nil {
				own := ondisk.Host{Name: host, NotBefore: now + 24*time.Hour.Milliseconds()}
				m = &wire.Records{Space: uint32(storage.KeyspaceHosts), Key: [][]byte{ondisk.HostKey(pos)}, Value: [][]byte{own.Encode()}}
				lies[host] = m
			}
			gone := ondisk.Entry{Done: true, Final: ondisk.Final{URL: url, Outcome: link.OutcomeHTTPError, Status: 410, FetchedMs: now, Size: 1}}
			key := ondisk.EntryKey(pos, id, link.Hash(id, url))
			at, _ := slices.BinarySearchFunc(m.GetKey(), key, bytes.Compare) // as they lie on a disk
			m.Key, m.Value = slices.Insert(m.GetKey(), at, key), slices.Insert(m.GetValue(), at, gone.Encode())
		}
		return t.crowd(ctx, identities, func(s *stranger) {
			for ctx.Err() == nil {
				for _, m := range lies {
					s.tell(ctx, records.ServiceRecords, "", m)
				}
				_ = harness.Sleep(ctx, 10*time.Millisecond)
			}
		})
	},
}
