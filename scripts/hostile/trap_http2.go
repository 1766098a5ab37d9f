package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// http2Family violates HTTP/2. A good crawler limits what a connection may cost, logs one line at
// most about each kind of violation, and records an outcome for each URL. That each flood alone
// ends its connection is in crawl/fetch: TestNoise.
var http2Family = family{
	name:  "http2",
	does:  "floods of frames, resets, GOAWAY with each request, heads of megabytes, data beyond the window",
	quick: true,
	traps: http2Traps(),
	h2: func(h *h2Conn, name string, stream uint32) bool {
		if answer := h2Answers[name]; answer != nil {
			answer(h, stream)
		} else {
			h.page(stream)
		}
		return name != "half"
	},
	check: func(j *judge) { j.wantsSecure("ok") },
}

func http2Traps() map[string]trap {
	traps := map[string]trap{"ok": {https: true}}
	for name := range h2Answers {
		traps[name] = trap{https: true}
	}
	return traps
}

// h2Answers are the answers to a request by the name of the host.
var h2Answers = map[string]func(h *h2Conn, stream uint32){
	"priority": func(h *h2Conn, stream uint32) {
		h.start(stream)
		h.flood(func(i int) error {
			return h.framer.WritePriority(stream, http2.PriorityParam{StreamDep: stream + 2*uint32(1+i%1000), Weight: byte(i)})
		})
	},
	"ping": func(h *h2Conn, stream uint32) {
		h.flood(func(i int) error { return h.framer.WritePing(false, [8]byte{byte(i)}) })
		h.page(stream)
	},
	"settings": func(h *h2Conn, stream uint32) {
		h.flood(func(i int) error {
			return h.framer.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 16384 + uint32(i%100)})
		})
		h.page(stream)
	},
	"window": func(h *h2Conn, stream uint32) {
		h.flood(func(int) error { return h.framer.WriteWindowUpdate(0, 1) })
		h.page(stream)
	},
	"continuation": func(h *h2Conn, stream uint32) {
		_ = h.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream})
		h.flood(func(int) error { return h.framer.WriteContinuation(stream, false, []byte("\x00\x01a\x01b")) })
	},
	"empty": func(h *h2Conn, stream uint32) {
		h.start(stream)
		h.flood(func(int) error { return h.framer.WriteData(stream, false, nil) })
	},
	"padding": func(h *h2Conn, stream uint32) {
		h.start(stream)
		h.flood(func(int) error { return h.framer.WriteDataPadded(stream, false, []byte("a"), make([]byte, 255)) })
	},
	"unknown": func(h *h2Conn, stream uint32) {
		h.start(stream)
		h.flood(func(i int) error {
			return h.framer.WriteRawFrame(http2.FrameType(0x20+i%100), 0, stream, []byte("unknown"))
		})
	},
	"interim": func(h *h2Conn, stream uint32) {
		h.flood(func(int) error { return h.headers(stream, false, ":status", "103", "link", "</x>") })
	},
	"beyond": func(h *h2Conn, stream uint32) { // the window
		h.start(stream)
		h.flood(func(int) error { return h.framer.WriteData(stream, false, make([]byte, 16<<10)) })
	},
	"resets":  func(h *h2Conn, stream uint32) { _ = h.framer.WriteRSTStream(stream, http2.ErrCodeInternal) },
	"refused": func(h *h2Conn, stream uint32) { _ = h.framer.WriteRSTStream(stream, http2.ErrCodeRefusedStream) },
	"goaway": func(h *h2Conn, stream uint32) {
		h.page(stream)
		_ = h.framer.WriteGoAway(stream, http2.ErrCodeNo, nil)
	},
	"goaway-first": func(h *h2Conn, _ uint32) {
		_ = h.framer.WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, bytes.Repeat([]byte("a"), 16000))
	},
	"hugehead": func(h *h2Conn, stream uint32) {
		_ = h.headers(stream, true, ":status", "200", "x-large", strings.Repeat("a", 4<<20))
	},
	"hpack": func(h *h2Conn, stream uint32) { // a field of 4,000 bytes, put into the table once and named 16,000 times
		fields := []string{":status", "200"}
		for range 16_000 {
			fields = append(fields, "x-a", strings.Repeat("b", 3900))
		}
		_ = h.headers(stream, true, fields...)
	},
	"trailers": func(h *h2Conn, stream uint32) {
		h.start(stream)
		_ = h.headers(stream, true, "x-trailer", strings.Repeat("a", 1<<20))
	},
	"push": func(h *h2Conn, stream uint32) {
		h.head.Reset()
		_ = h.hpack.WriteField(hpack.HeaderField{Name: ":path", Value: "/poison"})
		_ = h.framer.WritePushPromise(http2.PushPromiseParam{StreamID: stream, PromiseID: 2, BlockFragment: h.head.Bytes(), EndHeaders: true})
		h.page(stream)
	},
	"half": func(h *h2Conn, stream uint32) {
		h.start(stream)
		_ = h.framer.WriteData(stream, false, []byte("<p>The connection ends here"))
	},
}

// h2Conn is a connection whose frames the trap writes itself.
type h2Conn struct {
	tls    *tls.Conn
	framer *http2.Framer
	hpack  *hpack.Encoder
	head   bytes.Buffer
	w      *world
	name   string
	gone   bool // the client closed the connection before the end
}

// h2For is how long a flood lasts at most; h2Frames how many frames it has.
const (
	h2For    = 3 * time.Second
	h2Frames = 100_000
)

// rawH2 reads a client's frames and hands each request to the trap.
func (w *world) rawH2(f *family, name string, c *tls.Conn) {
	defer func() { _ = c.Close() }()
	stop := context.AfterFunc(w.ctx, func() { _ = c.Close() })
	defer stop()
	if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	h := &h2Conn{tls: c, framer: http2.NewFramer(c, c), w: w, name: name}
	h.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	h.hpack = hpack.NewEncoder(&h.head)
	_ = h.framer.WriteSettings()
	for {
		_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
		frame, err := h.framer.ReadFrame()
		if err != nil {
			return
		}
		switch fr := frame.(type) {
		case *http2.SettingsFrame:
			if !fr.IsAck() {
				_ = h.framer.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !fr.IsAck() {
				_ = h.framer.WritePing(true, fr.Data)
			}
		case *http2.MetaHeadersFrame:
			if !h.request(f, fr) {
				return
			}
		}
	}
}

// request records a request and answers it; false ends the connection.
func (h *h2Conn) request(f *family, fr *http2.MetaHeadersFrame) bool {
	path := fr.PseudoValue("path")
	v := h.w.audit.begin(f, strings.ToLower(fr.PseudoValue("authority")), path, unwrap(h.tls), strings.HasPrefix(path, "/forbidden/"))
	if v.conn != nil {
		v.conn.visit.Store(v)
	}
	defer func() { h.w.audit.end(v, h.gone) }()
	if path == "/robots.txt" {
		h.answer(fr.StreamID, plainType, defaultRobots)
		return true
	}
	return f.h2(h, h.name, fr.StreamID)
}

// headers writes a head.
func (h *h2Conn) headers(stream uint32, end bool, fields ...string) error {
	h.head.Reset()
	for i := 0; i+1 < len(fields); i += 2 {
		_ = h.hpack.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	block := h.head.Bytes()
	first := block[:min(len(block), 16<<10)]
	if err := h.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: first, EndStream: end, EndHeaders: len(first) == len(block)}); err != nil {
		return err
	}
	for block = block[len(first):]; len(block) > 0; {
		n := min(len(block), 16<<10)
		if err := h.framer.WriteContinuation(stream, n == len(block), block[:n]); err != nil {
			return err
		}
		block = block[n:]
	}
	return nil
}

// start writes the head of a page.
func (h *h2Conn) start(stream uint32) {
	_ = h.headers(stream, false, ":status", "200", "content-type", htmlType)
}

// answer writes an ordinary answer, page one that leads to two more.
func (h *h2Conn) answer(stream uint32, kind, body string) {
	if h.headers(stream, false, ":status", "200", "content-type", kind) == nil {
		_ = h.framer.WriteData(stream, true, []byte(body))
	}
}

func (h *h2Conn) page(stream uint32) { h.answer(stream, htmlType, page(h.name, "/1", "/2")) }

// flood repeats fn until it fails or the time is up.
func (h *h2Conn) flood(fn func(i int) error) {
	end := time.Now().Add(h2For)
	for i := range h2Frames {
		if i%1000 == 0 && time.Now().After(end) {
			return
		}
		if h.gone = fn(i) != nil; h.gone {
			return
		}
	}
}
