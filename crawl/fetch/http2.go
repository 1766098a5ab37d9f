package fetch

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// secured is the context key of the connection to use for HTTP/2.
type secured struct{}

// newHTTP2 returns the transport, which buffers at most FreeBody of a body: its own default is 4
// MiB a stream. It neither dials nor uses TLS: both were done before.
func newHTTP2() *http.Transport {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			nc, ok := ctx.Value(secured{}).(net.Conn)
			if !ok {
				return nil, errors.New("HTTP/2 without a connection")
			}
			return nc, nil
		},
		Protocols:              &protocols,
		HTTP2:                  &http.HTTP2Config{MaxReceiveBufferPerStream: FreeBody},
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
	}
}

// open reports whether another request may be sent over the HTTP/2 connection.
func (c *conn) open() bool { return c.h2.Available() > 0 }

var errNoStream = errors.New("server accepts no more requests on this connection")

// ask makes the request, or fails, where net/http would wait until the server allows one more.
func (c *conn) ask(req *http.Request) (*http.Response, error) {
	if !c.open() {
		return nil, errNoStream
	}
	return c.h2.RoundTrip(req)
}

// http2 makes the exchange over an HTTP/2 connection, which has no other stream at the time.
func (x *exchange) http2(c *conn, resp *Response) error {
	if !c.open() {
		c.broken = true
		return x.stale(c, errStale)
	}
	if err := x.permit(c); err != nil {
		return err
	}
	c.broken = true // until the exchange succeeds
	ctx, cancel := context.WithCancelCause(x.ctx)
	defer cancel(nil)
	config := &x.f.config
	before := c.meter.n.Load()
	c.meter.allow(2*maxHeader + headNoise)
	resp.Start = time.Now()
	watch := newWatch(ctx, pace{
		end: x.end, headEnd: resp.Start.Add(x.headWithin()), grace: minRateGrace, rate: config.lab.MinRate, track: x.track(c),
	}, cancel)
	defer watch.timer.Stop()

	res, err := c.ask(x.request2(ctx))
	if err != nil {
		if c.meter.noisy.Load() {
			return x.fail(PhaseHead, errNoise)
		}
		if cause := context.Cause(ctx); errors.Is(cause, errTimeout) {
			err = cause
		}
		return x.unanswered(c, err)
	}
	defer res.Body.Close()
	resp.TTFB = time.Since(resp.Start)
	resp.Status, resp.Proto, resp.Header = res.StatusCode, res.Proto, res.Header
	fields := resp.scratch.fields[:0]
	for _, name := range slices.Sorted(maps.Keys(res.Header)) {
		for _, v := range res.Header[name] {
			fields = append(fields, field{name, v})
		}
	}
	resp.scratch.fields = fields

	watch.pace.got, watch.pace.body = 0, time.Now()
	watch.body = res.Body
	watch.pace.track.left(res.ContentLength)
	watch.meter = c.meter
	if err := x.decode(watch, res.ContentLength, nil, resp); err != nil {
		return x.failBody(resp, err)
	}
	resp.Duration = time.Since(resp.Start)
	resp.WireBytes = c.meter.n.Load() - before
	resp.Held = watch.pace.track.held()
	s := resp.scratch
	s.response = appendResponseHead(s.response[:0], resp.Status, http.StatusText(resp.Status), s.fields, int64(len(resp.Body)), resp.ContentEncoding != "")
	resp.ResponseHead = s.response
	c.broken = resp.Truncated != "" || !c.open()
	return nil
}

// request2 returns the request for the HTTP/2 transport. An opaque URL keeps the path unchanged: it
// is not parsed or encoded again.
func (x *exchange) request2(ctx context.Context) *http.Request {
	t := x.target
	h := make(http.Header, len(x.req.Header)+4)
	maps.Copy(h, x.req.Header)
	maps.Copy(h, x.f.config.HostFields[t.key])
	h["User-Agent"] = []string{x.f.config.UserAgent}
	h["Accept"] = []string{accept(x.req)}
	h["Accept-Encoding"] = []string{acceptEncoding}
	if x.f.config.From != "" {
		h["From"] = []string{x.f.config.From}
	}
	req := &http.Request{
		Method: http.MethodGet,
		URL:    &url.URL{Scheme: "https", Host: t.authority, Opaque: "//" + t.authority + t.path},
		Host:   t.authority,
		Header: h,
	}
	return req.WithContext(ctx)
}

// watch cancels an HTTP/2 exchange that misses a deadline of its pace. Streams have no deadlines.
type watch struct {
	ctx    context.Context //nolint:containedctx // of the exchange; has the cause of its end
	pace   pace
	cancel context.CancelCauseFunc
	timer  *time.Timer
	body   io.Reader
	meter  *meter
}

func newWatch(ctx context.Context, p pace, cancel context.CancelCauseFunc) *watch {
	deadline, reason := p.next()
	return &watch{ctx: ctx, pace: p, cancel: cancel, timer: time.AfterFunc(time.Until(deadline), func() { cancel(reason) })}
}

// Read reads the body within the pace's deadlines.
func (w *watch) Read(p []byte) (int, error) {
	deadline, reason := w.pace.next()
	w.timer.Stop()
	w.timer = time.AfterFunc(time.Until(deadline), func() { w.cancel(reason) })
	n, err := w.body.Read(p)
	w.timer.Stop() // no timeout until the next read
	w.meter.most.Add(bodyNoise * int64(n))
	w.pace.came(n)
	if cause := context.Cause(w.ctx); err != nil && errors.Is(cause, errTimeout) {
		err = cause
	} else if err != nil && w.meter.noisy.Load() {
		err = errNoise
	}
	return n, err
}
