package latency

import (
	"context"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"time"

	"github.com/apoidea/apoidea/node/loop"
)

const (
	// MaxPeers is the number of stands for peers.
	MaxPeers = 250
	// maxRows is the number of stands for rows.
	maxRows = 1 << 15
)

var (
	// peerStands are the addresses of peers; that of row 0 ends in 1.
	peerStands = netip.MustParsePrefix("127.0.2.0/24")
	// siteStands are the addresses of named sites.
	siteStands = netip.MustParsePrefix("127.128.0.0/9")
	// home is the real address of named sites.
	home = netip.AddrFrom4([4]byte{127, 0, 0, 1})
)

// Distances is a matrix of round trip times. A negative one is unknown and means no delay.
type Distances interface {
	Size() int                  // the number of rows
	RTT(i, j int) time.Duration // the round trip time between two rows
}

// Plan maps peers and sites to rows. It is immutable and safe for concurrent use.
type Plan struct {
	net        Distances
	row, peers int
}

// New returns the plan of the peer at row, with the number of rows for peers. A peer added later
// may be at a row of the sites.
func New(net Distances, row, peers int) (*Plan, error) {
	switch n := net.Size(); {
	case n < 2 || n > maxRows:
		return nil, fmt.Errorf("%d rows: must be between 2 and %d", n, maxRows)
	case peers < 1 || peers > MaxPeers || peers >= n:
		return nil, fmt.Errorf("%d rows for peers: must be at least 1, at most %d, and fewer than the %d of the matrix, which sites need too", peers, MaxPeers, n)
	case row < 0 || row >= min(n, MaxPeers):
		return nil, fmt.Errorf("row %d: must be between 0 and %d", row, min(n, MaxPeers)-1)
	}
	return &Plan{net: net, row: row, peers: peers}, nil
}

// Listen returns the listen address of this peer.
func (p *Plan) Listen() netip.Addr {
	at := peerStands.Addr().As4()
	at[3] = byte(p.row + 1) // at most MaxPeers
	return netip.AddrFrom4(at)
}

// SiteOf returns the row of a site by its name or the text of its address, without a port.
func (p *Plan) SiteOf(name string) int {
	h := fnv.New64a()
	h.Write([]byte(name))
	return p.peers + int(h.Sum64()%uint64(p.net.Size()-p.peers)) // within the matrix
}

// Stand returns the address of the named sites at a row.
func Stand(row int) netip.Addr {
	return netip.AddrFrom4([4]byte{127, byte(128 + row>>8), byte(row), 1}) // at most maxRows
}

// SiteRow returns the row of the site at a loopback address; false for other addresses.
func (p *Plan) SiteRow(addr netip.Addr) (row int, ok bool) {
	addr = addr.Unmap()
	switch {
	case !addr.IsLoopback():
		return 0, false
	case siteStands.Contains(addr):
		b := addr.As4()
		row = int(b[1]-128)<<8 | int(b[2])
	default:
		row = p.SiteOf(addr.String())
	}
	return row, row < p.net.Size()
}

// peerRow returns the row of the peer at a stand; false for other addresses.
func (p *Plan) peerRow(addr netip.Addr) (row int, ok bool) {
	addr = addr.Unmap()
	if !peerStands.Contains(addr) {
		return 0, false
	}
	row = int(addr.As4()[3]) - 1
	return row, row >= 0 && row < p.net.Size()
}

// RTT returns the round trip time between this peer and a row.
func (p *Plan) RTT(row int) time.Duration { return max(p.net.RTT(p.row, row), 0) }

// Dial connects to a site with dial and adds latency.
func (p *Plan) Dial(ctx context.Context, network, address string, dial func(ctx context.Context, network, address string) (net.Conn, error)) (net.Conn, error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return dial(ctx, network, address)
	}
	row, ok := p.SiteRow(at.Addr())
	if !ok {
		return dial(ctx, network, address)
	}
	if siteStands.Contains(at.Addr().Unmap()) {
		address = netip.AddrPortFrom(home, at.Port()).String()
	}
	begun := time.Now()
	c, err := dial(ctx, network, address)
	if err != nil {
		if serr := loop.Sleep(ctx, time.Until(begun.Add(p.RTT(row)))); serr != nil { // a refusal has the delay too
			return nil, serr
		}
		return nil, err
	}
	return p.delay(ctx, c, row, begun)
}

// Dialled adds latency to a connection to a peer that was just dialed: it waits for the round trip
// of the connect, and returns a connection with a delay. If ctx ends first, it closes the
// connection.
func (p *Plan) Dialled(ctx context.Context, c net.Conn) (net.Conn, error) {
	at, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return c, nil //nolint:nilerr // not an address of a plan
	}
	row, ok := p.peerRow(at.Addr())
	if !ok {
		return c, nil // it has another listen address
	}
	return p.delay(ctx, c, row, time.Now())
}

func (p *Plan) delay(ctx context.Context, c net.Conn, row int, begun time.Time) (net.Conn, error) {
	rtt := p.RTT(row)
	if rtt == 0 {
		return c, nil
	}
	if err := loop.Sleep(ctx, time.Until(begun.Add(rtt))); err != nil {
		_ = c.Close()
		return nil, err
	}
	return newLine(c, rtt/2), nil
}

// Resolver resolves names, as in crawl/fetch.
type Resolver interface {
	// Lookup returns the addresses of a name.
	Lookup(ctx context.Context, host string) ([]netip.Addr, error)
}

// Names returns a resolver that maps loopback names to the stands of their sites, and passes other
// names to beneath.
func (p *Plan) Names(beneath Resolver) Resolver { return names{p, beneath} }

type names struct {
	plan    *Plan
	beneath Resolver
}

// Lookup implements Resolver.
func (n names) Lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	addrs, err := n.beneath.Lookup(ctx, host)
	if err != nil || len(addrs) == 0 || addrs[0] != home {
		return addrs, err
	}
	return []netip.Addr{Stand(n.plan.SiteOf(host))}, nil
}
