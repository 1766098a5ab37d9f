package fetch_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/link"
)

// inBubble runs test with a Fetcher whose every connection is a pipe that serve answers.
func inBubble(t *testing.T, change func(*fetch.Config), serve func(net.Conn), test func(t *testing.T, f *fetch.Fetcher)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var servers sync.WaitGroup
		f := newFetcher(t, func(c *fetch.Config) {
			c.Dial = func(context.Context, string, string) (net.Conn, error) {
				here, there := net.Pipe()
				servers.Go(func() {
					defer there.Close()
					serve(there)
				})
				return here, nil
			}
			if change != nil {
				change(c)
			}
		})
		test(t, f)
		f.Close()
		servers.Wait()
	})
}

// trickle writes s a piece at a time until the other side hangs up.
func trickle(c net.Conn, s string, pieces int, gap time.Duration) {
	for range pieces {
		if _, err := io.WriteString(c, s); err != nil {
			return
		}
		time.Sleep(gap)
	}
}

func TestBoundsOnTime(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\n\r\n"
	tests := []struct {
		name   string
		change func(*fetch.Config)
		serve  func(net.Conn)
		after  time.Duration
		phase  fetch.Phase
		kept   bool // what arrived
	}{
		{"silent server", nil, func(c net.Conn) { readRequest(c); _, _ = c.Read(make([]byte, 1)) }, 20 * time.Second, fetch.PhaseHead, false},
		{"server that does not read", nil, func(net.Conn) { time.Sleep(time.Hour) }, 20 * time.Second, fetch.PhaseHead, false},
		{"head that trickles", nil, func(c net.Conn) {
			readRequest(c)
			trickle(c, "A: b\r\n", 1000, time.Second)
		}, 20 * time.Second, fetch.PhaseHead, false},
		{"body that stops", nil, func(c net.Conn) {
			readRequest(c)
			trickle(c, head, 1, time.Hour)
		}, 10 * time.Second, fetch.PhaseBody, false},
		{"body that trickles", nil, func(c net.Conn) {
			readRequest(c)
			_, _ = io.WriteString(c, head)
			trickle(c, strings.Repeat("a", 512), 1000, time.Second) // half of the least rate: the grace lasts twice as long
		}, 20 * time.Second, fetch.PhaseBody, true},
		{"endless body above the least rate", nil, func(c net.Conn) {
			readRequest(c)
			_, _ = io.WriteString(c, head)
			trickle(c, strings.Repeat("a", 2048), 1000, time.Second)
		}, 60 * time.Second, fetch.PhaseBody, true},
		{"no least rate", func(c *fetch.Config) { c.Lab().MinRate = -1 }, func(c net.Conn) {
			readRequest(c)
			trickle(c, head, 1, time.Hour)
		}, 60 * time.Second, fetch.PhaseBody, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, tt.change, tt.serve, func(t *testing.T, f *fetch.Fetcher) {
				begun := time.Now()
				resp, err := f.Get(t.Context(), &fetch.Request{URL: "http://slow.example/"})
				took := time.Since(begun)
				if took < tt.after || took > tt.after+time.Second {
					t.Errorf("after %s, want %s", took, tt.after)
				}
				if tt.kept {
					if err != nil || resp.Truncated != fetch.TruncatedTime || len(resp.Body) == 0 {
						t.Errorf("%v, want a body that is truncated for time", err)
					}
					return
				}
				wantOutcome(t, err, link.OutcomeTimeout)
				if e, _ := errors.AsType[*fetch.Error](err); e.Phase != tt.phase {
					t.Errorf("in phase %s, want %s", e.Phase, tt.phase)
				}
			})
		})
	}
}

func TestConnectTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFetcher(t, func(c *fetch.Config) {
			c.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
		})
		begun := time.Now()
		_, err := f.Get(t.Context(), &fetch.Request{URL: "http://gone.example/"})
		wantOutcome(t, err, link.OutcomeTimeout)
		if e, _ := errors.AsType[*fetch.Error](err); !e.HostWide() {
			t.Error("a host that cannot be reached is no matter of the URL")
		} else if e.Status() == link.Hung {
			t.Error("a host that cannot be reached has taken no request")
		}
		if took := time.Since(begun); took != 10*time.Second {
			t.Errorf("after %s", took)
		}
	})
}

// TestHeadWithin: a request may have less time until the head than others, and never more; what
// hangs there is told from a host that was not reached.
func TestHeadWithin(t *testing.T) {
	for _, within := range []time.Duration{3 * time.Second, time.Hour} {
		inBubble(t, nil, func(c net.Conn) { readRequest(c); _, _ = c.Read(make([]byte, 1)) }, func(t *testing.T, f *fetch.Fetcher) {
			begun := time.Now()
			_, err := f.Get(t.Context(), &fetch.Request{URL: "http://slow.example/", HeadWithin: within})
			wantOutcome(t, err, link.OutcomeTimeout)
			if e, _ := errors.AsType[*fetch.Error](err); e.Status() != link.Hung || e.HostWide() {
				t.Errorf("status %d, want %d", e.Status(), link.Hung)
			}
			if took, want := time.Since(begun), min(within, 20*time.Second); took != want {
				t.Errorf("after %s, want %s", took, want)
			}
		})
	}
}

// The end of the caller's context ends the exchange wherever it is, with the context's own error.
func TestCancel(t *testing.T) {
	gone := errors.New("lease lapsed")
	tests := []struct {
		name  string
		serve func(net.Conn)
	}{
		{"writing the request", func(net.Conn) { time.Sleep(time.Hour) }},
		{"waiting for the head", func(c net.Conn) { readRequest(c); _, _ = c.Read(make([]byte, 1)) }},
		{"reading the body", func(c net.Conn) {
			readRequest(c)
			trickle(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", 1, time.Hour)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, nil, tt.serve, func(t *testing.T, f *fetch.Fetcher) {
				ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Second, gone)
				defer cancel()
				begun := time.Now()
				_, err := f.Get(ctx, &fetch.Request{URL: "http://slow.example/"})
				if _, ok := errors.AsType[*fetch.Error](err); ok || !errors.Is(err, gone) {
					t.Errorf("error %v", err)
				}
				if took := time.Since(begun); took != 3*time.Second {
					t.Errorf("after %s", took)
				}
			})
		})
	}
	t.Run("before it began", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(gone)
		if _, err := newFetcher(t, nil).Get(ctx, &fetch.Request{URL: "http://a.example/"}); !errors.Is(err, gone) {
			t.Errorf("error %v", err)
		}
	})
}

// Idle connections are closed after their time, and the one idle longest when there are too many.
func TestIdleConnections(t *testing.T) {
	var open atomic.Int32
	serve := func(c net.Conn) {
		open.Add(1)
		for readRequest(c) != "" {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
		open.Add(-1)
	}
	inBubble(t, func(c *fetch.Config) { c.MaxIdleConns = 3 }, serve, func(t *testing.T, f *fetch.Fetcher) {
		for _, host := range []string{"a", "b", "c", "d", "e", "d"} {
			get(t, f, "http://"+host+".example/").Release()
			time.Sleep(10 * time.Second)
		}
		synctest.Wait()
		if n := open.Load(); n != 3 {
			t.Errorf("%d connections open, want 3", n)
		}
		time.Sleep(30 * time.Second) // d was used 40 s ago, e 50 s, c 70 s
		synctest.Wait()
		if n := open.Load(); n != 1 {
			t.Errorf("%d connections open, want 1", n)
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if n := open.Load(); n != 0 {
			t.Errorf("%d connections open, want none", n)
		}
		get(t, f, "http://a.example/").Release()
	})
	if n := open.Load(); n != 0 {
		t.Errorf("%d connections open after Close", n)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"":                               0,
		"0":                              0,
		"120":                            2 * time.Minute,
		" 7 ":                            7 * time.Second,
		"-5":                             0,
		"1.5":                            2 * time.Second, // no form of the standard, and yet a wish
		"2.000":                          2 * time.Second,
		"soon":                           0,
		"99999999999":                    fetch.MaxRetryAfter,
		"99999999999999999999999999":     fetch.MaxRetryAfter, // RFC 9110, 10.2.3: any number of digits
		"+5":                             0,
		"Sunday, 01-Mar-26 12:01:00 GMT": time.Minute, // RFC 9110, 5.6.7: the two obsolete forms are to be read as well
		"Sun Mar  1 12:01:00 2026":       time.Minute,
		"Sun, 01 Mar 2026 12:01:00 GMT":  time.Minute,
		"Sun, 01 Mar 2026 11:00:00 GMT":  0,
		"Sun, 01 Mar 2030 11:00:00 GMT":  fetch.MaxRetryAfter,
	} {
		if got := fetch.RetryAfter(map[string][]string{"Retry-After": {value}}, now); got != want {
			t.Errorf("Retry-After: %s: %s, want %s", value, got, want)
		}
	}
}
