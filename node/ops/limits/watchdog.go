package limits

import (
	"context"
	"fmt"
	"time"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/storage"
)

// diskEvery is the interval of free space checks; at 100 MB/s the default reserve lasts longer.
const diskEvery = time.Second

// MoreRoom is the fix for a reached disk reserve.
const MoreRoom = "free some space, or start with a lower --disk-reserve (and --forget-limits if limits set raised it)"

// WatchDisk returns an error, which stops the peer, when the disk reserve is reached or the store
// has failed. Data written before stays valid.
func WatchDisk(ctx context.Context, dir string, reserve func() uint64, store *storage.Store) error {
	tick := time.NewTicker(diskEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := storage.NewGuard(dir, reserve()).Check(); err != nil {
				return &control.Error{Kind: control.KindFailed, Text: fmt.Sprintf("stopped: %v; %s; the crawl continues where it stopped", err, MoreRoom)}
			}
		case <-store.Failed():
			return fmt.Errorf("stopped: %w", store.Err())
		case <-ctx.Done():
			return nil
		}
	}
}
