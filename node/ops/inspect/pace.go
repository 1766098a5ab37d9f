package inspect

import (
	"context"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/services/rpc"
)

// A report takes some milliseconds of processor time in the owner's loop.
const (
	// reportEvery is the time between two reports to one peer.
	reportEvery = 500 * time.Millisecond
	// reportsAtOnce is the burst of reports without that interval: a wait for the end of a crawl
	// begins with quick walks.
	reportsAtOnce = 4
	// reportWait is the maximum wait of a request for its turn; then it is rejected as busy.
	reportWait = 2 * time.Second
)

// waitForReport returns at a peer's turn, or with an error if too many requests are waiting.
// Reports are delayed and never cached, because two equal walks end a crawl.
func (v *View) waitForReport(ctx context.Context, from peer.ID) error {
	r := v.reports.Of(string(from)).Reserve()
	if r.Delay() > reportWait {
		r.Cancel()
		return rpc.Busy("too many report requests")
	}
	return loop.Sleep(ctx, r.Delay())
}
