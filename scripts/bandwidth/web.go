package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// bin is how finely bytes are told apart in time.
	bin = 5 * time.Millisecond
	// pages of a server, each of which links to the next few; pageBytes is their mean.
	pages     = 4000
	links     = 4
	pageBytes = 12_000
	// sendBuffer is what the kernel may take of a server before the peer does: as little as it lets
	// one set.
	sendBuffer = 4 << 10
	// slice is how long a server's write lasts at its rate.
	slice = 10 * time.Millisecond
)

// meter counts the bytes that the peer's kernel has acknowledged to all servers: what the servers'
// own kernels only keep does not count.
type meter struct {
	begun time.Time

	mu    sync.Mutex // guards the rest
	bytes []int64    // by bin
	conns map[*conn]struct{}
}

func newMeter() *meter { return &meter{begun: time.Now(), conns: make(map[*conn]struct{})} }

// run looks at all connections, bin by bin, until ctx ends.
func (m *meter) run(ctx context.Context) {
	tick := time.NewTicker(bin)
	defer tick.Stop()
	looked := time.Since(m.begun)
	for ctx.Err() == nil {
		m.mu.Lock()
		n := int64(0)
		for c := range m.conns {
			n += c.arrived()
		}
		m.mu.Unlock()
		now := time.Since(m.begun)
		m.add(looked, now, n)
		looked = now
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// add counts bytes that came between two looks, evenly: on a machine that is busy a look may come
// late, and what it finds did not all come at its moment.
func (m *meter) add(from, to time.Duration, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	first, last := int(from/bin), int(to/bin)
	for len(m.bytes) <= last {
		m.bytes = append(m.bytes, 0)
	}
	spans := int64(last - first + 1)
	for i := range spans {
		m.bytes[first+int(i)] += n*(i+1)/spans - n*i/spans
	}
}

// windows looks at all spans of a second between two moments: the mean over the cap, the share
// above 1.02 of it, and the fullest.
func (m *meter) windows(from, to time.Duration, limit int64) (use, above, most float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	width := int(time.Second / bin)
	var in, all int64
	count, over := 0, 0
	for i := int(from / bin); i < min(int(to/bin), len(m.bytes)); i++ {
		in += m.bytes[i]
		all += m.bytes[i]
		if i < int(from/bin)+width-1 {
			continue
		}
		count++
		part := float64(in) / float64(limit)
		if most = max(most, part); part > 1.02 {
			over++
		}
		in -= m.bytes[i-width+1]
	}
	return float64(all) / (to - from).Seconds() / float64(limit), float64(over) / float64(max(count, 1)), most
}

// serve starts the servers, at 127.0.2.1 and on, until ctx ends, and returns a seed of each.
func serve(ctx context.Context, m *meter, servers int, median float64, seed uint64) (seeds []string, err error) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	go m.run(ctx)
	var lc net.ListenConfig
	for i := range servers {
		l, err := lc.Listen(ctx, "tcp", fmt.Sprintf("127.0.2.%d:0", i+1))
		if err != nil {
			return nil, err
		}
		s := &site{rate: median * math.Exp(0.9*rnd.NormFloat64()), think: time.Duration(20+rnd.IntN(100)) * time.Millisecond, seed: seed<<16 + uint64(i)}
		srv := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
		go func() { _ = srv.Serve(listener{l, m}) }()
		context.AfterFunc(ctx, func() { _ = srv.Close() })
		seeds = append(seeds, fmt.Sprintf("http://%s/p/0", l.Addr()))
	}
	return seeds, nil
}

// site is a web server that thinks and then gives its pages at its rate.
type site struct {
	rate  float64 // bytes a second
	think time.Duration
	seed  uint64
}

// ServeHTTP gives a page.
func (s *site) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	n, err := strconv.Atoi(req.URL.Path[min(len(req.URL.Path), len("/p/")):])
	if err != nil || n < 0 || n >= pages {
		http.NotFound(rw, req)
		return
	}
	time.Sleep(s.think)
	rnd := rand.New(rand.NewPCG(s.seed, uint64(n)))
	size := int(pageBytes * math.Exp(0.5*rnd.NormFloat64()-0.125))
	page := fmt.Appendf(nil, "<!doctype html><title>%d of %d</title>", n, s.seed)
	for i := range links {
		page = fmt.Appendf(page, "<a href=/p/%d>on</a> ", links*n+i+1)
	}
	for len(page) < size {
		page = fmt.Appendf(page, "%x ", rnd.Uint64())
	}
	rw.Header().Set("Content-Type", "text/html")
	rw.Header().Set("Content-Length", strconv.Itoa(len(page)))
	flush := http.NewResponseController(rw)
	part := max(int(s.rate*slice.Seconds()), 256)
	next := time.Now()
	for len(page) > 0 {
		k := min(part, len(page))
		if _, err := rw.Write(page[:k]); err != nil || flush.Flush() != nil {
			return
		}
		page = page[k:]
		next = next.Add(time.Duration(float64(k) / s.rate * float64(time.Second)))
		if late := time.Since(next); late > 0 {
			next = next.Add(late)
		}
		time.Sleep(time.Until(next))
	}
}

// listener has what the servers write counted.
type listener struct {
	net.Listener
	meter *meter
}

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	tcp := nc.(*net.TCPConn) // it listens at TCP
	_ = tcp.SetWriteBuffer(sendBuffer)
	c := &conn{TCPConn: tcp, meter: l.meter}
	if c.raw, err = tcp.SyscallConn(); err != nil {
		return nil, err
	}
	l.meter.mu.Lock()
	defer l.meter.mu.Unlock()
	l.meter.conns[c] = struct{}{}
	return c, nil
}

type conn struct {
	*net.TCPConn
	raw     syscall.RawConn
	meter   *meter
	counted int64 // by the meter
}

// Close ends the counting.
func (c *conn) Close() error {
	c.meter.mu.Lock()
	delete(c.meter.conns, c)
	c.meter.mu.Unlock()
	return c.TCPConn.Close()
}

// arrived is how many bytes the peer's kernel has acknowledged since it was asked last.
func (c *conn) arrived() int64 {
	var info *unix.TCPInfo
	if err := c.raw.Control(func(fd uintptr) { info, _ = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }); err != nil || info == nil {
		return 0
	}
	n := int64(info.Bytes_acked) - c.counted // no connection here carries that much
	c.counted += n
	return n
}
