package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/trust"
	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/scripts/harness"
	"github.com/apoidea/apoidea/storage"
)

// The ring of real peers, of which the first two after the one that posts the job fetch through
// proxies that forge pages.
const (
	ringPeers  = 10
	ringLiars  = 2
	ringHosts  = 50
	ringPages  = 100 // of a host
	ringDelay  = 100 * time.Millisecond
	ringLies   = 10 // per cent
	crawlLimit = 6 * time.Minute
)

// proxy is an HTTP proxy (CONNECT) that replaces a part of the HTML pages by others, chosen by a
// hash of the URL.
type proxy struct {
	name   string
	site   string // address of the web server
	forged atomic.Int64
}

// serve accepts connections until ctx ends.
func (p *proxy) serve(ctx context.Context, l net.Listener) {
	server := &http.Server{Handler: p, ReadHeaderTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	_ = server.Serve(l)
}

// ServeHTTP serves a tunnel: requests in it go to the web server.
func (p *proxy) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodConnect {
		http.Error(rw, "CONNECT only", http.StatusMethodNotAllowed)
		return
	}
	conn, _, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
	site, err := (&net.Dialer{}).DialContext(req.Context(), "tcp", p.site)
	if err != nil {
		return
	}
	defer site.Close()
	from, answers := bufio.NewReader(conn), bufio.NewReader(site)
	for p.exchange(conn, site, from, answers) == nil {
	}
}

func (p *proxy) exchange(conn, site io.Writer, from, answers *bufio.Reader) error {
	r, err := http.ReadRequest(from)
	if err != nil {
		return err
	}
	if err = r.Write(site); err != nil {
		return err
	}
	res, err := http.ReadResponse(answers, r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	url := "http://" + r.Host + r.URL.RequestURI()
	if r.Method == http.MethodGet && res.StatusCode == http.StatusOK && strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") {
		if body := p.forge(url); body != nil {
			p.forged.Add(1)
			_, _ = io.Copy(io.Discard, res.Body)
			res.Header.Del("Content-Length")
			res.Header.Del("Content-Encoding")
			res.Body, res.ContentLength, res.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
		}
	}
	return res.Write(conn)
}

// forge returns the page in place of a URL; nil: the right one.
func (p *proxy) forge(url string) []byte {
	sum := sha256.Sum256([]byte(p.name + " " + url))
	if binary.BigEndian.Uint32(sum[:])%100 >= ringLies {
		return nil
	}
	rng := rand.New(rand.NewPCG(binary.BigEndian.Uint64(sum[8:]), 1))
	var b bytes.Buffer
	b.WriteString("<!DOCTYPE html><html><head><title>Other page</title></head><body><p>")
	for range 300 {
		fmt.Fprintf(&b, "w%d ", rng.IntN(5000))
	}
	b.WriteString("</p></body></html>")
	return b.Bytes()
}

// trial is a ring with its web.
type trial struct {
	*options
	web   *harness.Web
	peers []*harness.Peer
	liars []*proxy
}

// peers: ten real peers crawl a web, two of them through proxies that forge pages.
func peers(ctx context.Context, o *options) (fine bool, err error) {
	ctx, stop := context.WithTimeout(ctx, crawlLimit+3*time.Minute)
	var group sync.WaitGroup
	t := &trial{options: o}
	defer func() {
		for _, p := range t.peers {
			p.Kill()
		}
		stop()
		group.Wait()
	}()
	err = harness.Try(func() { fine = t.do(ctx, &group) })
	return fine, err
}

func (t *trial) do(ctx context.Context, group *sync.WaitGroup) bool {
	cfg := webgen.DefaultConfig()
	cfg.Seed, cfg.Hosts, cfg.PagesPerHost, cfg.PageBytes, cfg.Links, cfg.ErrorShare = t.seed, ringHosts, ringPages, 4000, 20, 0
	t.web = harness.Must(harness.ServeWeb(ctx, group, fmt.Sprintf("127.0.0.1:%d", t.port), cfg))
	t.start(ctx, group)
	seeds := filepath.Join(t.work, "seeds")
	harness.Check(os.WriteFile(seeds, []byte(strings.Join(t.web.Seeds(), "\n")), 0o600))
	begun := time.Now()
	crawling, stop := context.WithTimeout(ctx, crawlLimit)
	_, err := harness.Apoidea(crawling, "crawl", "--data-dir", t.peers[0].Dir, "--seeds", seeds, "--scope", fmt.Sprintf("*.web.localhost:%d", t.port), "--wait")
	stop()
	fine := check(err == nil, "the job ends: %.0f s, %v", time.Since(begun).Seconds(), err)

	audit := t.web.Audit().Totals
	lines := harness.Must(exec.CommandContext(ctx, "apoidea", "export", "urls", "--ring", "--data-dir", t.peers[0].Dir).Output())
	names := make(map[string]int) // of the peers, by ID
	for i, p := range t.peers {
		names[harness.Must(p.Client.Status(ctx, false)).Peer] = i
	}
	for _, p := range t.peers {
		p.Leave()
	}
	fine = t.judgePages(ctx, lines) && fine
	fine = t.judgeWorkers(names) && fine
	return t.judgeRequests(&audit) && fine
}

// start starts the peers, and proxies for the liars.
func (t *trial) start(ctx context.Context, group *sync.WaitGroup) {
	for i := range ringPeers {
		args := []string{
			"--profile", "lab", "--allow-private", "--delay", ringDelay.String(), "--placement", "random", "--dashboard", "off",
			"--check-rate", "2%", "--scope", fmt.Sprintf("*.web.localhost:%d", t.port),
		}
		if i >= 1 && i <= ringLiars && !t.honest {
			l := harness.Must((&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0"))
			p := &proxy{name: fmt.Sprintf("proxy %d", i), site: fmt.Sprintf("127.0.0.1:%d", t.port)}
			group.Go(func() { p.serve(ctx, l) })
			t.liars = append(t.liars, p)
			args = append(args, "--proxy", "http://"+l.Addr().String())
		} else {
			args = append(args, "--fetch-from", fmt.Sprintf("127.0.1.%d", i+1))
		}
		if i > 0 {
			args = append(args, "--bootstrap", harness.Must(t.peers[0].Addrs(ctx))[0])
		}
		t.peers = append(t.peers, harness.Must(harness.Start(ctx, t.work, fmt.Sprintf("p%d", i), nil, args...)))
		harness.Must(t.peers[i].Ready(ctx, true))
	}
}

// judgePages compares the digests of all pages with those of the web server.
func (t *trial) judgePages(ctx context.Context, lines []byte) bool {
	pages, forged := 0, 0
	got := make(map[string]bool)
	harness.Check(harness.Records(bytes.NewReader(lines), func(u *control.URLLine) {
		if u.Kind != "page" || u.Outcome != "ok" && u.Outcome != "duplicate" && u.Outcome != "noindex" {
			return
		}
		pages++
		got[u.URL] = true
		if u.Digest != "" && u.Digest != t.digest(ctx, u.URL) {
			forged++
		}
	}))
	missing := 0
	truth := t.web.Truth().URLs
	for _, url := range truth {
		if !got[url] {
			missing++
		}
	}
	var lies int64
	for _, p := range t.liars {
		lies += p.forged.Load()
	}
	share := float64(forged) / float64(max(pages, 1))
	return check(share <= 0.005 && pages > 0, "%d pages, %d of %d missing; %d forged left (%.2f %%), %d responses forged", pages, missing, len(truth), forged, share*100, lies)
}

func (t *trial) digest(ctx context.Context, url string) string {
	req := harness.Must(http.NewRequestWithContext(ctx, http.MethodGet, url, nil))
	host := req.URL.Host
	req.URL.Host, req.Host = fmt.Sprintf("127.0.0.1:%d", t.port), host
	res, err := http.DefaultTransport.RoundTrip(req)
	harness.Check(err)
	defer res.Body.Close()
	return fmt.Sprintf("sha256:%x", sha256.Sum256(harness.Must(io.ReadAll(res.Body))))
}

// judgeWorkers reads what the owners stored of the workers.
func (t *trial) judgeWorkers(names map[string]int) bool {
	var sum [ringPeers]trust.Worker
	owners := [ringPeers]int{} // that have found a worker
	for _, p := range t.peers {
		store := harness.Must(storage.Open(filepath.Join(p.Dir, "db"), storage.Options{ReadOnly: true}))
		lo := ondisk.TrustKey("")
		harness.Check(store.Keyspace(storage.KeyspaceHosts).Scan(lo, ondisk.TrustKey("\xff"), func(key, value []byte) bool {
			w := harness.Must(trust.Decode(value))
			i, ok := names[peer.ID(key[len(lo):]).String()]
			if !ok {
				return true
			}
			s := &sum[i]
			s.Pages, s.Checked, s.Agreed, s.Unclear, s.Lost = s.Pages+w.Pages, s.Checked+w.Checked, s.Agreed+w.Agreed, s.Unclear+w.Unclear, s.Lost+w.Lost
			if w.Lost > 0 {
				owners[i]++
			}
			return true
		}))
		harness.Check(store.Close())
	}
	found, wrong := 0, 0
	for i := range sum {
		s := &sum[i]
		liar := i >= 1 && i <= len(t.liars)
		if s.Lost > 0 && liar {
			found++
		} else if s.Lost > 0 {
			wrong++
		}
		say("p%d: liar %v; %d pages, %d checked, %d agreed, %d unclear, lost %d at %d owners", i, liar, s.Pages, s.Checked, s.Agreed, s.Unclear, s.Lost, owners[i])
	}
	return check(found == len(t.liars) && wrong == 0, "%d of %d liars found, %d honest workers reset", found, len(t.liars), wrong)
}

// judgeRequests prints the requests beyond one for each URL; on honest peers they are those of the
// checks.
func (t *trial) judgeRequests(a *webgen.AuditHost) bool {
	extra := a.Requests - a.DistinctURLs
	say("%d requests of %d URLs: %d more (%.1f %%); %d for robots.txt of %d hosts; smallest gap %v ms", a.Requests, a.DistinctURLs, extra,
		100*float64(extra)/float64(a.DistinctURLs), a.RobotsRequests, ringHosts, gapText(a.SmallestGapMS))
	return check(a.Overlaps == 0 && a.RobotsViolations == 0, "%d overlaps, %d requests against robots.txt", a.Overlaps, a.RobotsViolations)
}

func gapText(ms *float64) string {
	if ms == nil {
		return "no"
	}
	return fmt.Sprintf("%.0f", *ms)
}
