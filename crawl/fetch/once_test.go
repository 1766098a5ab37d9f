package fetch_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/apoidea/apoidea/crawl/fetch"
)

// TestOnce: a server that takes a request on a connection that lay idle and hangs up has been
// asked: whoever wishes so is told, and the server is not asked again at once. Each time that a
// request is written a permit is taken.
func TestOnce(t *testing.T) {
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var seen atomic.Int64
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go hangUpOnSecond(c, &seen)
		}
	}()
	f, err := fetch.New(fetch.Config{UserAgent: "test", AllowPrivate: true, Resolver: fixed{netip.MustParseAddr("127.0.0.1")}})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	permits := int64(0)
	get := func(once bool) error {
		resp, err := f.Get(t.Context(), &fetch.Request{URL: "http://" + ln.Addr().String() + "/", Once: once, Permit: func(netip.Addr) error { permits++; return nil }})
		if err == nil {
			resp.Release()
		}
		return err
	}
	if err := get(true); err != nil {
		t.Fatal(err)
	}
	if err := get(true); !errors.Is(err, fetch.ErrStale) || seen.Load() != 2 {
		t.Fatalf("on an idle connection: %v after %d requests", err, seen.Load())
	}
	if err := get(true); err != nil || seen.Load() != 3 {
		t.Fatalf("on a new one: %v after %d requests", err, seen.Load())
	}
	if err := get(false); err != nil || seen.Load() != 5 {
		t.Fatalf("by somebody who does not mind: %v after %d requests", err, seen.Load())
	}
	if permits != seen.Load() {
		t.Errorf("%d permits for %d requests", permits, seen.Load())
	}
}

// TestOnceAfterNoPermit: a connection made for a request that had no permit is kept, and the first
// request on it may meet a server that hangs up: it is asked once.
func TestOnceAfterNoPermit(t *testing.T) {
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var seen atomic.Int64
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
					seen.Add(1)
				}
			}()
		}
	}()
	f, err := fetch.New(fetch.Config{UserAgent: "test", AllowPrivate: true, Resolver: fixed{netip.MustParseAddr("127.0.0.1")}})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	none := errors.New("none left")
	for _, permit := range []error{none, nil} {
		_, err = f.Get(t.Context(), &fetch.Request{URL: "http://" + ln.Addr().String() + "/robots.txt", Once: true, Permit: func(netip.Addr) error { return permit }})
		if err == nil || errors.Is(err, none) != (permit != nil) {
			t.Fatalf("with permit error %v: %v", permit, err)
		}
	}
	if seen.Load() != 1 {
		t.Errorf("the server was asked %d times", seen.Load())
	}
}

// hangUpOnSecond answers one request of a connection, reads another and closes it.
func hangUpOnSecond(c net.Conn, seen *atomic.Int64) {
	defer c.Close()
	r := bufio.NewReader(c)
	for i := range 2 {
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		seen.Add(1)
		if i == 0 {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	}
}
