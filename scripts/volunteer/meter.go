package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tick is how finely bytes are told apart in time.
const tick = 10 * time.Millisecond

// meter counts the bytes of a server's connections: down when the peer's kernel has acknowledged
// them, since what the server's own only keeps is not on the line; up when the server reads them.
type meter struct {
	begun time.Time

	mu    sync.Mutex // guards the rest
	down  []int64    // by tick
	up    []int64
	conns map[*conn]struct{}
}

func newMeter() *meter { return &meter{begun: time.Now(), conns: make(map[*conn]struct{})} }

// run looks at all connections, tick by tick, until ctx ends.
func (m *meter) run(ctx context.Context) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	looked := time.Now()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		m.mu.Lock()
		all := slices.Collect(maps.Keys(m.conns))
		m.mu.Unlock()
		n := 0
		for _, c := range all {
			n += c.arrived()
		}
		now := time.Now()
		m.add(&m.down, looked, now, n)
		looked = now
	}
}

// add counts bytes that came between two moments, evenly: on a machine that is busy a look may come
// late, and what it finds did not all come at its moment.
func (m *meter) add(to *[]int64, from, until time.Time, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	first, last := int(from.Sub(m.begun)/tick), int(until.Sub(m.begun)/tick)
	for len(*to) <= last {
		*to = append(*to, 0)
	}
	spans := last - first + 1
	for i := range spans {
		(*to)[first+i] += int64(n*(i+1)/spans - n*i/spans)
	}
}

// between is what came down in a span.
func (m *meter) between(from, to time.Time) (down, up int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return sum(m.down, from.Sub(m.begun), to.Sub(m.begun)), sum(m.up, from.Sub(m.begun), to.Sub(m.begun))
}

func sum(list []int64, from, to time.Duration) (n int64) {
	for i := int(from / tick); i < min(int(to/tick), len(list)); i++ {
		n += list[max(i, 0)]
	}
	return n
}

// windows are all spans of a second within a longer one: the fullest, and the share of those above
// a bound.
func (m *meter) windows(from, to time.Time, bound int64) (most int64, above float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	first, last := int(from.Sub(m.begun)/tick), int(to.Sub(m.begun)/tick)
	list := make([]int64, max(last-first, 0))
	for i := range list {
		if j := first + i; j >= 0 && j < len(m.down) {
			list[i] = m.down[j]
		}
	}
	width := int(time.Second / tick)
	var in int64
	count, over := 0, 0
	for i, n := range list {
		in += n
		if i >= width {
			in -= list[i-width]
		}
		if i >= width-1 {
			count++
			if most = max(most, in); in > bound {
				over++
			}
		}
	}
	return most, float64(over) / float64(max(count, 1))
}

// lastByte is when the last byte of a span went either way.
func (m *meter) lastByte(from, to time.Time) time.Time {
	last := from
	for at := from; at.Before(to); at = at.Add(tick) {
		if down, up := m.between(at, at.Add(tick)); down+up > 0 {
			last = at.Add(tick)
		}
	}
	return last
}

// listener has the connections of a server counted.
type listener struct {
	net.Listener
	meter *meter
}

// sendBuffer is what the kernel may take of the server before the peer does, in bytes: as little as
// it lets one set.
const sendBuffer = 4 << 10

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil, fmt.Errorf("a connection of %T, want TCP", c)
	}
	_ = tcp.SetWriteBuffer(sendBuffer)
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil, err
	}
	k := &conn{Conn: tcp, raw: raw, meter: l.meter}
	l.meter.mu.Lock()
	defer l.meter.mu.Unlock()
	l.meter.conns[k] = struct{}{}
	return k, nil
}

type conn struct {
	net.Conn
	raw   syscall.RawConn
	meter *meter

	mu      sync.Mutex // guards counted
	counted int64
}

// arrived is how many bytes the peer's kernel has acknowledged since it was asked last. (What was
// written and is not kept any more would count the bytes of a long write all at its end.)
func (c *conn) arrived() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	var info *unix.TCPInfo
	if err := c.raw.Control(func(fd uintptr) { info, _ = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }); err != nil || info == nil {
		return 0
	}
	n := int64(info.Bytes_acked) - c.counted // no connection here carries that much
	c.counted += n
	return int(n)
}

// Close ends the counting with what has arrived until then.
func (c *conn) Close() error {
	now := time.Now()
	c.meter.add(&c.meter.down, now, now, c.arrived())
	c.meter.mu.Lock()
	delete(c.meter.conns, c)
	c.meter.mu.Unlock()
	return c.Conn.Close()
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	now := time.Now()
	c.meter.add(&c.meter.up, now, now, n)
	return n, err
}

// peerBytes is what the kernel has counted on the TCP connections of a process, each under its two
// ends, without those to or from the given port.
func peerBytes(ctx context.Context, pid int, without string) (map[string]int64, error) {
	out, err := exec.CommandContext(ctx, "ss", "-tinpHO", "state", "established").Output()
	if err != nil {
		return nil, fmt.Errorf("ss: %w", err)
	}
	all := make(map[string]int64)
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		fields := strings.Fields(line)
		if !strings.Contains(line, fmt.Sprintf("pid=%d,", pid)) || len(fields) < 4 {
			continue
		}
		if strings.HasSuffix(fields[2], without) || strings.HasSuffix(fields[3], without) {
			continue
		}
		var n int64
		for _, f := range fields {
			for _, name := range []string{"bytes_sent:", "bytes_received:"} {
				if v, ok := strings.CutPrefix(f, name); ok {
					b, _ := strconv.ParseInt(v, 10, 64)
					n += b
				}
			}
		}
		all[fields[2]+" "+fields[3]] = n
	}
	return all, lines.Err()
}

// grown is by how much the counts of connections grew; those that are new count whole.
func grown(before, after map[string]int64) (n int64) {
	for name, b := range after {
		n += max(b-before[name], 0)
	}
	return n
}

// cpuTime is the processor time of a process so far.
func cpuTime(pid int) (time.Duration, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat: too short", pid)
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	const hertz = 100
	return time.Duration(user+system) * time.Second / hertz, nil
}

// resident is the largest resident memory of a process so far, in bytes.
func resident(pid int) (int64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(raw)) {
		if v, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.ParseInt(strings.Fields(v)[0], 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("/proc/%d/status: no VmHWM", pid)
}
