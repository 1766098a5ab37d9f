package main

import (
	"bytes"
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

	"github.com/apoidea/apoidea/scripts/harness"
)

// tlsFamily breaks handshakes. A good crawler sends no request to a server it cannot verify, bounds
// the handshake, and records the reason. See also crawl/fetch: TestTLSFailures, TestLongChain.
var tlsFamily = family{
	name:  "tls",
	does:  "certificates that are expired, of others, of nobody; handshakes that are garbage, silent or drip",
	traps: tlsTraps(),
	hello: func(w *world, hello *tls.ClientHelloInfo, name string) (*tls.Config, error) {
		switch name {
		case "slow":
			w.sleep(3 * time.Second)
			return nil, nil //nolint:nilnil // an ordinary one
		case "unknown":
			other, err := harness.NewHostCA()
			if err != nil {
				return nil, err
			}
			cert, err := other.Sign(hello.ServerName, nil)
			return configOf(cert, err)
		}
		if change := badCerts[name]; change != nil {
			return configOf(w.ca.Sign(hello.ServerName, change))
		}
		if broken := handshakes[name]; broken != nil {
			broken(w, hello.Conn)
			return nil, errors.New("a trap")
		}
		return nil, nil //nolint:nilnil // an ordinary one
	},
	check: func(j *judge) {
		for _, h := range j.hosts {
			if name, _, _ := strings.Cut(h.Host, "."); name != "good" && name != "slow" {
				j.blame("%s was asked %d times", h.Host, h.Requests)
			}
		}
		j.wantsSecure("slow")
	},
}

func tlsTraps() map[string]trap {
	traps := map[string]trap{"slow": {https: true, serve: func(x exchange) { x.own("/1") }}, "unknown": {https: true}}
	for name := range badCerts {
		traps[name] = trap{https: true}
	}
	for name := range handshakes {
		traps[name] = trap{https: true}
	}
	return traps
}

var badCerts = map[string]func(t *x509.Certificate){
	"expired": func(t *x509.Certificate) { t.NotAfter = time.Now().Add(-time.Minute) },
	"future":  func(t *x509.Certificate) { t.NotBefore = time.Now().Add(time.Hour) },
	"other":   func(t *x509.Certificate) { t.DNSNames = []string{"elsewhere.test"} },
	"usage":   func(t *x509.Certificate) { t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} },
}

// handshakes are what a server sends instead of one.
var handshakes = map[string]func(w *world, c net.Conn){
	"garbage": func(w *world, c net.Conn) { w.flood(c, strings.Repeat("\x16\x03\x03\xff\xff garbage", 1000), 4<<20) },
	"plain":   func(_ *world, c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\nThis is no HTTPS\r\n") },
	"alerts":  func(w *world, c net.Conn) { w.drip(c, "\x15\x03\x03\x00\x02\x01\x5a", time.Millisecond, 5*time.Second) },
	"silent":  func(w *world, c net.Conn) { w.hold(c, time.Minute) },
	"drip":    func(w *world, c net.Conn) { w.drip(c, "\x16", time.Second, time.Minute) },
	"reset":   func(_ *world, c net.Conn) { reset(c) },
}

func configOf(cert *tls.Certificate, err error) (*tls.Config, error) {
	if err != nil {
		return nil, err
	}
	return withCert(cert), nil
}

// chainsFamily sends certificates of hundreds of kilobytes: 200 hosts of 240 KiB each, nearly as
// much as Go accepts, and 100 of 90 KiB. Each has names of one letter, of which a parser makes fifty
// times their bytes; no two hosts share a certificate, and all but the first are unused. A good
// crawler limits the size of a handshake, and how many large ones are in progress.
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
		many, err := manyNames(w.ca)
		if err != nil {
			return nil, err
		}
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

var (
	manyOnce sync.Once
	manyCert *tls.Certificate
	errMany  error
)

// manyNames is a certificate of chainLinks bytes, made once.
func manyNames(ca *harness.HostCA) ([]byte, error) {
	manyOnce.Do(func() {
		manyCert, errMany = ca.Sign("many names", func(t *x509.Certificate) {
			t.SerialNumber, t.DNSNames = new(big.Int).SetUint64(manySerial), nil
			for range chainLinks / 3 {
				t.URIs = append(t.URIs, &url.URL{Path: "a"})
			}
		})
	})
	if errMany != nil {
		return nil, errMany
	}
	return manyCert.Certificate[0], nil
}

// manySerial is the number of that certificate, which renumbered replaces. The signature is wrong
// then, and is not verified, since the certificate is unused.
const manySerial = 0x7172737475767778

func renumbered(der []byte, to uint64) []byte {
	from := binary.BigEndian.AppendUint64(nil, manySerial)
	return bytes.Replace(der, from, binary.BigEndian.AppendUint64(nil, to>>2|1<<61), 1)
}
