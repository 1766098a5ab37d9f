package limits

import (
	"context"
	"net"

	"github.com/apoidea/apoidea/crawl/bandwidth"
	"github.com/apoidea/apoidea/dht/p2p"
)

// bulkParts of 5 of what may go up are for records that move and archives that are fetched, at
// most. The rest keeps leases, reports and the ring from waiting behind them on the same
// connection.
const bulkParts = 2

// Line is this peer's way to the internet, with everything on it: sites and peers share its caps.
type Line struct {
	*bandwidth.Line
	bulk *bandwidth.Limiter
}

var _ p2p.Shape = (*Line)(nil)

// NewLine makes a line without caps.
func NewLine() *Line {
	return &Line{Line: bandwidth.NewLine(0), bulk: bandwidth.NewLimiter(0)}
}

// setRates changes the caps, in bytes a second; 0 is none.
func (l *Line) setRates(down, up int64) {
	l.Down.SetRate(down)
	l.Up.SetRate(up)
	l.bulk.SetRate(up * bulkParts / 5)
}

// Conn implements p2p.Shape.
func (l *Line) Conn(c net.Conn) net.Conn { return l.Line.Conn(c, bandwidth.Peers) }

// Spent implements p2p.Shape.
func (l *Line) Spent(sent, received int) {
	l.Up.Spent(bandwidth.Peers, sent)
	l.Down.Spent(bandwidth.Peers, received)
}

// Bulk implements p2p.Shape.
func (l *Line) Bulk(ctx context.Context, n int) error { return l.bulk.Wait(ctx, bandwidth.Peers, n) }

// Total is all that came and went so far, in bytes.
func (l *Line) Total() (down, up int64) {
	return l.Down.Used(bandwidth.Sites) + l.Down.Used(bandwidth.Peers), l.Up.Used(bandwidth.Sites) + l.Up.Used(bandwidth.Peers)
}
