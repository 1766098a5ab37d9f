package view

import (
	"context"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/p2p"
)

// AskClock asks a peer for its report, of which the time alone is of use; nil if it does not give
// one.
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

// clockAhead is how far the clock of a peer that reported between begin and end is ahead of ours;
// false if it told no time.
func clockAhead(m *report, begin, end time.Time) (time.Duration, bool) {
	if m.Time.IsZero() {
		return 0, false
	}
	return m.Time.Sub(begin.Add(end.Sub(begin) / 2).Round(0)), true
}
