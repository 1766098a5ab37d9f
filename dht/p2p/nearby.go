package p2p

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/zeroconf/v2"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// Peers on one local network find each other by multicast DNS (RFC 6762) as instances of one
// service (RFC 6763), whose TXT record has their network and addresses. The records are untrusted:
// limited in number, and dialed before use like any address.
const (
	nearbyService = "_apoidea._udp"
	nearbyDomain  = "local"
	nearbyNetwork = "network="
	nearbyAddr    = "dnsaddr="
	// nearbyRound is how long a search listens before it starts again.
	nearbyRound = time.Minute
	// maxNearby is the number of instances accepted in a round; then the round ends.
	maxNearby = 64
	// announceCheck is the interval of checks for changed own addresses.
	announceCheck = 10 * time.Second
)

// Nearby queries the local network for peers of a network until ctx ends, and calls found for each,
// again in every round. found must not block for long.
func Nearby(ctx context.Context, network string, found func(peer.AddrInfo)) error {
	for ctx.Err() == nil {
		round, cancel := context.WithTimeout(ctx, nearbyRound)
		err := nearbyOnce(round, network, found)
		if err == nil {
			<-round.Done()
		}
		cancel()
		if err != nil {
			return fmt.Errorf("multicast DNS: %w", err)
		}
	}
	return nil
}

// nearbyOnce runs one round: until ctx ends, or maxNearby have answered.
func nearbyOnce(ctx context.Context, network string, found func(peer.AddrInfo)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	entries := make(chan *zeroconf.ServiceEntry)
	ended := make(chan error, 1)
	go func() { ended <- browse(ctx, entries) }()
	heard := 0
	for {
		select {
		case err := <-ended:
			return err
		case e, open := <-entries:
			switch {
			case !open:
				entries = nil // the search has ended
				continue
			case heard == maxNearby:
				cancel()
				continue
			}
			heard++
			if info, err := nearbyPeer(e.Text, network); err == nil {
				found(info)
			}
		}
	}
}

// browse searches over IPv4 and IPv6, or IPv4 only if there is no IPv6. It has closed entries when
// it returns, unless it could not begin.
func browse(ctx context.Context, entries chan *zeroconf.ServiceEntry) error {
	err := zeroconf.Browse(ctx, nearbyService, nearbyDomain, entries)
	if err != nil && ctx.Err() == nil {
		err = zeroconf.Browse(ctx, nearbyService, nearbyDomain, entries, zeroconf.SelectIPTraffic(zeroconf.IPv4))
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// nearbyPeer parses the TXT record of an instance.
func nearbyPeer(texts []string, network string) (peer.AddrInfo, error) {
	if !slices.Contains(texts, nearbyNetwork+network) {
		return peer.AddrInfo{}, errors.New("belongs to another network")
	}
	var addrs []ma.Multiaddr
	for _, t := range texts {
		text, ok := strings.CutPrefix(t, nearbyAddr)
		if !ok || len(addrs) == maxMetAddrs {
			continue
		}
		if a, err := ma.NewMultiaddr(text); err == nil && manet.IsThinWaist(a) && !isRelayed(a) {
			addrs = append(addrs, a)
		}
	}
	infos, err := peer.AddrInfosFromP2pAddrs(addrs...)
	switch {
	case err != nil:
		return peer.AddrInfo{}, err
	case len(infos) != 1 || len(infos[0].Addrs) == 0:
		return peer.AddrInfo{}, errors.New("expected addresses of exactly one peer")
	default:
		return infos[0], nil
	}
}

// Announce answers queries for peers on the local network until ctx ends, with the addresses that
// other machines may dial.
func (n *Net) Announce(ctx context.Context) error {
	tick := time.NewTicker(announceCheck)
	defer tick.Stop()
	var told []string
	var server *zeroconf.Server
	silence := func() {
		if server != nil {
			server.Shutdown()
			server = nil
		}
	}
	defer func() { silence() }()
	for {
		if addrs := Elsewhere(n.Addrs()); !slices.Equal(addrs, told) {
			silence()
			told = addrs
			var err error
			if server, err = n.announce(addrs); err != nil {
				return fmt.Errorf("multicast DNS: %w", err)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// announce starts a server for the addresses; nil if there are none.
func (n *Net) announce(addrs []string) (*zeroconf.Server, error) {
	texts := []string{nearbyNetwork + n.cfg.Network}
	var ips []string
	for _, text := range addrs[:min(len(addrs), maxMetAddrs)] {
		addr, err := ma.NewMultiaddr(text)
		if err != nil || isRelayed(addr) {
			continue
		}
		texts = append(texts, nearbyAddr+text)
		if ip, err := manet.ToIP(addr); err == nil && !slices.Contains(ips, ip.String()) {
			ips = append(ips, ip.String())
		}
	}
	if len(ips) == 0 {
		return nil, nil //nolint:nilnil // no other machine can dial this peer
	}
	name := strings.ToLower(rand.Text()) // the record has the peer's ID; the instance name must only be unique
	const port = 4001                    // a port is mandatory; the addresses have their own
	return zeroconf.RegisterProxy(name, nearbyService, nearbyDomain, port, name, ips, texts, nil)
}
