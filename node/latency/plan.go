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
	// MaxPeers is how many peers have a stand.
	MaxPeers = 250
	// maxRows is how many rows have a stand.
	maxRows = 1 << 15
)

var (
	// peerStands are the addresses of peers: that of row 0 ends in 1.
	peerStands = netip.MustParsePrefix("127.0.2.0/24")
	// siteStands are the addresses of named sites.
	siteStands = netip.MustParsePrefix("127.128.0.0/9")
	// home is where the servers of named sites really are.
	home = netip.AddrFrom4([4]byte{127, 0, 0, 1})
)

// Distances is a matrix of round trips. A negative one is not known and stands for no delay.
type Distances interface {
	Size() int                  // the number of rows
	RTT(i, j int) time.Duration // the round trip between two rows
}

// Plan says where this peer, the others and the sites stand. It is not changed, and safe for
// concurrent use.
type Plan struct {
	net        Distances
	row, peers int
}

// New returns the plan of the peer at a row, of as many rows as there are for peers. A peer that
// came later may be at a row of the sites.
func New(net Distances, row, peers int) (*Plan, error) {
	switch n := net.Size(); {
	case n < 2 || n > maxRows:
		return nil, fmt.Errorf("%d rows: must be between 2 and %d", n, maxRows)
	case peers < 1 || peers > MaxPeers || peers >= n:
		return nil, fmt.Errorf("%d rows for peers: must be at least 1, at most %d, and fewer than the %d of the matrix, as sites take the rest", peers, MaxPeers, n)
	case row < 0 || row >= min(n, MaxPeers):
		return nil, fmt.Errorf("row %d: must be between 0 and %d", row, min(n, MaxPeers)-1)
	}
	return &Plan{net: net, row: row, peers: peers}, nil
}

// Listen is where this peer listens.
func (p *Plan) Listen() netip.Addr {
	at := peerStands.Addr().As4()
	at[3] = byte(p.row + 1) // at most MaxPeers
	return netip.AddrFrom4(at)
}

// SiteOf is the row of a site by its name, or the text of its address, without a port.
func (p *Plan) SiteOf(name string) int {
	h := fnv.New64a()
	h.Write([]byte(name))
	return p.peers + int(h.Sum64()%uint64(p.net.Size()-p.peers)) // within the matrix
}

// Stand is the address of the named sites at a row.
func Stand(row int) netip.Addr {
	return netip.AddrFrom4([4]byte{127, byte(128 + row>>8), byte(row), 1}) // at most maxRows
}

// SiteRow is the row of the site at a loopback address; false for other addresses.
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

// peerRow is the row of the peer at a stand; false for other addresses.
func (p *Plan) peerRow(addr netip.Addr) (row int, ok bool) {
	addr = addr.Unmap()
	if !peerStands.Contains(addr) {
		return 0, false
	}
	row = int(addr.As4()[3]) - 1
	return row, row >= 0 && row < p.net.Size()
}

// RTT is the round trip between this peer and a row.
func (p *Plan) RTT(row int) time.Duration { return max(p.net.RTT(p.row, row), 0) }

// Dial connects to a site by way of dial, with the distance in between.
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
		if serr := loop.Sleep(ctx, time.Until(begun.Add(p.RTT(row)))); serr != nil { // a refusal comes from there too
			return nil, serr
		}
		return nil, err
	}
	return p.delay(ctx, c, row, begun)
}

// Dialled puts the distance into a connection to a peer that this one has just dialled: it waits
// for a round trip, as the connect would have taken it, and returns a connection that delays. If
// ctx ends first the connection is closed.
func (p *Plan) Dialled(ctx context.Context, c net.Conn) (net.Conn, error) {
	at, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return c, nil //nolint:nilerr // no address of a plan
	}
	row, ok := p.peerRow(at.Addr())
	if !ok {
		return c, nil // it was told where to listen
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

// Resolver finds the addresses of a name, as that of crawl/fetch.
type Resolver interface {
	// Lookup returns the addresses of a name.
	Lookup(ctx context.Context, host string) ([]netip.Addr, error)
}

// Names answers names of loopback with the stands of their sites; other answers are those of the
// resolver beneath.
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
