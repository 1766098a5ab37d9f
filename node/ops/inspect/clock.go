package inspect

import (
	"context"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/p2p"
)

// AskClock returns the lead of a peer's clock from its report; nil if it provides none.
func AskClock(ctx context.Context, net *p2p.Net, id peer.ID) *time.Duration {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	begin := time.Now()
	raw, err := net.Call(ctx, id, ServiceStatus, []byte(askReport))
	if err != nil {
		return nil
	}
	m, err := decodeReport(raw, id)
	if err != nil {
		return nil
	}
	if ahead, ok := clockAhead(m, begin, time.Now()); ok {
		return &ahead
	}
	return nil
}

// clockAhead returns the lead of the clock of a peer that reported between begin and end; false if
// the report has no time.
func clockAhead(m *report, begin, end time.Time) (time.Duration, bool) {
	if m.Time.IsZero() {
		return 0, false
	}
	return m.Time.Sub(begin.Add(end.Sub(begin) / 2).Round(0)), true
}
