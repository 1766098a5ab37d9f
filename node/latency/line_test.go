package latency

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"
)

// between runs fn in a bubble with both ends of a connection, the first of them behind a one-way
// delay.
func between(t *testing.T, oneWay time.Duration, fn func(t *testing.T, near, far net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a, far := net.Pipe()
		near := newLine(a, oneWay)
		fn(t, near, far)
		_ = near.Close()
		_ = far.Close()
		time.Sleep(time.Minute) // the bubble's: what a line has started is over by then
	})
}

func TestLineDelaysEachWay(t *testing.T) {
	between(t, 50*time.Millisecond, func(t *testing.T, near, far net.Conn) {
		begun := time.Now()
		var group errgroup.Group
		group.Go(func() error { // a server that thinks for 7 ms
			buf := make([]byte, 4)
			if _, err := io.ReadFull(far, buf); err != nil {
				return err
			}
			if got := time.Since(begun); got != 50*time.Millisecond {
				t.Errorf("the request arrived after %v, want 50ms", got)
			}
			time.Sleep(7 * time.Millisecond)
			_, err := far.Write([]byte("pong"))
			return err
		})
		if _, err := near.Write([]byte("ping")); err != nil || time.Since(begun) != 0 {
			t.Errorf("a write took %v: %v", time.Since(begun), err)
		}
		buf := make([]byte, 4)
		if _, err := io.ReadFull(near, buf); err != nil || string(buf) != "pong" {
			t.Errorf("read %q: %v", buf, err)
		}
		if got := time.Since(begun); got != 107*time.Millisecond {
			t.Errorf("the answer came after %v, want a round trip and 7ms", got)
		}
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// TestLineKeepsOrderAndPace: many megabytes in pieces of all sizes arrive as they were written, all
// of them one delay later, since it is a queue and not a pause for each write.
func TestLineKeepsOrderAndPace(t *testing.T) {
	between(t, 80*time.Millisecond, func(t *testing.T, near, far net.Conn) {
		const total = 3 << 20
		data := make([]byte, total)
		rnd := rand.New(rand.NewPCG(1, 2))
		for i := range data {
			data[i] = byte(rnd.Uint32())
		}
		for _, dir := range []struct {
			name     string
			from, to net.Conn
		}{{"out", near, far}, {"in", far, near}} {
			begun := time.Now()
			var group errgroup.Group
			group.Go(func() error {
				for rest := data; len(rest) > 0; {
					n := min(1+rnd.IntN(9000), len(rest))
					if _, err := dir.from.Write(rest[:n]); err != nil {
						return err
					}
					rest = rest[n:]
				}
				return nil
			})
			got := make([]byte, total)
			if _, err := io.ReadFull(dir.to, got); err != nil {
				t.Fatal(err)
			}
			if err := group.Wait(); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%s: what arrived is not what was written (%v)", dir.name, err)
			}
			if took := time.Since(begun); took != 80*time.Millisecond {
				t.Errorf("%s: %v for all of it, want one delay", dir.name, took)
			}
		}
	})
}

func TestLineBoundsWhatIsUnderWay(t *testing.T) {
	between(t, 50*time.Millisecond, func(t *testing.T, near, _ net.Conn) {
		if err := near.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		n, err := near.Write(make([]byte, 2*underWay))
		if !errors.Is(err, os.ErrDeadlineExceeded) || n < underWay || n > underWay+readSize {
			t.Errorf("wrote %d of %d: %v, want the bound and a deadline", n, 2*underWay, err)
		}
	})
}

func TestLineDeadlines(t *testing.T) {
	between(t, 50*time.Millisecond, func(t *testing.T, near, far net.Conn) {
		buf := make([]byte, 8)
		begun := time.Now()
		_ = near.SetReadDeadline(begun.Add(20 * time.Millisecond))
		if _, err := near.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) != 20*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
		_ = near.SetReadDeadline(time.Time{})
		if _, err := far.Write([]byte("late")); err != nil {
			t.Fatal(err)
		}
		if n, err := near.Read(buf); err != nil || string(buf[:n]) != "late" {
			t.Errorf("behind a deadline that was taken away: %q, %v", buf[:n], err)
		}
		// A deadline that is moved into the past ends a read under way.
		moved := make(chan struct{})
		time.AfterFunc(time.Millisecond, func() {
			_ = near.SetDeadline(time.Unix(1, 0))
			close(moved)
		})
		if _, err := near.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
		<-moved // the read ends before the deadline of writes is set
		if _, err := near.Write(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
	})
}

func TestLineEnds(t *testing.T) {
	t.Run("what was written before Close arrives", func(t *testing.T) {
		between(t, 50*time.Millisecond, func(t *testing.T, near, far net.Conn) {
			_, _ = near.Write([]byte("last words"))
			begun := time.Now()
			_ = near.Close()
			if time.Since(begun) != 0 {
				t.Errorf("Close took %v", time.Since(begun))
			}
			got, err := io.ReadAll(far)
			if err != nil || string(got) != "last words" {
				t.Errorf("%q, %v", got, err)
			}
			if _, err := near.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
			if _, err := near.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		})
	})
	t.Run("the far end comes behind what it sent", func(t *testing.T) {
		between(t, 50*time.Millisecond, func(t *testing.T, near, far net.Conn) {
			begun := time.Now()
			_, _ = far.Write([]byte("bye"))
			_ = far.Close()
			got, err := io.ReadAll(near)
			if err != nil || string(got) != "bye" || time.Since(begun) != 50*time.Millisecond {
				t.Errorf("%q after %v: %v", got, time.Since(begun), err)
			}
		})
	})
}

// grid is a matrix in which rows i and j are (i+j) ms apart.
type grid int

func (g grid) Size() int                  { return int(g) }
func (g grid) RTT(i, j int) time.Duration { return time.Duration(i+j) * time.Millisecond }

func TestPlanStands(t *testing.T) {
	p, err := New(grid(600), 3, 8)
	if err != nil {
		t.Fatal(err)
	}
	if p.Listen() != netip.MustParseAddr("127.0.2.4") {
		t.Errorf("row 3 listens at %s", p.Listen())
	}
	used := make(map[int]bool)
	for i := range 2000 {
		row := p.SiteOf("h" + time.Duration(i).String())
		if row < 8 || row >= 600 {
			t.Fatalf("a site at row %d", row)
		}
		used[row] = true
		if back, ok := p.SiteRow(Stand(row)); !ok || back != row {
			t.Fatalf("row %d has the address %s, which is row %d", row, Stand(row), back)
		}
	}
	if len(used) < 500 {
		t.Errorf("2000 names on %d of 592 rows", len(used))
	}
	tests := map[string]struct {
		addr string
		row  int
		ok   bool
	}{
		"a stand":                      {"127.129.44.1", 300, true},
		"beyond the matrix":            {"127.255.0.1", 0, false},
		"loopback by its text":         {"127.0.0.1", p.SiteOf("127.0.0.1"), true},
		"mapped":                       {"::ffff:127.0.0.1", p.SiteOf("127.0.0.1"), true},
		"of the sixth version":         {"::1", p.SiteOf("::1"), true},
		"the rest of the world is not": {"192.0.2.1", 0, false},
	}
	for name, tt := range tests {
		if row, ok := p.SiteRow(netip.MustParseAddr(tt.addr)); ok != tt.ok || ok && row != tt.row {
			t.Errorf("%s: row %d, %v; want %d, %v", name, row, ok, tt.row, tt.ok)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for name, tt := range map[string]struct{ size, row, peers int }{
		"no site":        {8, 0, 8},
		"no peer":        {8, 0, 0},
		"outside":        {8, 8, 4},
		"too many peers": {1000, 0, 251},
		"no stand":       {1000, 250, 100},
		"too large":      {maxRows + 1, 0, 4},
	} {
		if _, err := New(grid(tt.size), tt.row, tt.peers); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// listen serves connections that answer each byte with itself, and returns the port.
func listen(t *testing.T) uint16 {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c) }()
		}
	}()
	return netip.MustParseAddrPort(l.Addr().String()).Port()
}

// TestDial: a site's stand is dialled as what serves it, and neither connect nor answer comes
// before its time.
func TestDial(t *testing.T) {
	p, err := New(grid(600), 20, 30)
	if err != nil {
		t.Fatal(err)
	}
	var dialled string
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		dialled = address
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	port := listen(t)
	begun := time.Now()
	c, err := p.Dial(t.Context(), "tcp", netip.AddrPortFrom(Stand(40), port).String(), dial)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if took := time.Since(begun); took < 60*time.Millisecond || dialled != netip.AddrPortFrom(home, port).String() {
		t.Errorf("connected to %s in %v, want at least 60ms", dialled, took)
	}
	begun = time.Now()
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil || time.Since(begun) < 60*time.Millisecond {
		t.Errorf("answer after %v: %v", time.Since(begun), err)
	}
	begun = time.Now()
	if _, err := p.Dial(t.Context(), "tcp", netip.AddrPortFrom(Stand(40), 1).String(), dial); err == nil || time.Since(begun) < 60*time.Millisecond {
		t.Errorf("refused after %v: %v", time.Since(begun), err)
	}
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := p.Dial(short, "tcp", netip.AddrPortFrom(Stand(500), port).String(), dial); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a connect that takes longer than its context: %v", err)
	}
}

type fixed []netip.Addr

func (f fixed) Lookup(context.Context, string) ([]netip.Addr, error) { return f, nil }

func TestNames(t *testing.T) {
	p, err := New(grid(600), 0, 8)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ beneath, want string }{
		"of this machine": {"127.0.0.1", Stand(p.SiteOf("a.example")).String()},
		"of its own":      {"127.0.0.9", "127.0.0.9"},
		"elsewhere":       {"192.0.2.1", "192.0.2.1"},
	} {
		got, err := p.Names(fixed{netip.MustParseAddr(tt.beneath)}).Lookup(t.Context(), "a.example")
		if err != nil || len(got) != 1 || got[0].String() != tt.want {
			t.Errorf("%s: %v, %v; want %s", name, got, err, tt.want)
		}
	}
}
