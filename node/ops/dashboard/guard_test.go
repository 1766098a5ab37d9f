package dashboard

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/node/control"
)

func header(key, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(key, value) }
}

func TestActions(t *testing.T) {
	f := newFake()
	s := serve(t, f)
	s.login()
	form := func(kv ...string) string {
		v := url.Values{"form": {s.guard.form}}
		for i := 0; i+1 < len(kv); i += 2 {
			v.Set(kv[i], kv[i+1])
		}
		return v.Encode()
	}
	for _, c := range []struct {
		name, path, body string
		change           func(*http.Request)
		status           int
		told, text       string
	}{
		{"pause", "pause", form("for", "2h"), nil, http.StatusSeeOther, "pause 2h0m0s", ""},
		{"pause for good", "pause", form("for", ""), nil, http.StatusSeeOther, "pause 0s", ""},
		{"by the script", "resume", form(), header("Accept", "text/plain"), http.StatusOK, "resume", "Resumed."},
		{"limits", "limits", form("bandwidth", " 2Mbit ", "fetchers", "32", "pause-on-battery", "true", "other", "x"), nil, http.StatusSeeOther, "set map[bandwidth:2Mbit pause-on-battery:true]", ""},
		{"a limit taken back", "limits", form("bandwidth", "none"), nil, http.StatusSeeOther, "set map[bandwidth:default]", ""},
		{"limits as they are", "limits", form("bandwidth", "250kB"), header("Accept", "text/plain"), http.StatusOK, "", "No change."},
		{"a job", "job", form("url", " http://a.example/ ", "pages", "7"), header("Accept", "text/plain"), http.StatusOK, "post [http://a.example/] 7", "posted"},
		{"a job without a bound", "job", form("url", "http://a.example/"), nil, http.StatusSeeOther, "post [http://a.example/] 0", ""},
		{"a job with a wrong bound", "job", form("url", "http://a.example/", "pages", "-1"), nil, http.StatusBadRequest, "", "must be a whole number"},
		{"a job without the form's word", "job", "url=http://a.example/", nil, http.StatusForbidden, "", ""},
		{"a job from another site", "job", form("url", "http://a.example/"), header("Sec-Fetch-Site", "cross-site"), http.StatusForbidden, "", ""},
		{"pause a job", "job/3f2a", form("action", "pause"), header("Accept", "text/plain"), http.StatusOK, "pause job 3f2a", "Job paused."},
		{"cancel a job", "job/3f2a", form("action", "cancel"), nil, http.StatusSeeOther, "cancel job 3f2a", ""},
		{"finish a job", "job/3f2a", form("action", "finish"), nil, http.StatusBadRequest, "", "must be pause, resume or cancel"},
		{"change a job without the form's word", "job/3f2a", "action=cancel", nil, http.StatusForbidden, "", ""},
		{"change a job from another site", "job/3f2a", form("action", "cancel"), header("Sec-Fetch-Site", "cross-site"), http.StatusForbidden, "", ""},
		{"a time that is none", "pause", form("for", "<b>"), nil, http.StatusBadRequest, "", "&lt;b&gt;"},
		{"without the form's word", "pause", "for=2h", nil, http.StatusForbidden, "", ""},
		{"with a wrong word", "pause", "form=" + strings.Repeat("0", 64), nil, http.StatusForbidden, "", ""},
		{"from another site", "pause", form(), header("Sec-Fetch-Site", "cross-site"), http.StatusForbidden, "", ""},
		{"from another port", "pause", form(), header("Sec-Fetch-Site", "same-site"), http.StatusForbidden, "", ""},
		{"from another origin", "pause", form(), header("Origin", "http://evil.example"), http.StatusForbidden, "", ""},
		{"under a name", "pause", form(), func(r *http.Request) { r.Host = "rebound.example" }, http.StatusMisdirectedRequest, "", ""},
		{"without the cookie", "pause", form(), header("Cookie", "apoidea-test=0"), http.StatusForbidden, "", ""},
		{"too large", "pause", form("for", strings.Repeat("x", maxForm)), nil, http.StatusBadRequest, "", ""},
		{"no action", "leave", form(), nil, http.StatusNotFound, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f.set(func() { f.told = nil })
			if c.name == "without the cookie" {
				jar := s.http.Jar
				s.http.Jar = nil
				defer func() { s.http.Jar = jar }()
			}
			res := s.ask(http.MethodPost, c.path, c.body, c.change)
			if res.StatusCode != c.status {
				t.Errorf("%s, want %d: %s", res.Status, c.status, res.text)
			}
			if got := strings.Join(f.wasTold(), "; "); got != c.told {
				t.Errorf("the peer was told %q, want %q", got, c.told)
			}
			if !strings.Contains(res.text, c.text) {
				t.Errorf("the answer does not say %q: %s", c.text, res.text)
			}
		})
	}
	t.Run("refused by the peer", func(t *testing.T) {
		f.set(func() { f.fail = control.Usage(`limits: bandwidth "fast": must be a rate`) })
		defer f.set(func() { f.fail = nil })
		res := s.ask(http.MethodPost, "limits", form("bandwidth", "fast"), nil)
		if res.StatusCode != http.StatusBadRequest || !strings.Contains(res.text, `must be a rate`) || !strings.Contains(res.text, `value="fast"`) || !strings.Contains(res.text, "<details open>") {
			t.Errorf("%s: the reason, or what was written, is missing", res.Status)
		}
		f.set(func() { f.fail = errors.New("the disk is full") })
		if res := s.ask(http.MethodPost, "resume", form(), header("Accept", "text/plain")); res.StatusCode != http.StatusInternalServerError || res.text != "The disk is full.\n" {
			t.Errorf("%s: %q", res.Status, res.text)
		}
	})
}

func TestTickets(t *testing.T) {
	g := newGuard([]byte("secret"), "test")
	now := time.Unix(1_800_000_000, 0)
	first := g.ticket(now)
	for name, c := range map[string]struct {
		text string
		at   time.Time
		ok   bool
	}{
		"wrong": {"AAAA", now, false},
		"empty": {"", now, false},
		"old":   {first, now.Add(ticketTime), false},
	} {
		if g.redeem(c.text, c.at) != c.ok {
			t.Errorf("%s ticket taken: %v", name, !c.ok)
		}
	}
	used := g.ticket(now)
	if !g.redeem(used, now) || g.redeem(used, now) {
		t.Error("a ticket works once")
	}
	oldest := g.ticket(now)
	for range maxTickets {
		g.ticket(now)
	}
	if g.redeem(oldest, now) || len(g.tickets) > maxTickets {
		t.Errorf("%d tickets are kept", len(g.tickets))
	}
}

func TestLoginSurvivesRestarts(t *testing.T) {
	dir := t.TempDir()
	a, err := readSecret(dir)
	if err != nil {
		t.Fatal(err)
	}
	b, err := readSecret(dir)
	if err != nil || !slices.Equal(a, b) || len(a) != secretSize {
		t.Errorf("another secret at the second start, or an error: %v", err)
	}
	if newGuard(a, "x").session == newGuard(a, "x").form {
		t.Error("what forms carry would log in")
	}
}

// Elsewhere than on loopback a page is not for everybody's eyes.
func TestLookingFromElsewhere(t *testing.T) {
	s := serve(t, newFake())
	if res := s.ask(http.MethodGet, "", "", nil); res.StatusCode != http.StatusOK {
		t.Fatal(res.Status)
	}
	away := &Server{peer: s.peer, log: s.log, guard: s.guard, live: s.live, pages: s.pages, files: s.files, policy: s.policy}
	for _, path := range []string{"/", "/live"} {
		w := newRecorder()
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://192.0.2.1:80"+path, nil)
		away.Handler().ServeHTTP(w, r)
		if w.status != http.StatusForbidden {
			t.Errorf("%s: status %d", path, w.status)
		}
	}
}

// TestLoginToLook: with Login nothing of the peer is shown on loopback either, until somebody comes
// with a ticket, of which no later address tells.
func TestLoginToLook(t *testing.T) {
	s := serveConfig(t, Config{Name: "test", Login: true}, newFake())
	for _, path := range []string{"", "live", "?said=paused", "login", "login?ticket=", "login?ticket=AAAA"} {
		res := s.ask(http.MethodGet, path, "", nil)
		if res.StatusCode != http.StatusForbidden || !strings.Contains(res.text, "apoidea dashboard") || len(res.text) > 200 {
			t.Errorf("/%s: %s: %s", path, res.Status, res.text)
		}
	}
	link := strings.TrimPrefix(s.Link(s.base), s.base)
	res := s.ask(http.MethodGet, link, "", nil)
	if res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != "/" || res.Header.Get("Referrer-Policy") != "no-referrer" {
		t.Errorf("login: %s to %q, referrer %q", res.Status, res.Header.Get("Location"), res.Header.Get("Referrer-Policy"))
	}
	if res := s.ask(http.MethodGet, "", "", nil); res.StatusCode != http.StatusOK {
		t.Errorf("after the login: %s", res.Status)
	}
	s.http.Jar = nil
	if res := s.ask(http.MethodGet, link, "", nil); res.StatusCode != http.StatusForbidden || strings.Contains(res.text, "ticket=") {
		t.Errorf("the link worked twice: %s", res.Status)
	}
}

// recorder is a ResponseWriter that keeps the status alone.
type recorder struct {
	header http.Header
	status int
}

func newRecorder() *recorder { return &recorder{header: make(http.Header)} }

func (w *recorder) Header() http.Header { return w.header }
func (w *recorder) Write(p []byte) (int, error) {
	w.status = max(w.status, http.StatusOK)
	return len(p), nil
}
func (w *recorder) WriteHeader(status int) { w.status = max(w.status, status) }

func TestAnswersAreCareful(t *testing.T) {
	s := serve(t, newFake())
	page := s.ask(http.MethodGet, "", "", nil)
	for path, cached := range map[string]bool{"": false, s.path(t, "page.js"): true, "nothing": false} {
		res := s.ask(http.MethodGet, path, "", nil)
		policy := res.Header.Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || res.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("/%s: policy %q", path, policy)
		}
		if strings.Contains(res.Header.Get("Cache-Control"), "immutable") != cached {
			t.Errorf("/%s: cache %q", path, res.Header.Get("Cache-Control"))
		}
	}
	if len(page.text)+len(s.ask(http.MethodGet, s.path(t, "page.js"), "", nil).text) > 100<<10 {
		t.Error("the page and its files have more than 100 KB")
	}
}

// path is where one of the files is served.
func (s *served) path(t *testing.T, name string) string {
	for path := range s.files {
		if strings.HasSuffix(path, name) {
			return path[1:]
		}
	}
	t.Fatalf("no file %s", name)
	return ""
}

// events reads a stream until fn has seen enough.
func (s *served) events(t *testing.T, fn func(line string) (enough bool)) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.base+"live", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatal(res.Status)
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if fn(lines.Text()) {
			return
		}
	}
	t.Fatalf("the stream ended: %v", lines.Err())
}

// An open page gets what changed and nothing else, at once where something happened on the ring.
func TestLive(t *testing.T) {
	f := newFake()
	s := serve(t, f)
	seen := make(map[string]int)
	changed, walked := false, false
	s.events(t, func(line string) bool {
		if line == "event: beat" {
			seen["beat"]++
		}
		for _, id := range partNames {
			if strings.Contains(line, fmt.Sprintf(`{"id":%q`, id)) {
				seen[id]++
			}
		}
		if seen["beat"] > 0 && !changed {
			changed = true
			f.set(func() { f.status.State = "paused" })
			f.events <- control.RingEvent{Time: time.Now(), Event: "dead", Text: "peer x is dead"}
		}
		walked = walked || strings.Contains(line, `data-state=\"closed\"\u003e8 `) && strings.Contains(line, "checked at")
		return walked && changed && seen["state"] > 1 && seen["log"] > 1 && seen["beat"] > 1 // a living peer is heard though nothing changed
	})
	if len(seen) != len(partNames)+1 || seen["hosts"] != 1 || seen["lately"] != 1 || seen["ring"] > 2 { // the walk changes the ring
		t.Errorf("pieces that did not change were sent again: %v", seen)
	}
}

func TestTooManyPages(t *testing.T) {
	s := serve(t, newFake())
	for range maxStreams {
		if s.live.join() == nil {
			t.Fatal("too few")
		}
	}
	if res := s.ask(http.MethodGet, "live", "", nil); res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one page more: %s", res.Status)
	}
}

func FuzzBrowser(f *testing.F) {
	f.Add("POST", "/pause", "for=2h&form=x", "127.0.0.1:1", "apoidea-test=1")
	f.Add("GET", "/login?ticket=AAAA", "", "localhost", "")
	f.Add("GET", "/?said=paused", "", "[::1]:80", "a=b; apoidea-test=")
	f.Add("GET", "/live?x=%zz", "", "rebound.example", "")
	f.Add("POST", "/limits", "bandwidth=%00&fetchers=-1", "127.0.0.1", "")
	peer := newFake()
	files := &Server{peer: peer, guard: newGuard([]byte("secret"), "test"), live: newLive(peer), files: make(map[string]file), open: true}
	if err := files.load(); err != nil {
		f.Fatal(err)
	}
	handler := files.Handler()
	f.Fuzz(func(t *testing.T, method, target, body, host, cookie string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || strings.HasPrefix(u.Path, "/live") {
			return
		}
		r, err := http.NewRequestWithContext(t.Context(), method, "http://127.0.0.1/", strings.NewReader(body))
		if err != nil {
			return
		}
		r.URL, r.Host = u, host
		r.Header.Set("Cookie", cookie)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := newRecorder()
		handler.ServeHTTP(w, r)
		if told := peer.wasTold(); len(told) > 0 {
			t.Fatalf("a browser without a login had the peer told %q", told)
		}
		if w.header.Get("Content-Security-Policy") == "" || w.header.Get("Set-Cookie") != "" {
			t.Error("an answer without its policy, or with a login")
		}
	})
}
