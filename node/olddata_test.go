package node

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/owner/salvage"
	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/dedup"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/urlsets"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
	"github.com/apoidea/apoidea/storage/storagetest"
)

// Data directories as earlier versions wrote them are kept under testdata: a dump of the database
// and the archive beside it. See the README there.

var makeData = flag.String("make-data", "", "write the data directories of a ring in the middle of a crawl into a directory")

// oldPort is where the web of those crawls is served: its hosts have it in their names. It is below
// the ports that systems hand out.
const oldPort = 22753

// oldWeb serves the web of those crawls, slowly enough to be stopped in the middle.
func oldWeb(t *testing.T, latency time.Duration) *testWeb {
	t.Helper()
	w := &testWeb{Web: webgen.New(webgen.Config{
		Seed: 7, Hosts: 6, PagesPerHost: 12, Links: 5, PageBytes: 300, CrossHostShare: 0.3, DuplicateShare: 0.1, ErrorShare: 0.1, RedirectShare: 0.1,
		RobotsShare: 0.5, SitemapShare: 0.2, Latency: latency, SlowLatency: 2 * latency,
	}), port: oldPort}
	var ln net.Listener
	until(t, fmt.Sprintf("port %d is free", oldPort), func(ctx context.Context) bool {
		var err error
		ln, err = (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", oldPort))
		return err == nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	var served sync.WaitGroup
	served.Go(func() {
		if err := w.Serve(ctx, ln); err != nil {
			t.Errorf("web: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		served.Wait()
	})
	return w
}

// oldJobs are what those crawls were asked for: the hosts of three seeds each, so no URL is of
// both.
func oldJobs(w *testWeb) []control.JobSpec {
	depth := uint32(9)
	seeds := w.Seeds(w.port)
	return []control.JobSpec{
		{URLs: seeds[:3], Scope: hostsOf(seeds[:3]), MaxDepth: &depth, MaxPages: 1000, Continue: true},
		{URLs: seeds[3:], Scope: hostsOf(seeds[3:]), Continue: true},
	}
}

func hostsOf(urls []string) (hosts []string) {
	for _, u := range urls {
		hosts = append(hosts, link.Host(u))
	}
	return hosts
}

// oldConfig is how their peers are set up.
func oldConfig(dir string, i int) Config {
	cfg := DefaultConfig(dir, ProfileLab)
	cfg.AllowPrivate, cfg.Delay, cfg.Network, cfg.LeaseTTL, cfg.Replicas, cfg.Placement = true, 0, "old", 2*time.Second, 2, "ipmicra"
	cfg.FetchFrom = netip.AddrFrom4([4]byte{127, 0, 3, byte(i + 1)}) // a small number
	cfg.Listen = []string{fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", oldPort+1+i)}
	cfg.Fetchers, cfg.Patience = 2, time.Millisecond // what has to be tried again in a minute is not waited for
	return cfg
}

// TestMakeOldData writes what TestOldData reads.
func TestMakeOldData(t *testing.T) {
	if *makeData == "" {
		t.Skip("-make-data is not given")
	}
	web := oldWeb(t, 30*time.Millisecond)
	var peers []*testPeer
	for i := range 2 {
		cfg := oldConfig(filepath.Join(t.TempDir(), fmt.Sprint("peer", i+1)), i)
		if i > 0 {
			cfg.Bootstrap = []string{peers[0].room.net.Addrs()[0]}
		}
		peers = append(peers, startWith(t, cfg))
	}
	settle(t, peers)
	if _, err := peers[0].SetLimits(t.Context(), map[string]string{"bandwidth": "10MB/s"}); err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"host opted.out.example", "domain out.example"} {
		if _, err := peers[0].SetOptOut(t.Context(), subject, "opt-out"); err != nil {
			t.Fatal(err)
		}
	}
	for _, spec := range oldJobs(web) {
		if _, err := peers[0].Post(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "a part of it is crawled", func(ctx context.Context) bool {
		s, err := peers[0].Status(ctx, true)
		return err == nil && s.Pages+s.Duplicates >= 25
	})
	var stopped sync.WaitGroup
	for _, p := range peers {
		stopped.Go(func() {
			if err := p.stop(); err != nil {
				t.Error(err)
			}
		})
	}
	stopped.Wait()
	for i, p := range peers {
		to := filepath.Join(*makeData, fmt.Sprint("peer", i+1))
		if err := os.MkdirAll(to, 0o755); err != nil {
			t.Fatal(err)
		}
		store, err := storage.Open(filepath.Join(p.cfg.DataDir, "db"), storage.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := storagetest.WriteDump(filepath.Join(to, "db.gz"), store); err != nil {
			t.Error(err)
		}
		_ = store.Close()
	}
}

// oldRings are the directories under testdata, one for each version of the records.
func oldRings(t *testing.T) []string {
	t.Helper()
	rings, err := filepath.Glob("testdata/records-*")
	if err != nil || len(rings) == 0 {
		t.Fatalf("%d rings, %v", len(rings), err)
	}
	return rings
}

// TestOldData: peers that find what earlier versions wrote go on with their crawl: what had an
// outcome is not fetched again, what waited is fetched, jobs, opt-outs and copies are there.
func TestOldData(t *testing.T) {
	for _, from := range oldRings(t) {
		t.Run(filepath.Base(from), func(t *testing.T) { goOnWith(t, from) })
	}
}

func goOnWith(t *testing.T, from string) {
	dir := t.TempDir()
	done, waiting := make(map[string]bool), make(map[string]bool)
	for i := range 2 {
		name := fmt.Sprint("peer", i+1)
		if err := storagetest.LoadDump(filepath.Join(from, name, "db.gz"), filepath.Join(dir, name, "db")); err != nil {
			t.Fatal(err)
		}
		addUp(t, filepath.Join(dir, name), done, waiting)
	}
	if len(done) == 0 || len(waiting) < 10 {
		t.Fatalf("%d URLs are done and %d wait before", len(done), len(waiting))
	}
	web := oldWeb(t, time.Millisecond)
	var peers []*testPeer
	for i := range 2 {
		cfg := oldConfig(filepath.Join(dir, fmt.Sprint("peer", i+1)), i)
		if i > 0 {
			cfg.Bootstrap = []string{peers[0].room.net.Addrs()[0]}
		}
		peers = append(peers, startWith(t, cfg))
	}
	settle(t, peers)
	var ids []string
	for i, spec := range oldJobs(web) {
		j, err := peers[i].Post(t.Context(), spec)
		if err != nil || !j.Continued {
			t.Fatalf("the job posted again: %+v, %v; want it continued", j, err)
		}
		ids = append(ids, j.ID)
	}
	waitIdle(t, peers[0])
	lines, err := allURLs(t.Context(), peers[1])
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range web.Audit().Hosts {
		if h.Overlaps+h.SelfOverlaps+h.RepeatedURLs+h.Disallowed > 0 {
			t.Errorf("host %s: %d overlaps of workers, %d of one, %d URLs asked for again, %d that robots.txt forbids", h.Host, h.Overlaps, h.SelfOverlaps, h.RepeatedURLs, h.Disallowed)
		}
	}
	for u := range web.AuditURLs() {
		if url := fmt.Sprintf("http://%s:%d%s", u.Host, oldPort, u.Path); done[url] {
			t.Errorf("%s had an outcome and was asked for again", url)
		}
	}
	if c, err := peers[1].OptOutCheck(t.Context(), "http://opted.out.example/"); err != nil || !c.OptedOut {
		t.Errorf("%+v, %v; want it opted out", c, err)
	}
	again, domains := make(map[string]bool), 0
	for _, p := range peers {
		if err := p.stop(); err != nil {
			t.Fatal(err)
		}
		addUp(t, p.cfg.DataDir, make(map[string]bool), again)
		if domainIsOut(t, p.cfg.DataDir, "a.out.example") {
			domains++
		}
	}
	for i, walk := range []webgen.Walk{{Port: oldPort, Seeds: []int{0, 1, 2}, MaxDepth: 9}, {Port: oldPort, Seeds: []int{3, 4, 5}, MaxDepth: -1}} {
		urls := slices.Collect(maps.Keys(again))
		for _, l := range lines {
			if (l.Outcome == "ok" || l.Outcome == "duplicate" || l.Outcome == "noindex") && l.Job == ids[i] && !strings.Contains(l.URL, "/sitemap") {
				urls = append(urls, l.URL)
			}
		}
		slices.Sort(urls)
		want := web.Truth(walk).URLs
		urls = slices.DeleteFunc(urls, func(u string) bool { return again[u] && !slices.Contains(want, u) })
		diff(t, urls, want)
	}
	if domains == 0 {
		t.Error("nobody knows that a domain has opted out")
	}
	if len(again) > 8 || len(lines) < len(done)+10 {
		t.Errorf("%d URLs have to be tried again, %d are done, %d were before", len(again), len(lines), len(done))
	}
	maps.DeleteFunc(waiting, func(url string, _ bool) bool {
		return again[url] || slices.ContainsFunc(lines, func(l control.URLLine) bool { return l.URL == url })
	})
	if len(waiting) > 0 {
		t.Errorf("forgotten: %v", waiting)
	}
}

// addUp has the owner compare its books, and notes the URLs that have an outcome and those that
// wait.
func addUp(t *testing.T, dir string, done, waiting map[string]bool) {
	t.Helper()
	store, err := storage.Open(filepath.Join(dir, "db"), storage.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	hosts := store.Keyspace(storage.KeyspaceHosts)
	if err := hosts.Scan(nil, nil, func(key, value []byte) bool {
		switch r, err := salvage.ReadRecord(key, value); {
		case err != nil:
			t.Errorf("record %x: %v", key, err)
		case r.Kind == salvage.KindDone:
			done[r.URL] = true
		case r.Kind == salvage.KindWaiting:
			waiting[r.URL] = true
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
	sets := urlsets.New(dedup.Exact, 1<<20)
	o, err := owner.New(owner.DefaultConfig("p"), readOnly{hosts}, sets, crawltest.OneJob{Spec: crawltest.Job(t, nil, "http://a.example/")}, everything{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	sets.ReadFrom(o)
	if err := o.Check(); err != nil {
		t.Error(err)
	}
}

// everything is a ring of one peer.
type everything struct{}

func (everything) Mine(ring.Key) bool { return true }

// domainIsOut says whether a peer has kept the wish of a domain that covers a host.
func domainIsOut(t *testing.T, dir, host string) bool {
	t.Helper()
	store, err := storage.Open(filepath.Join(dir, "db"), storage.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	domains, err := domain.New(readOnly{store.Keyspace(storage.KeyspaceDomains)}, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	wish, err := domains.OptOut(host)
	if err != nil {
		t.Error(err)
	}
	return wish != nil && wish.On
}

// readOnly lends a keyspace to somebody who only reads.
type readOnly struct{ *storage.Keyspace }

func (readOnly) Update(func(kv.Batch)) (wait func() error, err error) {
	return nil, errors.New("nothing is to be written")
}
