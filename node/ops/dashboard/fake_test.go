package dashboard

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apoidea/apoidea/node/control"
)

// fake is a peer that says what a test wants and notes what it was told.
type fake struct {
	mu      sync.Mutex
	status  control.Status
	ring    control.Ring
	near    []control.PeerLine // attached
	crawled Crawled
	limits  control.Limits
	gauges  Gauges
	recent  Recent
	refused []Refused
	jobs    []control.Job
	names   map[string]control.Name
	fail    error
	told    []string
	events  chan control.RingEvent
}

var _ Peer = (*fake)(nil)

// newFake is a peer of a ring of eight that crawls.
func newFake() *fake {
	f := &fake{events: make(chan control.RingEvent, 8)}
	f.status = control.Status{
		Peer: name(0), Network: "test", Version: "1", State: "crawling", UptimeS: 4000, RSSBytes: 80e6,
		Counters: control.Counters{Pages: 12345, Duplicates: 67, Bytes: 89e6, URLsPending: 4321, HostsOwned: 12, Errors: 3},
	}
	f.ofSize(8)
	for i := range 12 {
		f.crawled.Hosts = append(f.crawled.Hosts, control.HostLine{
			Host: fmt.Sprintf("h%d.example", i), Owner: name(0), Worker: name(i % 8), Key: fmt.Sprintf("%064x", i), RTTMs: float64(i), Pending: int64(100 - i), Pages: int64(i),
		})
	}
	f.crawled.Total = 40
	f.limits.Settings = []control.Setting{
		{Key: "bandwidth", Value: "250kB", Default: "none", Changed: true, About: "what may come"},
		{Key: "fetchers", Value: "32", Default: "32", About: "exchanges at once"},
		{Key: "pause-on-battery", Value: "false", Default: "false", About: "pause while the machine runs on its battery"},
	}
	f.limits.Caps = control.Caps{Bandwidth: 250e3, Fetchers: 32}
	f.limits.Used = control.Used{Bandwidth: 120e3, Day: 5e9, Fetchers: 7, DayPages: 21, AllPages: 4321}
	return f
}

func name(i int) string { return fmt.Sprintf("12D3KooWpeer%08d", i) }

// ofSize makes the ring a closed one of n peers, evenly spread, in the leaf set of the first.
func (f *fake) ofSize(n int) {
	f.ring, f.status.Peers, f.status.Ring = control.Ring{Closed: true}, nil, control.RingSummary{Members: n}
	for i := range n {
		m := control.Member{ArcShare: 1 / float64(n), Status: control.Status{Peer: name(i), Position: fmt.Sprintf("%08x%056x", uint64(i)*(1<<32)/uint64(n), 0)}}
		f.ring.Members = append(f.ring.Members, m)
		if i > 0 {
			f.status.Peers = append(f.status.Peers, control.PeerLine{Peer: m.Peer, Position: m.Position, RTTMs: 1.5, Role: "ring"})
		}
	}
	f.status.Position, f.status.Ring.Arc = f.ring.Members[0].Position, [2]string{f.ring.Members[n-1].Position, f.ring.Members[0].Position}
}

func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fake) tell(words string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail == nil {
		f.told = append(f.told, words)
	}
	return f.fail
}

func (f *fake) wasTold() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.told...)
}

func (f *fake) Status(context.Context, bool) (*control.Status, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.status
	return &s, nil
}

func (f *fake) Ring(context.Context) (*control.Ring, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.ring
	return &r, nil
}

func (f *fake) Attached() []control.PeerLine {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.near
}

func (f *fake) Crawled(_ context.Context, limit int) (*Crawled, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.crawled
	c.Hosts = append([]control.HostLine(nil), c.Hosts[:min(limit, len(c.Hosts))]...)
	return &c, nil
}

func (f *fake) Gauges(context.Context) (Gauges, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gauges, nil
}

func (f *fake) Watch(ctx context.Context, fn func(control.RingEvent) error) error {
	for {
		select {
		case e := <-f.events:
			if err := fn(e); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func (f *fake) Pause(_ context.Context, d time.Duration) (*control.Limits, error) {
	return nil, f.tell("pause " + d.String())
}

func (f *fake) Lately() (all, failed []Outcome) { return f.recent.Lately() }

func (f *fake) Refused() []Refused {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refused
}

func (f *fake) Post(_ context.Context, s control.JobSpec) (*control.Job, error) {
	return nil, f.tell(fmt.Sprint("post ", s.URLs, " ", s.MaxPages))
}

func (f *fake) Jobs(context.Context) ([]control.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.jobs), nil
}

func (f *fake) SetJob(_ context.Context, id, action string) (*control.Job, error) {
	return nil, f.tell(action + " job " + id)
}

func (f *fake) JobKey(context.Context) (*control.JobKey, error) {
	return &control.JobKey{ID: "own key"}, nil
}

func (f *fake) PeerName(id string) control.Name { return f.names[id] }

func (f *fake) Resume(context.Context) (*control.Limits, error) { return nil, f.tell("resume") }

func (f *fake) SetLimits(_ context.Context, values map[string]string) (*control.Limits, error) {
	return nil, f.tell(fmt.Sprint("set ", values))
}

func (f *fake) Limits(context.Context) (*control.Limits, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.limits
	return &l, nil
}

// served is a page on a loopback port, with a browser that keeps cookies and follows no redirects.
type served struct {
	*Server
	t    *testing.T
	base string
	http *http.Client
}

func serve(t *testing.T, peer Peer) *served {
	t.Helper()
	return serveConfig(t, Config{Name: "test"}, peer)
}

func serveConfig(t *testing.T, cfg Config, peer Peer) *served {
	t.Helper()
	cfg.DataDir = t.TempDir()
	s, err := New(cfg, peer, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ln, err := Listen(t.Context(), "127.0.0.1:0", "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	jar, _ := cookiejar.New(nil)
	return &served{Server: s, t: t, base: "http://" + ln.Addr().String() + "/", http: &http.Client{
		Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", ln.Addr().String())
		}},
	}}
}

// login opens a link as `apoidea dashboard` prints it.
func (s *served) login() {
	s.t.Helper()
	if res := s.ask(http.MethodGet, strings.TrimPrefix(s.Link(s.base), s.base), "", nil); res.StatusCode != http.StatusSeeOther {
		s.t.Fatalf("login: %s", res.Status)
	}
}

// ask sends a request; a body makes it a form. The answer's body is read, closed and kept as a
// string in Status's place: see text.
func (s *served) ask(method, path, body string, change func(*http.Request)) *answer {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.base+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if change != nil {
		change(r)
	}
	res, err := s.http.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	var b strings.Builder
	buf := make([]byte, 64<<10)
	for {
		n, err := res.Body.Read(buf)
		b.Write(buf[:n])
		if err != nil {
			break
		}
	}
	return &answer{Response: res, text: b.String()}
}

type answer struct {
	*http.Response
	text string
}
