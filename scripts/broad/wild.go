//go:build linux

package main

import (
	"cmp"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/andybalholm/brotli"

	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/scripts/harness"
)

const (
	wildHosts = 5000
	// atOnce is how many requests the others make at once: as many as a peer of ours has fetchers.
	atOnce = 256
	// othersTime bounds each of them.
	othersTime = 5 * time.Minute
)

// wildWeb is what the web is like today: https, HTTP/2, compressed, at a distance.
func wildWeb(hosts int) webgen.Config {
	c := broadWeb(hosts)
	c.HTTPS, c.Latency = true, 30*time.Millisecond
	c.RobotsShare, c.SitemapShare = 0, 0 // which the others do not read
	return c
}

// other is a crawler of others, which stores nothing.
type other struct {
	name string
	args func(seeds []string, seedFile, names string) []string
}

var others = []other{
	{"colly", func(seeds []string, _, names string) []string {
		return append([]string{"-dns", names, "-parallel", strconv.Itoa(atOnce), "-compressed"}, seeds...)
	}},
	{"katana", func(_ []string, seedFile, names string) []string {
		return []string{
			"-list", seedFile, "-resolvers", names, "-silent", "-depth", "1000", "-concurrency", "10", "-parallelism", strconv.Itoa(atOnce), "-rate-limit", "100000",
			"-field-scope", "fqdn", "-disable-update-check", // all hosts are seeds, and each seed is a crawl of its own
		}
	}},
}

// wild prints how a peer does on the web as it is, beside crawlers of others.
func (b *bench) wild(ctx context.Context) error {
	web := wildWeb(min(b.hosts, wildHosts))
	ours, err := b.alone(ctx, web)
	if err != nil {
		return err
	}
	figure(fmt.Sprintf("%d hosts of https, 30 ms: pages per CPU second", web.Hosts), ours.perCPU(), "", "", ours.String())
	figure("  pages a second", ours.perSecond(), "", "", "")
	for _, o := range others {
		if _, err := exec.LookPath(o.name); err != nil {
			fmt.Printf("  %s: skipped, as it is not here\n", o.name)
			continue
		}
		theirs, err := b.other(ctx, web, o)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			fmt.Printf("  %s: did not end within %s\n", o.name, othersTime)
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
		figure("  "+o.name+": pages per CPU second", theirs.perCPU(), "", "", theirs.String())
		figure("  "+o.name+": pages a second", theirs.perSecond(), "", "", "")
		cpu, wall := ours.perCPU()/theirs.perCPU(), ours.perSecond()/theirs.perSecond()
		figure("  one peer / "+o.name+", pages per CPU second", cpu, "", least(cpu, 1.5), "")
		figure("  one peer / "+o.name+", pages a second", wall, "", least(wall, 1), "")
	}
	return nil
}

// other has a crawler of others crawl a web.
func (b *bench) other(ctx context.Context, cfg webgen.Config, o other) (*crawl, error) {
	ctx, cancel := context.WithTimeout(ctx, othersTime)
	defer cancel()
	var group sync.WaitGroup
	defer group.Wait()
	serving, end := context.WithCancel(ctx)
	defer end()
	web, names, env, err := b.serve(serving, &group, cfg)
	if err != nil {
		return nil, err
	}
	seedFile := filepath.Join(b.work, "seeds")
	if err := write(seedFile, web.Seeds()); err != nil {
		return nil, err
	}
	said, err := os.Create(filepath.Join(b.work, o.name+".log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = said.Close() }()
	cmd := exec.CommandContext(ctx, o.name, o.args(web.Seeds(), seedFile, names)...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), env...), said, said
	begun := time.Now()
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w; see %s", cmp.Or(ctx.Err(), err), said.Name())
	}
	c := &crawl{hosts: cfg.Hosts, took: time.Since(begun)}
	cpu, most := harness.Used(cmd.ProcessState)
	c.cpu, c.rss = cpu, float64(most)/(1<<20)
	asked := web.Asked()
	for _, u := range web.Truth().URLs {
		if asked[u] > 0 {
			c.pages++
		}
	}
	return c, nil
}

// serveWild serves a web of https, compressed for who takes that.
func (b *bench) serveWild(ctx context.Context, group *sync.WaitGroup, ln net.Listener, cfg webgen.Config) (*harness.Web, []string, error) {
	cert, pemCert, err := certificate()
	if err != nil {
		return nil, nil, err
	}
	file := filepath.Join(b.work, "cert.pem")
	if err := os.WriteFile(file, pemCert, 0o600); err != nil {
		return nil, nil, err
	}
	web := &harness.Web{Web: webgen.New(cfg), Port: ln.Addr().(*net.TCPAddr).Port}
	srv := &http.Server{Handler: compressing(web.Handler()), ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	group.Go(func() {
		_ = srv.Serve(tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}}))
	})
	context.AfterFunc(ctx, func() { _ = srv.Close() })
	return web, []string{"SSL_CERT_FILE=" + file, "SSL_CERT_DIR=/nonexistent"}, nil
}

// certificate is one for all hosts, which signs itself.
func certificate() (cert tls.Certificate, inPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return cert, nil, err
	}
	t := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "web of a trial"}, DNSNames: []string{"*." + domain},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), err
}

// packer compresses an answer.
type packer interface {
	io.WriteCloser
	Reset(to io.Writer)
}

// packers are those that are free, by the name of what they do. They do it fast: the machine is the
// crawlers', too.
var packers = map[string]*sync.Pool{
	"br":   {New: func() any { return brotli.NewWriterLevel(nil, brotli.BestSpeed) }},
	"gzip": {New: func() any { w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed); return w }},
}

// compressing compresses what a handler answers, by brotli if the client takes it, else by gzip.
func compressing(h http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		for _, name := range []string{"br", "gzip"} {
			if strings.Contains(req.Header.Get("Accept-Encoding"), name) {
				p := packers[name].Get().(packer)
				defer packers[name].Put(p)
				p.Reset(rw)
				h.ServeHTTP(&packedWriter{rw, p, name}, req)
				_ = p.Close() // the client went away: nothing to be done
				return
			}
		}
		h.ServeHTTP(rw, req)
	})
}

// packedWriter writes the body of an answer through a packer.
type packedWriter struct {
	http.ResponseWriter
	to   packer
	name string
}

func (w *packedWriter) WriteHeader(status int) {
	w.Header().Del("Content-Length")
	w.Header().Set("Content-Encoding", w.name)
	w.ResponseWriter.WriteHeader(status)
}

func (w *packedWriter) Write(p []byte) (int, error) { return w.to.Write(p) }
