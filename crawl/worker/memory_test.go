package worker

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/worker/pages"
)

// testSpill is a bounded disk in memory.
type testSpill struct {
	max     int
	corrupt bool // what is read back is not what was written

	mu    sync.Mutex
	bytes int
	open  int
}

var errTestFull = errors.New("full")

func (s *testSpill) Create() (fetch.Spilled, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes >= s.max {
		return nil, errTestFull
	}
	s.open++
	return &testSpilled{disk: s}, nil
}

type testSpilled struct {
	disk *testSpill
	data []byte
}

func (f *testSpilled) Write(p []byte) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.disk.bytes+len(p) > f.disk.max {
		return 0, errTestFull
	}
	f.disk.bytes += len(p)
	f.data = append(f.data, p...)
	return len(p), nil
}

func (f *testSpilled) Reader() io.Reader {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.disk.corrupt {
		f.disk.corrupt = false
		return io.MultiReader(bytes.NewReader(f.data[:len(f.data)/2]), &broken{})
	}
	return bytes.NewReader(f.data)
}

// broken is a disk that cannot be read.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("damaged") }

func (f *testSpilled) Size() int64 { return int64(len(f.data)) }

func (f *testSpilled) Close() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.disk.bytes -= len(f.data)
	f.disk.open--
	f.data = nil
	return nil
}

// bigSite is a site whose every page, robots.txt aside, ends in n bytes more.
func bigSite(pages, n int) http.HandlerFunc {
	inner, big := site(pages), strings.Repeat("x", n)
	return func(rw http.ResponseWriter, r *http.Request) {
		inner(rw, r)
		if r.URL.Path != "/robots.txt" {
			fmt.Fprint(rw, big)
		}
	}
}

// manyHosts are seeds at that many hosts.
func manyHosts(n int) (seeds []string) {
	for i := range n {
		seeds = append(seeds, fmt.Sprintf("http://h%d.example/", i))
	}
	return seeds
}

// TestLargeBodies: bodies of which one alone fills the memory come through a disk with room, a full
// one, one that fills up, and none, whole and with the account at zero afterwards.
func TestLargeBodies(t *testing.T) {
	const large, hosts, pages = 900 << 10, 12, 3
	for _, tt := range []struct {
		name string
		disk int
	}{
		{"disk with room", 1 << 30},
		{"little disk", 2 << 20},
		{"full disk", 1},
		{"no disk", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				disk := &testSpill{max: tt.disk}
				x := newWorld(t, bigSite(pages, large), manyHosts(hosts), func(x *world) {
					x.cfg.MaxMemory = 1 << 20
					x.cfg.ClaimLinger = 50 * time.Millisecond
					if tt.disk > 0 {
						x.deps.Spill = disk
					}
				})
				x.crawl()
				if got := x.outcomes(); got[link.OutcomeOK]+got[link.OutcomeDuplicate] != hosts*pages {
					t.Errorf("outcomes %v", got)
				}
				for _, e := range x.archive.saved {
					if len(e.Body) > 0 && !bytes.HasSuffix(e.Body, bytes.Repeat([]byte("x"), large)) {
						t.Fatalf("%s came back changed: %d bytes", e.URL, len(e.Body))
					}
				}
				l := x.worker.pipe
				if l.Held() != 0 || l.Full() || disk.open != 0 || disk.bytes != 0 {
					t.Errorf("left behind: %d bytes, %d files of %d bytes", l.Held(), disk.open, disk.bytes)
				}
			})
		})
	}
}

// TestDamagedSpill: a page whose body cannot be read back from disk is fetched again.
func TestDamagedSpill(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		disk := &testSpill{max: 1 << 30, corrupt: true}
		x := newWorld(t, bigSite(3, 900<<10), manyHosts(4), func(x *world) {
			x.cfg.MaxMemory = 1 << 20
			x.deps.Spill = disk
		})
		x.crawl()
		if got := x.outcomes(); got[link.OutcomeOK]+got[link.OutcomeDuplicate] != 12 {
			t.Errorf("outcomes %v", got)
		}
		twice := 0
		for url, n := range x.asked {
			if !strings.HasSuffix(url, "/robots.txt") && n > 1 {
				twice += n - 1
			}
		}
		if disk.corrupt || twice != 1 {
			t.Errorf("%d pages were asked for again, want the one that was damaged", twice)
		}
	})
}

// lateRefusal is a disk that refuses a page when all others have left the memory.
type lateRefusal struct{ others func() }

func (s lateRefusal) Create() (fetch.Spilled, error) {
	s.others()
	return nil, errTestFull
}

// TestRoomWhileSpilling: memory that became free while a page was on its way to a disk that refused
// it is seen.
func TestRoomWhileSpilling(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		var l *pages.Pipeline
		x := newWorld(t, bigSite(1, 40<<10), manyHosts(2), func(x *world) {
			x.cfg.MaxMemory = 50 << 10
			x.deps.Spill = lateRefusal{func() {
				for used := int64(1); used > 0; time.Sleep(time.Millisecond) { // of virtual time
					used = l.Held()
				}
			}}
		})
		l = x.worker.pipe
		x.crawl()
		if got := x.outcomes(); got[link.OutcomeOK]+got[link.OutcomeDuplicate] != 2 {
			t.Errorf("outcomes %v", got)
		}
	})
}

// TestReportsAreBounded: links of outcomes that an owner is slow to acknowledge take memory as
// well, and no further page is begun while they take too much.
//
// Slow: thousands of pages with many links in virtual time.
func TestReportsAreBounded(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		const hosts, bound = 40, 2 << 20
		var most int64
		x := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/" {
				http.NotFound(rw, r)
				return
			}
			rw.Header().Set("Content-Type", "text/html")
			fmt.Fprintln(rw, r.Host)
			for i := range 300 {
				fmt.Fprintf(rw, "<a href=/%d/%s>x</a>\n", i, strings.Repeat("long", 400))
			}
		}, manyHosts(hosts), func(x *world) {
			x.cfg.MaxMemory, x.cfg.MaxReportBytes = bound, bound
			x.deps.Spill = &testSpill{max: 1 << 30}
			inner := x.deps.Events
			x.deps.Events = func(e Event) {
				inner(e)
				x.worker.mu.Lock()
				defer x.worker.mu.Unlock()
				sum := int64(0)
				for _, s := range x.worker.sessions.Sessions() {
					sum += s.Bytes()
				}
				most = max(most, sum)
			}
		})
		x.owner("h0.example").pause = time.Second
		x.crawl()
		if got := x.outcomes(); got[link.OutcomeOK] != hosts {
			t.Errorf("outcomes %v, want %d ok", got, hosts)
		}
		if most == 0 || most > 3*bound {
			t.Errorf("%d bytes of outcomes were kept, at most %d are to be, and what was under way", most, bound)
		}
		if n := x.worker.telling.Load(); n != 0 {
			t.Errorf("%d bytes are counted at the end", n)
		}
	})
}

// TestDripsHoldNoMemory: sites whose large bodies drip do not keep another's from being worked on.
func TestDripsHoldNoMemory(t *testing.T) {
	for _, disk := range []bool{true, false} {
		crawltest.Bubble(t, func(t *testing.T) {
			inner := bigSite(10, 700<<10)
			x := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/robots.txt" || r.Host == "h0.example" {
					inner(rw, r)
					return
				}
				piece := bytes.Repeat([]byte("x"), 600<<10)
				rw.Write(piece)
				for range 1000 {
					if _, err := rw.Write(piece[:2<<10]); err != nil {
						return
					}
					rw.(http.Flusher).Flush()
					select {
					case <-time.After(time.Second):
					case <-r.Context().Done():
						return
					}
				}
			}, manyHosts(6), func(x *world) {
				x.cfg.MaxMemory = 1 << 20
				if disk {
					x.deps.Spill = &testSpill{max: 1 << 30}
				}
			})
			start := time.Now()
			limit := time.Minute / 2
			if !disk {
				limit = 30 * time.Minute // each drips for a minute, one after another, before every page
			}
			if err := x.run(func() bool {
				x.mu.Lock()
				defer x.mu.Unlock()
				h := x.owners["owner"].hosts["h0.example"]
				return h != nil && len(h.done) == 10
			}); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); took > limit {
				t.Errorf("disk %v: the pages of the other host took %v", disk, took)
			}
		})
	}
}

// TestDue: a host that waits for politeness, or whose worker is paused, is none that may be asked
// now.
func TestDue(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		x := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/robots.txt" {
				fmt.Fprint(rw, "User-agent: *\nCrawl-delay: 30\n")
				return
			}
			site(3)(rw, r)
		}, manyHosts(2))
		seen, before := 0, false
		if err := x.run(func() bool {
			s := x.worker.Stats()
			if s.Due && before {
				t.Errorf("due for two looks while fetchers are free: %+v", s)
			} else if s.Window > 0 && s.InFlight == 0 {
				seen++
			}
			before = s.Due
			return x.idle()
		}); err != nil {
			t.Fatal(err)
		}
		if s := x.worker.Stats(); seen == 0 || s.Acknowledged != 6 {
			t.Errorf("%d looks at hosts that wait, %d outcomes acknowledged", seen, s.Acknowledged)
		}
		w := x.worker
		w.mu.Lock()
		w.stopping = false
		w.accept()
		w.visits.Allow(1)
		w.mu.Unlock()
		leased(w, "late.example", time.Hour, "http://late.example/")
		if !w.Stats().Due {
			t.Error("a host that nobody asks is not due")
		}
		if w.Pause(); w.Stats().Due {
			t.Error("due while paused")
		}
	})
}
