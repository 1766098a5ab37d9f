package node

import (
	"context"
	"net"
	"strings"

	"github.com/apoidea/apoidea/crawl/fetch"
)

// standing returns the listen addresses of a peer with emulated latency, so that others derive the
// latency from its address: the previous ones, or any port of its emulated host. QUIC is not
// delayed, so it is not offered. Without emulation it returns before.
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

// dialer returns a dialer from the source address of fetches.
func (c *Config) dialer() *net.Dialer {
	dialer := &net.Dialer{KeepAlive: -1}
	if c.FetchFrom.IsValid() {
		dialer.LocalAddr = &net.TCPAddr{IP: c.FetchFrom.AsSlice(), Zone: c.FetchFrom.Zone()}
	}
	return dialer
}

// distant adds the emulated latency, if any, between a fetcher and the sites.
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
