package p2p

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"testing"
)

// tally is a Shape that counts, and holds bulk back while its gate is shut.
type tally struct {
	read, written, sent, received, bulk atomic.Int64
	gate                                chan struct{}
}

func (s *tally) Conn(c net.Conn) net.Conn { return tallied{c, s} }

func (s *tally) Spent(sent, received int) {
	s.sent.Add(int64(sent))
	s.received.Add(int64(received))
}

func (s *tally) Bulk(ctx context.Context, n int) error {
	s.bulk.Add(int64(n))
	select {
	case <-s.gate:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type tallied struct {
	net.Conn
	tally *tally
}

func (c tallied) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.tally.read.Add(int64(n))
	return n, err
}

func (c tallied) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.tally.written.Add(int64(n))
	return n, err
}

// shaped makes two Nets over one transport, both with a Shape of their own; the first has dialled
// the second.
func shaped(t *testing.T, listen string) (a, b *Net, sa, sb *tally) {
	t.Helper()
	open := func() (*Net, *tally) {
		s := &tally{gate: make(chan struct{})}
		return newNetOf(t, Config{Network: "test", Listen: []string{listen}, Shape: s, Bulk: []string{"bulk"}}, func(n *Net) {
			n.Handle("bulk", echo)
			n.Handle("urgent", echo)
		}), s
	}
	a, sa = open()
	b, sb = open()
	introduce(a, b)
	return a, b, sa, sb
}

// TestShapeCounts: all that calls carry passes the Shape at both ends: through the connections over
// TCP, as debt over QUIC.
func TestShapeCounts(t *testing.T) {
	const size = 100_000
	for name, c := range map[string]struct {
		listen         string
		came, went     func(*tally) int64
		never1, never2 func(*tally) int64
	}{
		"TCP": {
			"/ip4/127.0.0.1/tcp/0",
			func(s *tally) int64 { return s.read.Load() }, func(s *tally) int64 { return s.written.Load() },
			func(s *tally) int64 { return s.received.Load() }, func(s *tally) int64 { return s.sent.Load() },
		},
		"QUIC": {
			"/ip4/127.0.0.1/udp/0/quic-v1",
			func(s *tally) int64 { return s.received.Load() }, func(s *tally) int64 { return s.sent.Load() },
			func(s *tally) int64 { return s.read.Load() }, func(s *tally) int64 { return s.written.Load() },
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b, sa, sb := shaped(t, c.listen)
			answer, err := a.Call(t.Context(), b.Self(), "urgent", make([]byte, size))
			if err != nil || len(answer) != size {
				t.Fatalf("%d bytes, %v", len(answer), err)
			}
			for who, s := range map[string]*tally{"caller": sa, "called": sb} {
				// A write is counted when it is over; the answer may be read before.
				waitFor(t, who+": all is counted", func() bool { return c.came(s) >= size && c.went(s) >= size })
				if came, went := c.came(s), c.went(s); came > size*11/10+20_000 || went > size*11/10+20_000 {
					t.Errorf("%s: %d bytes came and %d went, want a little more than %d each", who, came, went, size)
				}
				if other := c.never1(s) + c.never2(s); other != 0 {
					t.Errorf("%s: %d bytes were tallied the other way as well", who, other)
				}
			}
		})
	}
}

// TestBulkWaits: bulk waits for its turn, and what is urgent to the same peer does not wait behind
// it.
func TestBulkWaits(t *testing.T) {
	a, b, sa, sb := shaped(t, "/ip4/127.0.0.1/tcp/0")
	close(sb.gate)
	payload := bytes.Repeat([]byte{7}, 3*bulkPiece)
	done := make(chan error, 1)
	go func() {
		answer, err := a.Call(t.Context(), b.Self(), "bulk", payload)
		if err == nil && !bytes.Equal(answer, payload) {
			t.Error("the bulk answer is another")
		}
		done <- err
	}()
	if _, err := a.Call(t.Context(), b.Self(), "urgent", []byte("lease")); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		t.Fatalf("bulk was through before its turn: %v", err)
	default:
	}
	close(sa.gate)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if asked := sa.bulk.Load(); asked < int64(len(payload)) {
		t.Errorf("asked for %d bytes of bulk, want %d at least", asked, len(payload))
	}
}
