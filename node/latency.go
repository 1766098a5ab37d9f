package node

import (
	"context"
	"net"
	"strings"

	"github.com/apoidea/apoidea/crawl/fetch"
)

// standing is where a peer with emulated distances listens, so that others know by its address how
// far it is: what it listened at before, or else any port of its stand. QUIC is not delayed, so it
// is not offered. Without such distances it is what it was before.
func (c *Config) standing(before []string) []string {
	if c.Latency == nil {
		return before
	}
	stand := "/ip4/" + c.Latency.Listen().String() + "/tcp/"
	if len(before) == 1 && strings.HasPrefix(before[0], stand) {
		return before
	}
	return []string{stand + "0"}
}

// dialer makes connections from where fetches come from.
func (c *Config) dialer() *net.Dialer {
	dialer := &net.Dialer{KeepAlive: -1}
	if c.FetchFrom.IsValid() {
		dialer.LocalAddr = &net.TCPAddr{IP: c.FetchFrom.AsSlice(), Zone: c.FetchFrom.Zone()}
	}
	return dialer
}

// distant puts the emulated distances, if there are any, between a fetcher and the sites.
func (c *Config) distant(f *fetch.Config) {
	if c.Latency == nil {
		return
	}
	dialer := c.dialer()
	f.Resolver = c.Latency.Names(f.Resolver)
	f.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		return c.Latency.Dial(ctx, network, address, dialer.DialContext)
	}
}
