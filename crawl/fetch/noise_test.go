package fetch_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/apoidea/apoidea/crawl/fetch"
)

// most is what a server may send before its connection is gone, what lies in the buffers of both
// kernels included.
const most = 32 << 20

// TestNoise: a connection on which an HTTP/2 server sends what is no part of a response, without
// end, is closed, whenever it does so. What the HTTP/2 library says of it is the standard logger's.
func TestNoise(t *testing.T) {
	quietStandardLog(t)
	kinds := map[string]func(fr *http2.Framer) error{
		"priority":          func(fr *http2.Framer) error { return fr.WritePriority(1, http2.PriorityParam{StreamDep: 3}) },
		"unknown frames":    func(fr *http2.Framer) error { return fr.WriteRawFrame(0xfe, 0, 1, make([]byte, 100)) },
		"ping":              func(fr *http2.Framer) error { return fr.WritePing(false, [8]byte{1}) },
		"settings":          func(fr *http2.Framer) error { return fr.WriteSettings(http2.Setting{ID: 0xff, Val: 1}) },
		"windows":           func(fr *http2.Framer) error { return fr.WriteWindowUpdate(0, 1) },
		"windows of it":     func(fr *http2.Framer) error { return fr.WriteWindowUpdate(1, 1) },
		"resets of others":  func(fr *http2.Framer) error { return fr.WriteRSTStream(1001, http2.ErrCodeCancel) },
		"empty data":        func(fr *http2.Framer) error { return fr.WriteData(1, false, nil) },
		"padding":           func(fr *http2.Framer) error { return fr.WriteDataPadded(1, false, []byte{'x'}, make([]byte, 255)) },
		"header list":       func(fr *http2.Framer) error { return fr.WriteContinuation(1, false, make([]byte, 1<<10)) },
		"goodbyes":          func(fr *http2.Framer) error { return fr.WriteGoAway(1, http2.ErrCodeNo, make([]byte, 100)) },
		"heads without end": func(fr *http2.Framer) error { return fr.WriteHeaders(headers(1, "103")) },
	}
	for name, noise := range kinds {
		for _, phase := range []string{"before the head", "in the body", "afterwards"} {
			if inBody := name == "empty data" || name == "padding"; inBody != (phase == "in the body") && (inBody || name == "header list" || strings.HasPrefix(name, "heads")) {
				continue // breaks the protocol at once
			}
			t.Run(name+" "+phase, func(t *testing.T) { noisy(t, phase, name == "header list", noise) })
		}
	}
}

func noisy(t *testing.T, phase string, open bool, noise func(*http2.Framer) error) {
	sent := make(chan int, 1)
	url, trust := framesServer(t, func(c net.Conn, fr *http2.Framer) {
		written := 0
		defer func() { sent <- written }()
		head := headers(1, "200")
		switch {
		case open:
			head.EndHeaders = false
			fallthrough
		case phase == "in the body":
			if fr.WriteHeaders(head) != nil {
				return
			}
		case phase == "afterwards":
			head.EndStream = true
			if fr.WriteHeaders(head) != nil {
				return
			}
		}
		var frames bytes.Buffer
		many := http2.NewFramer(&frames, nil)
		many.AllowIllegalWrites = true
		for frames.Len() < 64<<10 {
			if noise(many) != nil {
				return
			}
		}
		for written < 4*most {
			n, err := c.Write(frames.Bytes())
			if written += n; err != nil {
				return
			}
		}
	})
	f := newFetcher(t, trust)
	resp, err := f.Get(context.Background(), &fetch.Request{URL: url + "/"})
	if phase == "afterwards" {
		if err == nil {
			resp.Release()
		}
	} else if err == nil {
		t.Error("no error")
		resp.Release()
	}
	if n := <-sent; n > most {
		t.Errorf("%d bytes were sent", n)
	}
}

func headers(stream uint32, status string) http2.HeadersFrameParam {
	var block bytes.Buffer
	_ = hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: ":status", Value: status})
	return http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true}
}

// framesServer speaks HTTP/2 by hand: when the first request is there, answer writes what it likes.
// What the client sends is read and dropped.
func framesServer(t *testing.T, answer func(net.Conn, *http2.Framer)) (url string, trust func(*fetch.Config)) {
	t.Helper()
	srv := httptest.NewUnstartedServer(nil)
	onlyHTTP2(srv)
	srv.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){"h2": func(_ *http.Server, c *tls.Conn, _ http.Handler) {
		defer c.Close()
		if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		fr := http2.NewFramer(c, c)
		fr.AllowIllegalWrites = true
		if fr.WriteSettings() != nil {
			return
		}
		for {
			frame, err := fr.ReadFrame()
			if err != nil {
				return
			}
			if frame.Header().Type == http2.FrameHeaders {
				break
			}
		}
		drained := make(chan error, 1)
		go func() {
			_, err := io.Copy(io.Discard, c)
			drained <- err
		}()
		answer(c, fr)
		c.Close()
		if err := <-drained; err != nil && errors.Is(err, io.EOF) {
			t.Error(err)
		}
	}}
	return startTLS(t, srv)
}

// quietStandardLog drops what is logged by package log, a line a frame, during the test.
func quietStandardLog(t *testing.T) {
	t.Helper()
	before := log.Writer()
	log.SetOutput(io.Discard)
	t.Cleanup(func() { log.SetOutput(before) })
}
