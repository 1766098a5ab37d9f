package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"
)

// maxProbeHead bounds the bytes read of the answer to a HEAD probe, up to the end of the status
// line.
const maxProbeHead = 4 << 10

// Locate returns the addresses that a fetch from host (host or host:port) would try, in their
// order, with the scheme's port where none is given. The guard admits them.
func (f *Fetcher) Locate(ctx context.Context, host, scheme string) ([]netip.AddrPort, error) {
	t, addrs, err := f.locate(ctx, host, scheme)
	if err != nil {
		return nil, err
	}
	out := make([]netip.AddrPort, len(addrs))
	for i, a := range addrs {
		out[i] = netip.AddrPortFrom(a, t.port)
	}
	return out, nil
}

func (f *Fetcher) locate(ctx context.Context, host, scheme string) (*target, []netip.Addr, error) {
	t, err := parseTarget(scheme + "://" + host + "/")
	if err != nil {
		return nil, nil, fmt.Errorf("probe %s: %w", host, err)
	}
	addrs, err := f.addrs(ctx, &t)
	if err != nil {
		return nil, nil, fail(ctx, t.key, PhaseResolve, err)
	}
	if addrs, err = f.admitted(addrs); err != nil {
		return nil, nil, fail(ctx, t.key, PhaseConnect, err)
	}
	return &t, addrs, nil
}

// Probe measures the duration of a TCP connect to host (host or host:port), with the scheme's port
// where none is given. It sends no request and applies the guard. It returns the first address that
// answered. Resolving the name is not measured.
func (f *Fetcher) Probe(ctx context.Context, host, scheme string) (time.Duration, netip.Addr, error) {
	t, addrs, err := f.locate(ctx, host, scheme)
	if err != nil {
		return 0, netip.Addr{}, err
	}
	a, err := f.race(ctx, t, addrs, time.Now().Add(connectTimeout))
	if err != nil {
		return 0, netip.Addr{}, fail(ctx, t.key, PhaseConnect, err)
	}
	_ = a.conn.Close()
	return a.took, a.addr, nil
}

// Head is the result of a HEAD probe.
type Head struct {
	// RTT is the time from the request's last byte to the answer's first: a round trip and the
	// server's processing, without connecting.
	RTT    time.Duration
	Addr   netip.Addr // address that answered
	Status int        // HTTP status
}

// ProbeHead measures how long host takes to answer HEAD /, on a separate connection and over
// HTTP/1.1. The caller must check robots.txt and politeness. Nothing is sent once ctx has ended.
func (f *Fetcher) ProbeHead(ctx context.Context, host, scheme string) (*Head, error) {
	t, addrs, err := f.locate(ctx, host, scheme)
	if err != nil {
		return nil, err
	}
	end := time.Now().Add(f.config.lab.HeaderTimeout)
	if d, ok := ctx.Deadline(); ok {
		end = earlier(end, d)
	}
	c, err := f.connect(ctx, t, addrs, end)
	if err != nil {
		return nil, fail(ctx, t.key, PhaseConnect, err)
	}
	defer c.close()
	if t.https {
		if _, err := f.greet(ctx, c, t, end, http11); err != nil {
			return nil, fail(ctx, t.key, PhaseTLS, err)
		}
	}
	stop := context.AfterFunc(ctx, c.abort)
	defer stop()
	if err := errors.Join(ctx.Err(), c.SetDeadline(end)); err != nil {
		return nil, fail(ctx, t.key, PhaseRequest, err)
	}
	h := &Head{Addr: c.addr.Addr()}
	if h.RTT, h.Status, err = f.headOver(c, t); err != nil {
		return nil, fail(ctx, t.key, PhaseHead, err)
	}
	return h, nil
}

// headOver sends the request and reads the status line.
func (f *Fetcher) headOver(c net.Conn, t *target) (time.Duration, int, error) {
	head := "HEAD " + t.path + " HTTP/1.1\r\nHost: " + t.authority + f.fields + "Accept: " + DefaultAccept + "\r\nConnection: close\r\n\r\n"
	if _, err := io.WriteString(c, head); err != nil {
		return 0, 0, err
	}
	sent := time.Now()
	var rtt time.Duration
	buf := make([]byte, 0, maxProbeHead)
	for {
		n, err := c.Read(buf[len(buf):cap(buf)])
		if rtt == 0 {
			rtt = time.Since(sent)
		}
		buf = buf[:len(buf)+n]
		line, _, whole := bytes.Cut(buf, []byte("\n"))
		switch {
		case whole:
			var resp Response
			_, err := parseStatus(string(bytes.TrimSuffix(line, []byte("\r"))), &resp)
			return rtt, resp.Status, err
		case errors.Is(err, io.EOF):
			return 0, 0, io.ErrUnexpectedEOF
		case err != nil:
			return 0, 0, err
		case len(buf) == cap(buf):
			return 0, 0, fmt.Errorf("status line exceeds %d bytes", maxProbeHead)
		}
	}
}
