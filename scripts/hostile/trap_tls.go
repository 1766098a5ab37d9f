package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// TLS.
//
// The trap: certificates that are over, of another name, signed by themselves or by nobody known; a
// chain of 200 certificates; a handshake that is garbage, that never answers, that drips; a demand
// for a certificate of the client's; a name that is served by the wrong protocol.
//
// A good crawler does not speak to whom it cannot trust, bounds the handshake, and says why.
var tlsFamily = family{
	name:  "tls",
	does:  "certificates that are over, of others, of nobody; chains of 200; handshakes that are garbage, silent or drip",
	seeds: func(w *world) []string { return w.secures("tls", append(tlsNames, tlsFine...)...) },
	hello: tlsHello,
	serve: func(_ *world, rw http.ResponseWriter, r *http.Request, name string) {
		writePage(rw, page(r.Host+r.URL.Path, "/1"))
	},
	within: 3 * time.Minute,
	check: func(j *judge) {
		for _, h := range j.hosts {
			name, _, _ := strings.Cut(h.Host, ".")
			if slices.Contains(tlsNames, name) {
				j.blame("tls: %s was asked %d times", h.Host, h.Requests)
			}
		}
		j.wantsSecure(tlsFine)
	},
}

// tlsNames are hosts that must not be asked for anything; tlsFine are odd and no worse.
var (
	tlsNames = []string{"expired", "future", "other", "self", "unknown", "garbage", "silent", "drip", "reset", "plain", "alerts", "old", "usage"}
	tlsFine  = []string{"slow", "chain", "asks", "h1only"}
)

// wantsSecure blames hosts that have nothing wrong that matters and were not asked over HTTPS.
func (j *judge) wantsSecure(names []string) {
	for _, url := range j.w.secures(j.family.name, names...) {
		if host := strings.TrimSuffix(strings.TrimPrefix(url, "https://"), "/"); j.w.audit.asked(host, "/") == 0 {
			j.blame("%s: %s has nothing wrong that matters, and was not asked", j.family.name, url)
		}
	}
}

var errTrap = errors.New("a trap")

func tlsHello(w *world, hello *tls.ClientHelloInfo, name string) (*tls.Config, error) {
	full := hello.ServerName
	c := hello.Conn
	signed := func(change func(t *x509.Certificate)) (*tls.Config, error) {
		cert, err := w.ca.sign(full, change)
		if err != nil {
			return nil, err
		}
		return withCert(cert), nil
	}
	switch name {
	case "expired":
		return signed(func(t *x509.Certificate) { t.NotAfter = time.Now().Add(-time.Minute) })
	case "future":
		return signed(func(t *x509.Certificate) { t.NotBefore = time.Now().Add(time.Hour) })
	case "other":
		return signed(func(t *x509.Certificate) { t.DNSNames = []string{"elsewhere.test"} })
	case "usage":
		return signed(func(t *x509.Certificate) { t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} })
	case "self", "unknown":
		return stranger(full)
	case "old":
		config, err := signed(nil)
		if err == nil {
			config.MinVersion, config.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
		}
		return config, err
	case "chain":
		cert, err := w.ca.sign(full, nil)
		if err != nil {
			return nil, err
		}
		for range 200 {
			cert.Certificate = append(cert.Certificate, w.ca.cert.Raw)
		}
		return withCert(cert), nil
	case "asks":
		config, err := signed(nil)
		if err == nil {
			config.ClientAuth = tls.RequestClientCert
		}
		return config, err
	case "h1only":
		config, err := signed(nil)
		if err == nil {
			config.NextProtos = []string{"http/1.1"}
		}
		return config, err
	case "slow":
		w.sleep(3 * time.Second)
		return nil, nil //nolint:nilnil // an ordinary one
	case "garbage":
		w.flood(c, strings.Repeat("\x16\x03\x03\xff\xff garbage", 1000), 4<<20)
	case "plain":
		_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\nThis is no HTTPS\r\n")
	case "alerts":
		w.drip(c, "\x15\x03\x03\x00\x02\x01\x5a", time.Millisecond, 5*time.Second)
	case "silent":
		w.hold(c, time.Minute)
	case "drip":
		w.drip(c, "\x16", time.Second, time.Minute)
	case "reset":
		if k := unwrap(c); k != nil {
			k.reset()
		}
	default:
		return nil, nil //nolint:nilnil // an ordinary one
	}
	return nil, errTrap
}

// stranger is a certificate that no authority of the world has signed.
func stranger(name string) (*tls.Config, error) {
	other, err := newAuthority()
	if err != nil {
		return nil, err
	}
	cert, err := other.sign(name, nil)
	if err != nil {
		return nil, err
	}
	return withCert(cert), nil
}
