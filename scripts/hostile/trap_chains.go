package main

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Certificates by the hundred thousand bytes.
//
// The trap: 200 hosts that show 240 KiB of certificates each, nearly as much as Go takes, and 100
// with 90 KiB. Each certificate has names of one letter, of which a parser makes fifty times their
// bytes; no two hosts have one in common, and all but the first are for nobody.
//
// A good crawler bounds what it takes in a handshake, as others do, and how many large ones are
// under way; it asks whom it can trust within that, and says why of the rest.
var chainsFamily = family{
	name: "chains",
	does: "300 hosts with up to 240 KiB of certificates each, made of names of one letter",
	seeds: func(w *world) []string {
		return w.secures("chains", append(numbered("long%d", longChains), numbered("large%d", largeChains)...)...)
	},
	hello: chainsHello,
	serve: func(_ *world, rw http.ResponseWriter, r *http.Request, name string) {
		writePage(rw, page(r.Host+r.URL.Path, "/1"))
	},
	check: func(j *judge) {
		for _, url := range j.w.secures(j.family.name, numbered("long%d", longChains)...) {
			j.expect(url, "tls")
		}
		j.wantsSecure(numbered("large%d", largeChains))
	},
}

const (
	longChains  = 200
	largeChains = 100
	chainLinks  = 30 << 10 // bytes of a certificate about, three for each name
)

func chainsHello(w *world, hello *tls.ClientHelloInfo, name string) (*tls.Config, error) {
	var n, links int
	if _, err := fmt.Sscanf(name, "long%d", &n); err == nil {
		links = 8
	} else if _, err := fmt.Sscanf(name, "large%d", &n); err == nil {
		links = 3
	} else {
		return nil, nil //nolint:nilnil // an ordinary one
	}
	cert, err := w.ca.sign(hello.ServerName, nil)
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
}

// manyNames is a certificate of chainLinks bytes, made once.
var manyNames = func() func(a *authority) ([]byte, error) {
	var once sync.Once
	var der []byte
	var err error
	return func(a *authority) ([]byte, error) {
		once.Do(func() {
			t := &x509.Certificate{
				SerialNumber: new(big.Int).SetUint64(manySerial), Subject: pkix.Name{CommonName: "many names"},
				NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
			}
			for range chainLinks / 3 {
				t.URIs = append(t.URIs, &url.URL{Path: "a"})
			}
			der, err = x509.CreateCertificate(rand.Reader, t, a.cert, &a.leaf.PublicKey, a.key)
		})
		return der, err
	}
}()

// manySerial is the number of that certificate, which renumbered replaces. The signature is wrong
// then, and nobody looks at it.
const manySerial = 0x7172737475767778

func renumbered(der []byte, to uint64) []byte {
	from := binary.BigEndian.AppendUint64(nil, manySerial)
	return bytes.Replace(der, from, binary.BigEndian.AppendUint64(nil, to>>2|1<<61), 1)
}
