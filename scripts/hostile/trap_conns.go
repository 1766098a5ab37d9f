package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/apoidea/apoidea/scripts/harness"
)

// tlsFamily breaks handshakes. A good crawler sends no request to a server it cannot verify, bounds
// the handshake, and records the reason. See also crawl/fetch: TestTLSFailures, TestLongChain.
var tlsFamily = family{
	name:  "tls",
	does:  "certificates that are expired, of others, of nobody; handshakes that are garbage, silent or drip",
	traps: tlsTraps(),
	hello: func(w *world, hello *tls.ClientHelloInfo, name string) (*tls.Config, error) {
		if shake := handshakes[name]; shake != nil {
			return shake(w, hello)
		}
		w.sleep(3 * time.Second) // hosts slow and asks
		if name != "asks" {
			return nil, nil
		}
		c, err := configOf(w.ca.Sign(hello.ServerName, nil))
		if err == nil {
			c.ClientAuth = tls.RequestClientCert
		}
		return c, err
	},
	check: func(j *judge) {
		for _, h := range j.hosts {
			if name, _, _ := strings.Cut(h.Host, "."); name != "good" && name != "slow" && name != "asks" {
				j.blame("%s was asked %d times", h.Host, h.Requests)
			}
		}
		j.wantsSecure("slow", "asks")
	},
}

func tlsTraps() map[string]trap {
	fine := trap{https: true, serve: func(x exchange) { x.own("/1") }}
	traps := map[string]trap{"slow": fine, "asks": fine} // "asks" for a certificate of the client
	for name := range handshakes {
		traps[name] = trap{https: true}
	}
	return traps
}

var handshakes = map[string]func(w *world, hello *tls.ClientHelloInfo) (*tls.Config, error){
	"expired": cert(func(t *x509.Certificate) { t.NotAfter = time.Now().Add(-time.Minute) }),
	"future":  cert(func(t *x509.Certificate) { t.NotBefore = time.Now().Add(time.Hour) }),
	"other":   cert(func(t *x509.Certificate) { t.DNSNames = []string{"elsewhere.test"} }),
	"usage":   cert(func(t *x509.Certificate) { t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }),
	"old": func(w *world, hello *tls.ClientHelloInfo) (*tls.Config, error) {
		c, err := configOf(w.ca.Sign(hello.ServerName, nil))
		if err == nil {
			c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
		}
		return c, err
	},
	"unknown": func(_ *world, hello *tls.ClientHelloInfo) (*tls.Config, error) {
		other, err := harness.NewHostCA()
		if err != nil {
			return nil, err
		}
		return configOf(other.Sign(hello.ServerName, nil))
	},
	"garbage": bytesOf(func(w *world, c net.Conn) { w.flood(c, strings.Repeat("\x16\x03\x03\xff\xff garbage", 1000), 4<<20) }),
	"alerts":  bytesOf(func(w *world, c net.Conn) { w.drip(c, "\x15\x03\x03\x00\x02\x01\x5a", time.Millisecond, 5*time.Second) }),
	"silent":  bytesOf(func(w *world, c net.Conn) { w.hold(c, time.Minute) }),
	"drip":    bytesOf(func(w *world, c net.Conn) { w.drip(c, "\x16", time.Second, time.Minute) }),
	"reset":   bytesOf(func(_ *world, c net.Conn) { reset(c) }),
}

// cert answers with a certificate that change makes invalid.
func cert(change func(t *x509.Certificate)) func(w *world, hello *tls.ClientHelloInfo) (*tls.Config, error) {
	return func(w *world, hello *tls.ClientHelloInfo) (*tls.Config, error) {
		return configOf(w.ca.Sign(hello.ServerName, change))
	}
}

// bytesOf answers with other bytes than a handshake.
func bytesOf(write func(w *world, c net.Conn)) func(w *world, hello *tls.ClientHelloInfo) (*tls.Config, error) {
	return func(w *world, hello *tls.ClientHelloInfo) (*tls.Config, error) {
		write(w, hello.Conn)
		return nil, errors.New("a trap")
	}
}

func configOf(cert *tls.Certificate, err error) (*tls.Config, error) {
	if err != nil {
		return nil, err
	}
	return withCert(cert), nil
}

// chainsFamily sends certificates of hundreds of kilobytes: 200 hosts of 240 KiB each, nearly as
// much as Go accepts, and 100 of 90 KiB. Each has names of one letter, of which a parser makes
// fifty times their bytes; no two hosts share a certificate, and all but the first are unused. A
// good crawler limits the size of a handshake, and how many large ones are in progress.
var chainsFamily = family{
	name: "chains",
	does: "300 hosts with up to 240 KiB of certificates each, made of names of one letter",
	traps: map[string]trap{
		"long":  {hosts: longChains, https: true, serve: func(x exchange) { x.own("/1") }},
		"large": {hosts: largeChains, https: true, serve: func(x exchange) { x.own("/1") }},
	},
	hello: func(w *world, hello *tls.ClientHelloInfo, name string) (*tls.Config, error) {
		links := 3
		if strings.HasPrefix(name, "long") {
			links = 8
		}
		cert, err := w.ca.Sign(hello.ServerName, nil)
		if err != nil {
			return nil, err
		}
		many := w.manyNames()
		for i := range links {
			cert.Certificate = append(cert.Certificate, renumbered(many, hashOf(fmt.Sprint(name, i))))
		}
		return withCert(cert), nil
	},
	check: func(j *judge) {
		for _, url := range j.w.secures(j.family.name, numbered("long%d", longChains)...) {
			j.expect(url, "tls")
		}
		j.wantsSecure(numbered("large%d", largeChains)...)
	},
}

const (
	longChains  = 200
	largeChains = 100
	chainLinks  = 30 << 10 // bytes of a certificate about, three for each name
)

// manyNames returns a certificate of chainLinks bytes.
func manyNames(ca *harness.HostCA) []byte {
	cert, err := ca.Sign("many names", func(t *x509.Certificate) {
		t.SerialNumber, t.DNSNames = new(big.Int).SetUint64(manySerial), nil
		for range chainLinks / 3 {
			t.URIs = append(t.URIs, &url.URL{Path: "a"})
		}
	})
	if err != nil {
		panic(err) // the authority signs any
	}
	return cert.Certificate[0]
}

// manySerial is the number of that certificate, which renumbered replaces. The signature is wrong
// then, and is not verified, since the certificate is unused.
const manySerial = 0x7172737475767778

func renumbered(der []byte, to uint64) []byte {
	from := binary.BigEndian.AppendUint64(nil, manySerial)
	return bytes.Replace(der, from, binary.BigEndian.AppendUint64(nil, to>>2|1<<61), 1)
}

// http2Family floods connections. A good crawler limits what a connection may cost, logs one line
// at most about each kind of violation, and records an outcome for each URL. Floods in each phase
// of an exchange are in crawl/fetch: TestNoise, TestHTTP2Limits.
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

// h2For is how long a flood lasts at most.
const h2For = 3 * time.Second

// floodH2 reads frames up to the first request, and answers that with a flood.
func (w *world) floodH2(c *tls.Conn, flood h2Flood) {
	defer func() { _ = c.Close() }()
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
	for i, end := 0, time.Now().Add(h2For); time.Now().Before(end); i++ {
		if flood(fr, stream, i) != nil {
			return
		}
	}
}
