package bandwidth

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pair is both ends of a TCP connection on loopback, the first of them on a line.
func pair(t *testing.T, line *Line) (*Conn, net.Conn) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := net.Dialer{Control: line.Control}
	near, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c := line.Conn(near, Sites)
	t.Cleanup(func() { c.Close(); far.Close() })
	return c, far
}

// TestConnWhole: what is sent arrives, both ways, whatever the cap is and becomes, and is counted
// once.
func TestConnWhole(t *testing.T) {
	for _, rate := range []int64{0, 4_000_000} {
		line := NewLine(rate)
		c, far := pair(t, line)
		data := bytes.Repeat([]byte("0123456789abcdef"), 16<<10)
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := far.Write(data); err != nil {
				t.Error(err)
			}
			got := make([]byte, len(data))
			if _, err := io.ReadFull(far, got); err != nil || !bytes.Equal(got, data) {
				t.Errorf("cap %d: what was written came differently: %v", rate, err)
			}
		})
		got := make([]byte, len(data))
		if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, data) {
			t.Errorf("cap %d: what was read is different: %v", rate, err)
		}
		if n, err := c.Write(data); n != len(data) || err != nil {
			t.Errorf("cap %d: wrote %d: %v", rate, n, err)
		}
		wg.Wait()
		if down, up := line.Down.Used(Sites), line.Up.Used(Sites); down != int64(len(data)) || up != int64(len(data)) {
			t.Errorf("cap %d: counted %d down, %d up, want %d", rate, down, up, len(data))
		}
	}
}

// TestConnIdle: a connection with nothing to read takes nothing from others, and its end and its
// deadline are heard.
func TestConnIdle(t *testing.T) {
	line := NewLine(1000)
	c, far := pair(t, line)
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 100)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read: %v", err)
	}
	if used := line.Down.Used(Sites); used != 0 {
		t.Errorf("%d bytes taken for nothing", used)
	}
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	far.Close()
	if _, err := c.Read(make([]byte, 100)); !errors.Is(err, io.EOF) {
		t.Errorf("Read of a closed connection: %v", err)
	}
}

// TestConnAborted: a deadline that has passed ends the wait for the limiter, and so does Close.
func TestConnAborted(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(c *Conn) error
	}{
		{"deadline", func(c *Conn) error { return c.SetDeadline(time.Unix(1, 0)) }},
		{"Close", (*Conn).Close},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				defer far.Close()
				line := NewLine(1000)
				line.Up.Spent(Sites, 4000)
				c := line.Conn(near, Sites)
				defer c.Close()
				failed := make(chan error, 1)
				go func() {
					_, err := c.Write([]byte("x"))
					failed <- err
				}()
				synctest.Wait()
				begun := time.Now()
				if err := tt.end(c); err != nil {
					t.Fatal(err)
				}
				err := <-failed
				var timeout net.Error
				if !errors.As(err, &timeout) || !timeout.Timeout() {
					t.Errorf("Write: %v", err)
				}
				if d := time.Since(begun); d > 0 {
					t.Errorf("it ended after %v", d)
				}
			})
		})
	}
}
