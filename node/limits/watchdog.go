package limits

import (
	"context"
	"fmt"
	"time"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/storage"
)

// diskEvery is how often the free space is looked at: at 100 MB/s the reserve's default lasts
// longer.
const diskEvery = time.Second

// MoreRoom is the cure where the disk's reserve is reached.
const MoreRoom = "free some space, or start with a lower --disk-reserve (and --forget-limits if limits set had raised it)"

// WatchDisk ends the peer, by its error, when the disk's reserve is reached or the store has
// failed. What is written so far stays whole.
func WatchDisk(ctx context.Context, dir string, reserve func() uint64, store *storage.Store) error {
	tick := time.NewTicker(diskEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := storage.NewGuard(dir, reserve()).Check(); err != nil {
				return &control.Error{Kind: control.KindFailed, Text: fmt.Sprintf("stopped: %v; %s; the crawl goes on where it was", err, MoreRoom)}
			}
		case <-store.Failed():
			return fmt.Errorf("stopped: %w", store.Err())
		case <-ctx.Done():
			return nil
		}
	}
}
