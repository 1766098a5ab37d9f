package limits

import (
	"context"
	"net"

	"github.com/apoidea/apoidea/crawl/bandwidth"
	"github.com/apoidea/apoidea/dht/p2p"
)

// bulkParts fifths of the upload limit is the maximum for handoffs and archive transfers. The rest
// is for leases, reports and ring maintenance, which share their connections.
const bulkParts = 2

// Line limits all internet traffic of the peer: sites and peers share its limits.
type Line struct {
	*bandwidth.Line
	bulk *bandwidth.Limiter
}

var _ p2p.Shape = (*Line)(nil)

// NewLine returns a line without limits.
func NewLine() *Line {
	return &Line{Line: bandwidth.NewLine(0), bulk: bandwidth.NewLimiter(0)}
}

// setRates changes the limits, in bytes per second; 0 is none.
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

// Total returns the bytes received and sent so far.
func (l *Line) Total() (down, up int64) {
	return l.Down.Used(bandwidth.Sites) + l.Down.Used(bandwidth.Peers), l.Up.Used(bandwidth.Sites) + l.Up.Used(bandwidth.Peers)
}
