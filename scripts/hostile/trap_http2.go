package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Lies in HTTP/2.
//
// The trap: floods of PRIORITY, PING, SETTINGS, WINDOW_UPDATE, CONTINUATION, empty DATA and unknown
// frames; streams reset again and again; connections that are told to go away with each request;
// heads of megabytes, and small ones that unpack to megabytes; more data than the window lets
// through; pushes.
//
// A good crawler bounds what a connection may cost, says about each kind of nonsense one line at
// most, and comes to an outcome for each URL.
var http2Family = family{
	name:  "http2",
	does:  "floods of frames, resets, GOAWAY with each request, heads of megabytes, data beyond the window",
	quick: true,
	seeds: func(w *world) []string {
		return w.secures("http2", http2Names...)
	},
	h2: serveHTTP2,
	serve: func(_ *world, rw http.ResponseWriter, r *http.Request, _ string) { // a client that speaks no HTTP/2
		writePage(rw, page(r.Host))
	},
}

var http2Names = []string{
	"priority", "ping", "settings", "window", "continuation", "empty", "unknown", "resets", "goaway", "goaway-first", "refused", "hugehead", "hpack", "beyond", "push",
	"wrongstream", "padding", "upper", "nostatus", "badstatus", "interim", "overflow", "length", "trailers", "half", "ok",
}

// h2Conn is a connection whose frames the trap writes itself.
type h2Conn struct {
	tls    *tls.Conn
	framer *http2.Framer
	hpack  *hpack.Encoder
	head   bytes.Buffer
	w      *world
	gone   bool // the client went away before the end
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
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(c, preface); err != nil {
		return
	}
	h := &h2Conn{tls: c, framer: http2.NewFramer(c, c), w: w}
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
			if !h.request(f, name, fr) {
				return
			}
		}
	}
}

// request notes a request and has it answered; false ends the connection.
func (h *h2Conn) request(f *family, name string, fr *http2.MetaHeadersFrame) bool {
	path, host := fr.PseudoValue("path"), fr.PseudoValue("authority")
	v := h.w.audit.begin(f, strings.ToLower(host), path, unwrap(h.tls), strings.HasPrefix(path, "/forbidden/"))
	if k := unwrap(h.tls); k != nil {
		k.visit.Store(v)
	}
	defer func() { h.w.audit.end(v, h.gone) }()
	if path == "/robots.txt" {
		h.answer(fr.StreamID, "text/plain", defaultRobots)
		return true
	}
	return f.h2Answer(h, name, fr.StreamID)
}

// h2Answer has the family's trap answer.
func (f *family) h2Answer(h *h2Conn, name string, stream uint32) bool {
	f.h2(h.w, h, name, stream)
	return name != "half"
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

// answer is an ordinary answer.
func (h *h2Conn) answer(stream uint32, kind, body string) {
	if h.headers(stream, false, ":status", "200", "content-type", kind) == nil {
		_ = h.framer.WriteData(stream, true, []byte(body))
	}
}

// flood does one thing again and again, until it fails or the time is up.
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

func serveHTTP2(_ *world, h *h2Conn, name string, stream uint32) {
	fr := h.framer
	page := page(name, "/1", "/2")
	start := func() { _ = h.headers(stream, false, ":status", "200", "content-type", "text/html") }
	switch name {
	case "priority":
		start()
		h.flood(func(i int) error {
			return fr.WritePriority(stream, http2.PriorityParam{StreamDep: stream + 2*uint32(1+i%1000), Weight: byte(i)})
		})
		_ = fr.WriteData(stream, true, []byte(page))
	case "ping":
		h.flood(func(i int) error { return fr.WritePing(false, [8]byte{byte(i)}) })
		h.answer(stream, "text/html", page)
	case "settings":
		h.flood(func(i int) error {
			return fr.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 16384 + uint32(i%100)})
		})
		h.answer(stream, "text/html", page)
	case "window":
		h.flood(func(int) error { return fr.WriteWindowUpdate(0, 1) })
		h.answer(stream, "text/html", page)
	case "overflow":
		_ = fr.WriteWindowUpdate(0, 1<<31-1)
		_ = fr.WriteWindowUpdate(stream, 1<<31-1)
		h.answer(stream, "text/html", page)
	case "continuation":
		_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: nil})
		h.flood(func(int) error { return fr.WriteContinuation(stream, false, []byte("\x00\x01a\x01b")) })
	case "empty":
		start()
		h.flood(func(int) error { return fr.WriteData(stream, false, nil) })
	case "unknown":
		start()
		h.flood(func(i int) error { return fr.WriteRawFrame(http2.FrameType(0x20+i%100), 0, stream, []byte("unknown")) })
		_ = fr.WriteData(stream, true, []byte(page))
	case "padding":
		start()
		h.flood(func(int) error { return fr.WriteDataPadded(stream, false, []byte("a"), make([]byte, 255)) })
	case "resets":
		_ = fr.WriteRSTStream(stream, http2.ErrCodeInternal)
	case "refused":
		_ = fr.WriteRSTStream(stream, http2.ErrCodeRefusedStream)
	case "goaway":
		h.answer(stream, "text/html", page)
		_ = fr.WriteGoAway(stream, http2.ErrCodeNo, nil)
	case "goaway-first":
		_ = fr.WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, bytes.Repeat([]byte("a"), 16000))
	case "hugehead":
		_ = h.headers(stream, true, ":status", "200", "x-large", strings.Repeat("a", 4<<20))
	default:
		h.oddAnswer(name, stream, page)
	}
}

// oddAnswer are answers that are wrong once.
func (h *h2Conn) oddAnswer(name string, stream uint32, page string) {
	fr := h.framer
	start := func() { _ = h.headers(stream, false, ":status", "200", "content-type", "text/html") }
	switch name {
	case "hpack": // a field of 4,000 bytes, put into the table once and named 16,000 times
		fields := []string{":status", "200"}
		for range 16_000 {
			fields = append(fields, "x-a", strings.Repeat("b", 3900))
		}
		_ = h.headers(stream, true, fields...)
	case "beyond":
		start()
		h.flood(func(int) error { return fr.WriteData(stream, false, make([]byte, 16<<10)) })
	case "push":
		h.head.Reset()
		_ = h.hpack.WriteField(hpack.HeaderField{Name: ":path", Value: "/poison"})
		_ = fr.WritePushPromise(http2.PushPromiseParam{StreamID: stream, PromiseID: 2, BlockFragment: h.head.Bytes(), EndHeaders: true})
		h.answer(stream, "text/html", page)
	case "wrongstream":
		_ = fr.WriteData(stream+2, true, []byte("x"))
		h.answer(stream, "text/html", page)
	case "upper":
		_ = h.headers(stream, true, ":status", "200", "X-Upper", "A")
	case "nostatus":
		_ = h.headers(stream, true, "content-type", "text/html")
	case "badstatus":
		_ = h.headers(stream, true, ":status", "twohundred")
	case "interim":
		h.flood(func(int) error { return h.headers(stream, false, ":status", "103", "link", "</x>") })
	case "length":
		_ = h.headers(stream, false, ":status", "200", "content-length", "10", "content-type", "text/html")
		_ = fr.WriteData(stream, true, []byte(page))
	case "trailers":
		start()
		_ = fr.WriteData(stream, false, []byte(page))
		_ = h.headers(stream, true, "x-trailer", strings.Repeat("a", 1<<20))
	case "half":
		start()
		_ = fr.WriteData(stream, false, []byte(page[:20]))
	default:
		h.answer(stream, "text/html", page+fmt.Sprint(stream))
	}
}
