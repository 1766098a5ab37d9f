package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// http2Family floods connections. A good crawler limits what a connection may cost, logs one line at
// most about each kind of violation, and records an outcome for each URL. Floods in each phase of
// an exchange are in crawl/fetch: TestNoise, TestHTTP2Limits.
var http2Family = family{
	name:  "http2",
	does:  "floods of frames, heads of megabytes, data beyond the window",
	quick: true,
	traps: http2Traps(),
	check: func(j *judge) {
		for name := range j.family.traps {
			j.expect(j.w.secures(j.family.name, name)[0])
		}
	},
}

func http2Traps() map[string]trap {
	traps := make(map[string]trap)
	for name, frame := range h2Floods {
		traps[name] = trap{https: true, h2: frame}
	}
	return traps
}

// h2Flood writes one of many frames of a stream, whose head has been sent.
type h2Flood func(fr *http2.Framer, stream uint32, i int) error

var h2Floods = map[string]h2Flood{
	"ping":   func(fr *http2.Framer, _ uint32, i int) error { return fr.WritePing(false, [8]byte{byte(i)}) },
	"window": func(fr *http2.Framer, _ uint32, _ int) error { return fr.WriteWindowUpdate(0, 1) },
	"empty":  func(fr *http2.Framer, stream uint32, _ int) error { return fr.WriteData(stream, false, nil) },
	"goaway": func(fr *http2.Framer, stream uint32, _ int) error {
		return fr.WriteGoAway(stream, http2.ErrCodeNo, make([]byte, 16000))
	},
	"beyond": func(fr *http2.Framer, stream uint32, _ int) error { // the window
		return fr.WriteData(stream, false, make([]byte, 16<<10))
	},
	"padding": func(fr *http2.Framer, stream uint32, _ int) error {
		return fr.WriteDataPadded(stream, false, []byte("a"), make([]byte, 255))
	},
	"unknown": func(fr *http2.Framer, stream uint32, i int) error {
		return fr.WriteRawFrame(http2.FrameType(0x20+i%100), 0, stream, []byte("unknown"))
	},
	"settings": func(fr *http2.Framer, _ uint32, i int) error {
		return fr.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 16384 + uint32(i%100)})
	},
	"priority": func(fr *http2.Framer, stream uint32, i int) error {
		return fr.WritePriority(stream, http2.PriorityParam{StreamDep: stream + 2*uint32(1+i%1000), Weight: byte(i)})
	},
	// A field of 4,000 bytes, put into the table once and named again and again, without an end.
	"hpack": func(fr *http2.Framer, stream uint32, i int) error {
		if i == 0 {
			return fr.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: hpackBlock()})
		}
		return fr.WriteContinuation(stream, false, hpackBlock())
	},
}

var hpackBlock = sync.OnceValue(func() []byte {
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for range 4000 {
		_ = enc.WriteField(hpack.HeaderField{Name: "x-a", Value: strings.Repeat("b", 3900)})
	}
	return block.Bytes()
})

// h2For is how long a flood lasts at most; h2Frames how many frames it has.
const (
	h2For    = 3 * time.Second
	h2Frames = 100_000
)

// floodH2 reads frames up to the first request, and answers that with a flood.
func (w *world) floodH2(c *tls.Conn, flood h2Flood) {
	defer c.Close()
	stop := context.AfterFunc(w.ctx, func() { _ = c.Close() })
	defer stop()
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	fr := http2.NewFramer(c, c)
	_ = fr.WriteSettings()
	stream := uint32(0)
	for stream == 0 {
		frame, err := fr.ReadFrame()
		if err != nil {
			return
		}
		if head, ok := frame.(*http2.HeadersFrame); ok {
			stream = head.StreamID
		}
	}
	go func() { _, _ = io.Copy(io.Discard, c) }() // ends with the connection
	const status200 = "\x88"                      // of HPACK's static table
	_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: []byte(status200), EndHeaders: true})
	for i, end := 0, time.Now().Add(h2For); i < h2Frames && time.Now().Before(end); i++ {
		if flood(fr, stream, i) != nil {
			return
		}
	}
}
