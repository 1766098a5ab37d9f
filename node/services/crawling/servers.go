package crawling

import (
	"context"
	"time"

	"github.com/apoidea/apoidea/crawl/bandwidth"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
)

// serversEvery is the interval for storing the rates of web servers: a crash loses that much, which
// is measured again.
const serversEvery = time.Minute

// serverRecords stores the rates of web servers.
type serverRecords struct{ space *storage.Keyspace }

var _ bandwidth.Store = serverRecords{}

// Scan implements bandwidth.Store.
func (s serverRecords) Scan(fn func(key, value []byte) bool) error { return s.space.Scan(nil, nil, fn) }

// Write implements bandwidth.Store. It does not wait for the disk.
func (s serverRecords) Write(records map[string][]byte) error {
	return s.space.UpdateNoSync(func(b kv.Batch) {
		for key, value := range records {
			if value == nil {
				b.Delete([]byte(key))
			} else {
				b.Set([]byte(key), value)
			}
		}
	})
}

// KeepServers stores the worker's estimates of web servers periodically, and at the end.
func (c *Crawl) KeepServers(ctx context.Context) error {
	tick := time.NewTicker(serversEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return c.writeServers()
		}
		if err := c.writeServers(); err != nil {
			return err
		}
	}
}

func (c *Crawl) writeServers() error {
	var changes map[string][]byte
	c.Worker.Estimates(func(e *bandwidth.Estimates) { changes = e.Changes() })
	if len(changes) == 0 {
		return nil
	}
	return c.servers.Write(changes)
}
