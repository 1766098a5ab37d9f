package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"slices"
	"strings"
	"sync"
	"time"
)

// tlsTrap makes the configuration of a handshake, or breaks it: an error ends it. Conn is the
// connection beneath.
type tlsTrap func(w *world, hello *tls.ClientHelloInfo, name string) (*tls.Config, error)

// authority signs the certificates of the world; the peers are told to trust it.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	leaf *ecdsa.PrivateKey // of all servers: making keys costs time
	pem  []byte

	mu    sync.Mutex // guards known
	known map[string]*tls.Certificate
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	leaf, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "hostile test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{
		cert: cert, key: key, leaf: leaf, known: make(map[string]*tls.Certificate),
		pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
	}, nil
}

// sign makes a certificate; change may alter what it says before it is signed.
func (a *authority) sign(name string, change func(t *x509.Certificate)) (*tls.Certificate, error) {
	t := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if change != nil {
		change(t)
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, &a.leaf.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.leaf}, nil
}

// ordinary is the certificate of a name, made once.
func (a *authority) ordinary(name string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.known[name]; c != nil {
		return c, nil
	}
	c, err := a.sign(name, nil)
	if err == nil {
		a.known[name] = c
	}
	return c, err
}

// tlsConfig makes handshakes as the family of the name wants them.
func (w *world) tlsConfig() *tls.Config {
	return &tls.Config{
		NextProtos: []string{"h2", "http/1.1"},
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			if f, name := split(hello.ServerName); f != nil && f.hello != nil && name != "good" {
				if c, err := f.hello(w, hello, name); c != nil || err != nil {
					return c, err
				}
			}
			if f, _ := split(hello.ServerName); f != nil && f.h2 != nil && !slices.Contains(hello.SupportedProtos, "h2") {
				return &tls.Config{NextProtos: []string{"h2 alone"}}, nil // the handshake is refused
			}
			return w.plainTLS(hello.ServerName)
		},
	}
}

// plainTLS is an ordinary configuration for a name.
func (w *world) plainTLS(name string) (*tls.Config, error) {
	cert, err := w.ca.ordinary(strings.ToLower(name))
	if err != nil {
		return nil, err
	}
	return withCert(cert), nil
}

func withCert(cert *tls.Certificate) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{*cert}, NextProtos: []string{"h2", "http/1.1"}}
}
