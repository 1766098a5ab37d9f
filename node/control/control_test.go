package control_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apoidea/apoidea/node/control"
)

// fake is a backend that notes what it was asked and answers with documents of its own, or with
// fail.
type fake struct {
	fail  error
	mu    sync.Mutex // a stream that the client has read may still end
	asked string
	// hold keeps Watch going until its context ends.
	hold bool
}

func (f *fake) note(format string, args ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = fmt.Sprintf(format, args...)
	return f.fail
}

var (
	status = &control.Status{
		Peer: "p", Addrs: []string{"/a"}, State: "idle", Counters: control.Counters{Pages: 3, URLsSeen: 9},
		Ring: control.RingSummary{Members: 2, Successors: []string{"s"}, Arc: [2]string{"0", "f"}}, Peers: []control.PeerLine{{Peer: "q", RTTMs: 1.5}},
	}
	circle = &control.Ring{Closed: true, Members: []control.Member{{Successor: "q", ArcShare: 0.5, Delegated: map[string]int{"q": 2}}}}
	posted = &control.Job{ID: "3f2a", State: "running", Spec: control.JobSpec{URLs: []string{"http://a/"}}, JobCounts: control.JobCounts{Done: 4}}
	held   = &control.Limits{Paused: true, Holds: []control.Hold{{Rule: "user", Effect: "pause", Why: "paused by you"}}, Caps: control.Caps{Bandwidth: 7}}
	lookup = &control.Lookup{Query: "a", Owner: "q", Calls: 1, Trace: []control.LookupHop{{Peer: "q", Answer: "owner"}}}
	page   = &control.Dashboard{URL: "http://127.0.0.1:1/", Login: "http://127.0.0.1:1/login?ticket=t"}
	host   = &control.Host{Host: "a", Known: true, Addrs: []string{"127.0.0.1"}}
	why    = &control.Why{URL: "http://a/", Jobs: []control.WhyLine{{Job: "3f2a", State: "done"}}}
)

func (f *fake) Status(_ context.Context, ring bool) (*control.Status, error) {
	return status, f.note("status %v", ring)
}
func (f *fake) Ring(context.Context) (*control.Ring, error) { return circle, f.note("ring") }
func (f *fake) Watch(ctx context.Context, fn func(control.RingEvent) error) error {
	err := stream(f.note("watch"), fn, control.RingEvent{Event: "join", Text: "1"}, control.RingEvent{Event: "leave", Text: "2"})
	if f.hold {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (f *fake) Lookup(_ context.Context, query string) (*control.Lookup, error) {
	return lookup, f.note("lookup %s", query)
}

func (f *fake) Hosts(_ context.Context, ring bool, fn func(control.HostLine) error) error {
	return stream(f.note("hosts %v", ring), fn, control.HostLine{Host: "a"}, control.HostLine{Host: "b"})
}

func (f *fake) Peers(context.Context) ([]control.PeerLine, error) {
	return status.Peers, f.note("peers")
}

func (f *fake) Host(_ context.Context, h string) (*control.Host, error) {
	return host, f.note("host %s", h)
}

func (f *fake) SetRefresh(_ context.Context, id, refresh string) (*control.Job, error) {
	return posted, f.note("refresh of job %s: %s", id, refresh)
}

func (f *fake) Refresh(_ context.Context, target string, now bool) (*control.Refresh, error) {
	return &control.Refresh{Host: "a", URL: target, Jobs: 1}, f.note("refresh %s %v", target, now)
}

func (f *fake) OptOutCheck(_ context.Context, u string) (*control.OptOutCheck, error) {
	return &control.OptOutCheck{URL: u, OptedOut: true}, f.note("optout check %s", u)
}

func (f *fake) OptOuts(context.Context) (*control.OptOuts, error) {
	return &control.OptOuts{Hosts: []string{"h.example"}}, f.note("optouts")
}

func (f *fake) Invite(_ context.Context, id string, valid time.Duration) (*control.Invitation, error) {
	return &control.Invitation{Peer: id, Certificate: valid.String()}, f.note("ring invite %s", id)
}

func (f *fake) Revoke(_ context.Context, id string) error {
	return f.note("ring revoke %s", id)
}

func (f *fake) Accept(_ context.Context, certificate string) (*control.Admission, error) {
	return &control.Admission{Mode: "invite", Founder: certificate}, f.note("ring accept %s", certificate)
}

func (f *fake) SetOptOut(_ context.Context, subject, action string) (*control.OptOut, error) {
	return &control.OptOut{Subject: subject, Action: action}, f.note("optout %s %s", subject, action)
}

func (f *fake) Why(_ context.Context, u string) (*control.Why, error) {
	return why, f.note("why %s", u)
}

func (f *fake) AddSeeds(_ context.Context, id string, urls []string) error {
	return f.note("seeds %s %v", id, urls)
}

func (f *fake) Post(_ context.Context, spec control.JobSpec) (*control.Job, error) {
	return posted, f.note("post %v %d", spec.URLs, spec.MaxPages)
}

func (f *fake) Jobs(context.Context) ([]control.Job, error) {
	return []control.Job{*posted}, f.note("jobs")
}

func (f *fake) Job(_ context.Context, id string) (*control.Job, error) {
	return posted, f.note("job %s", id)
}

func (f *fake) JobKey(context.Context) (*control.JobKey, error) {
	return &control.JobKey{ID: "12D3KooW"}, f.note("jobkey")
}

func (f *fake) SetJob(_ context.Context, id, action string) (*control.Job, error) {
	return posted, f.note("%s %s", action, id)
}

func (f *fake) Wait(_ context.Context, job string, _ time.Duration, fn func(control.Progress) error) error {
	return stream(f.note("wait %s", job), fn, control.Progress{Members: 1}, control.Progress{Members: 1, Idle: true})
}

func (f *fake) Pause(_ context.Context, d time.Duration) (*control.Limits, error) {
	return held, f.note("pause for %v", d)
}
func (f *fake) Resume(context.Context) (*control.Limits, error) { return held, f.note("resume") }
func (f *fake) Limits(context.Context) (*control.Limits, error) { return held, f.note("limits") }
func (f *fake) SetLimits(_ context.Context, values map[string]string) (*control.Limits, error) {
	return held, f.note("set %v", values)
}

func (f *fake) Dashboard(context.Context) (*control.Dashboard, error) {
	return page, f.note("dashboard")
}
func (f *fake) Leave(context.Context) error { return f.note("leave") }

var (
	archives = &control.Archives{
		Peers:   []control.ArchivePeer{{Peer: "p", Role: "ring", Files: []control.ArchiveFile{{Name: "a.warc.gz", Bytes: 7, Open: true}}}},
		Missing: []control.Missing{{Peer: "q", Error: "no answer"}},
	}
	urlPage = &control.URLPage{URLs: []control.URLLine{{URL: "http://a/", Outcome: "ok"}}, After: "ff"}
)

func (f *fake) Archives(_ context.Context, ring bool) (*control.Archives, error) {
	return archives, f.note("archives %v", ring)
}

func (f *fake) URLs(_ context.Context, peer, after string) (*control.URLPage, error) {
	return urlPage, f.note("urls %s %s", peer, after)
}

func (f *fake) ReadArchive(_ context.Context, peer, name string, offset int64, w io.Writer) error {
	err := f.note("archive %s %s %d", peer, name, offset)
	if err == nil || name == "half" {
		if _, werr := io.WriteString(w, "some bytes"); werr != nil {
			return werr
		}
	}
	return err
}

// stream emits documents, and fails behind them if it is to fail.
func stream[T any](fail error, fn func(T) error, documents ...T) error {
	for _, d := range documents {
		if err := fn(d); err != nil {
			return err
		}
	}
	return fail
}

// token is what the servers of the tests want over TCP.
const token = "a token of these tests"

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// serve runs a server on addr until the test ends, or until stop.
func serve(t *testing.T, b control.Backend, addr string) (at net.Addr, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ln, err := control.Listen(ctx, addr, false)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- control.NewServer(b, token, quiet()).Serve(ctx, ln) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	}
	t.Cleanup(stop)
	return ln.Addr(), stop
}

// client makes a client for addr that is closed with the test.
func client(t *testing.T, addr string) *control.Client {
	t.Helper()
	c := control.NewClient(addr)
	t.Cleanup(c.Close)
	return c
}

func TestRoundTrip(t *testing.T) {
	addr := filepath.Join(t.TempDir(), "s")
	f := new(fake)
	serve(t, f, addr)
	c := client(t, addr)
	ctx := t.Context()
	collect := func(into *[]string, text string) error { *into = append(*into, text); return nil }
	for _, call := range []struct {
		asked string
		do    func() (any, error)
		want  any
	}{
		{"status false", func() (any, error) { return c.Status(ctx, false) }, status},
		{"status true", func() (any, error) { return c.Status(ctx, true) }, status},
		{"ring", func() (any, error) { return c.Ring(ctx) }, circle},
		{"lookup http://a/?q=1&r=2", func() (any, error) { return c.Lookup(ctx, "http://a/?q=1&r=2") }, lookup},
		{"peers", func() (any, error) { return c.Peers(ctx) }, status.Peers},
		{"host a:80", func() (any, error) { return c.Host(ctx, "a:80") }, host},
		{"why http://a/%20ü", func() (any, error) { return c.Why(ctx, "http://a/%20ü") }, why},
		{"optout check http://a/b", func() (any, error) { return c.OptOutCheck(ctx, "http://a/b") }, &control.OptOutCheck{URL: "http://a/b", OptedOut: true}},
		{"optouts", func() (any, error) { return c.OptOuts(ctx) }, &control.OptOuts{Hosts: []string{"h.example"}}},
		{"ring invite a", func() (any, error) { return c.Invite(ctx, "a", time.Hour) }, &control.Invitation{Peer: "a", Certificate: "1h0m0s"}},
		{"ring accept a", func() (any, error) { return c.Accept(ctx, "a") }, &control.Admission{Mode: "invite", Founder: "a"}},
		{"ring revoke a", func() (any, error) { return nil, c.Revoke(ctx, "a") }, nil},
		{"optout domain a withdraw", func() (any, error) { return c.SetOptOut(ctx, "domain a", "withdraw") }, &control.OptOut{Subject: "domain a", Action: "withdraw"}},
		{"seeds 07 [http://a/ http://b/]", func() (any, error) { return struct{}{}, c.AddSeeds(ctx, "07", []string{"http://a/", "http://b/"}) }, struct{}{}},
		{"post [http://a/] 7", func() (any, error) { return c.Post(ctx, control.JobSpec{URLs: []string{"http://a/"}, MaxPages: 7}) }, posted},
		{"jobs", func() (any, error) { return c.Jobs(ctx) }, []control.Job{*posted}},
		{"job 3f/2a", func() (any, error) { return c.Job(ctx, "3f/2a") }, posted},
		{"jobkey", func() (any, error) { return c.JobKey(ctx) }, &control.JobKey{ID: "12D3KooW"}},
		{"pause 3f2a", func() (any, error) { return c.SetJob(ctx, "3f2a", "pause") }, posted},
		{"refresh of job 3f2a: 20000/day", func() (any, error) { return c.SetRefresh(ctx, "3f2a", "20000/day") }, posted},
		{"refresh a true", func() (any, error) { return c.Refresh(ctx, "a", true) }, &control.Refresh{Host: "a", URL: "a", Jobs: 1}},
		{"pause for 0s", func() (any, error) { return c.Pause(ctx, 0) }, held},
		{"pause for 2h0m0s", func() (any, error) { return c.Pause(ctx, 2*time.Hour) }, held},
		{"resume", func() (any, error) { return c.Resume(ctx) }, held},
		{"limits", func() (any, error) { return c.Limits(ctx) }, held},
		{"set map[bandwidth:2Mbit]", func() (any, error) { return c.SetLimits(ctx, map[string]string{"bandwidth": "2Mbit"}) }, held},
		{"dashboard", func() (any, error) { return c.Dashboard(ctx) }, page},
		{"leave", func() (any, error) { return nil, c.Leave(ctx) }, nil},
		{"archives true", func() (any, error) { return c.Archives(ctx, true) }, archives},
		{"urls p ff", func() (any, error) { return c.URLs(ctx, "p", "ff") }, urlPage},
		{"archive p a/b 7", func() (any, error) {
			var b bytes.Buffer
			err := c.ReadArchive(ctx, "p", "a/b", 7, &b)
			return b.String(), err
		}, "some bytes"},
		{"watch", func() (any, error) {
			var got []string
			err := c.Watch(ctx, func(e control.RingEvent) error { return collect(&got, e.Event) })
			return got, err
		}, []string{"join", "leave"}},
		{"hosts true", func() (any, error) {
			var got []string
			err := c.Hosts(ctx, true, func(h control.HostLine) error { return collect(&got, h.Host) })
			return got, err
		}, []string{"a", "b"}},
		{"wait 3f2a", func() (any, error) {
			var got []string
			err := c.Wait(ctx, "3f2a", -1, func(p control.Progress) error { return collect(&got, fmt.Sprint(p.Idle)) })
			return got, err
		}, []string{"false", "true"}},
	} {
		t.Run(call.asked, func(t *testing.T) {
			f.fail = nil
			got, err := call.do()
			if err != nil {
				t.Fatal(err)
			}
			if f.asked != call.asked {
				t.Errorf("the peer was asked %q, want %q", f.asked, call.asked)
			}
			if !reflect.DeepEqual(got, call.want) {
				t.Errorf("answer %+v, want %+v", got, call.want)
			}
			f.fail = control.Refused("not today")
			if _, err := call.do(); control.KindOf(err) != control.KindRefused || err.Error() != "not today" {
				t.Errorf("error %v of kind %s, want the peer's refusal", err, control.KindOf(err))
			}
		})
	}
}

func TestErrorKindsTravel(t *testing.T) {
	addr := filepath.Join(t.TempDir(), "s")
	f := new(fake)
	serve(t, f, addr)
	c := client(t, addr)
	for name, w := range map[string]struct {
		err  error
		kind control.Kind
		text string
	}{
		"plain":    {errors.New("broken"), control.KindFailed, "broken"},
		"usage":    {control.Usage("wrong"), control.KindUsage, "wrong"},
		"wrapped":  {fmt.Errorf("post: %w", control.Refused("no")), control.KindRefused, "post: no"},
		"deadline": {fmt.Errorf("ask: %w", context.DeadlineExceeded), control.KindTimeout, "ask: context deadline exceeded"},
		"no peer":  {&control.Error{Kind: control.KindNoPeer, Text: "gone"}, control.KindNoPeer, "gone"},
	} {
		f.fail = w.err
		_, err := c.Ring(t.Context())
		if control.KindOf(err) != w.kind || err.Error() != w.text {
			t.Errorf("%s: %v of kind %s, want %q of kind %s", name, err, control.KindOf(err), w.text, w.kind)
		}
	}
}

func TestArchiveThatFailsHalfWay(t *testing.T) {
	addr := filepath.Join(t.TempDir(), "s")
	serve(t, &fake{fail: errors.New("peer q did not\nanswer")}, addr)
	var b bytes.Buffer
	err := client(t, addr).ReadArchive(t.Context(), "p", "half", 0, &b)
	if err == nil || err.Error() != "peer q did not answer" || b.String() != "some bytes" {
		t.Errorf("%q with error %v, want what there was and the failure", b.String(), err)
	}
}

func TestStreamStopsWhereTheReaderDoes(t *testing.T) {
	addr := filepath.Join(t.TempDir(), "s")
	serve(t, new(fake), addr)
	enough := errors.New("enough")
	n := 0
	err := client(t, addr).Hosts(t.Context(), false, func(control.HostLine) error {
		n++
		return enough
	})
	if !errors.Is(err, enough) || n != 1 {
		t.Errorf("%d documents and error %v, want one and the reader's own", n, err)
	}
}

func TestPeerThatEndsInAStream(t *testing.T) {
	addr := filepath.Join(t.TempDir(), "s")
	_, stop := serve(t, &fake{hold: true}, addr)
	err := client(t, addr).Watch(t.Context(), func(e control.RingEvent) error {
		if e.Event == "leave" {
			go stop()
		}
		return nil
	})
	if err == nil {
		t.Error("a stream that was cut off looks complete")
	}
}

func TestInterruptedCall(t *testing.T) {
	addr := filepath.Join(t.TempDir(), "s")
	serve(t, &fake{hold: true}, addr)
	ctx, cancel := context.WithCancel(t.Context())
	err := client(t, addr).Watch(ctx, func(e control.RingEvent) error {
		if e.Event == "leave" {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}

func TestNobodyThere(t *testing.T) {
	for name, addr := range map[string]string{"socket": filepath.Join(t.TempDir(), "none"), "TCP": "tcp:127.0.0.1:1"} {
		_, err := client(t, addr).Status(t.Context(), false)
		if control.KindOf(err) != control.KindNoPeer {
			t.Errorf("%s: %v of kind %s, want that no peer runs", name, err, control.KindOf(err))
		}
		if control.Answers(t.Context(), addr) {
			t.Errorf("%s: somebody answers", name)
		}
	}
}

func TestPeerThatHangsUp(t *testing.T) {
	addr := filepath.Join(t.TempDir(), "s")
	ln, err := control.Listen(t.Context(), addr, false)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	if _, err := client(t, addr).Status(t.Context(), false); control.KindOf(err) != control.KindNoPeer {
		t.Errorf("%v of kind %s, want that the peer went away", err, control.KindOf(err))
	}
}

// TestNoPeerAnswers: what answers there is another program, and is told to be.
func TestNoPeerAnswers(t *testing.T) {
	for name, answer := range map[string]string{
		"404 Not Found":    "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\n<h1>",
		"not JSON":         "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n<h1>",
		"invalid response": "\x13/multistream/1.0.0\n",
	} {
		t.Run(name, func(t *testing.T) {
			addr := filepath.Join(t.TempDir(), "s")
			ln, err := control.Listen(t.Context(), addr, false)
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			go func() {
				if c, err := ln.Accept(); err == nil {
					_, _ = c.Read(make([]byte, 1<<10))
					_, _ = io.WriteString(c, answer)
					_ = c.Close()
				}
			}()
			_, err = client(t, addr).Status(t.Context(), false)
			if err == nil || !strings.Contains(err.Error(), addr) || !strings.Contains(err.Error(), name) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestListen(t *testing.T) {
	dir := t.TempDir()
	addr := filepath.Join(dir, "s")

	stale, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", addr)
	if err != nil {
		t.Fatal(err)
	}
	stale.(*net.UnixListener).SetUnlinkOnClose(false) // as a process that was killed
	if err := stale.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(addr); err != nil {
		t.Fatalf("the stale socket is not there: %v", err)
	}
	serve(t, new(fake), addr)
	if _, err := client(t, addr).Status(t.Context(), false); err != nil {
		t.Errorf("a stale socket was not replaced: %v", err)
	}
	if info, err := os.Stat(addr); runtime.GOOS != "windows" && (err != nil || info.Mode().Perm() != 0o600) {
		t.Errorf("the socket has mode %v, %v: want 0600", info.Mode(), err)
	}

	if _, err := control.Listen(t.Context(), addr, false); err == nil || !strings.Contains(err.Error(), "another peer") {
		t.Errorf("a live socket was taken: %v", err)
	}
	if _, err := client(t, addr).Status(t.Context(), false); err != nil {
		t.Errorf("the peer lost its socket: %v", err)
	}

	for addr, remote := range map[string]bool{"tcp:0.0.0.0:0": false, "tcp::0": false, "tcp:": true, "tcp:nowhere": true} {
		if ln, err := control.Listen(t.Context(), addr, remote); control.KindOf(err) != control.KindUsage || remote == strings.Contains(err.Error(), "--api-remote") {
			t.Errorf("%s: %v, %v", addr, ln, err)
		}
	}
	if ln, err := control.Listen(t.Context(), "tcp:0.0.0.0:0", true); err != nil {
		t.Errorf("with the flag for it: %v", err)
	} else if ln.Close() != nil || control.IsLoopback(ln) || !control.WantsToken(ln) {
		t.Errorf("%s is taken for loopback", ln.Addr())
	}

	file := filepath.Join(dir, "precious")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := control.Listen(t.Context(), file, false); runtime.GOOS != "windows" && err == nil {
		t.Error("a file that is no socket was replaced")
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("a file that is no socket was removed: %v", err)
	}
}

func TestRequestBounds(t *testing.T) {
	unraced(t)
	addr := filepath.Join(t.TempDir(), "s")
	serve(t, new(fake), addr)
	c := client(t, addr)
	_, err := c.Post(t.Context(), control.JobSpec{URLs: []string{strings.Repeat("x", control.MaxRequest)}})
	if k := control.KindOf(err); k != control.KindUsage && k != control.KindNoPeer { // the answer may be lost with the connection
		t.Errorf("%v of kind %s for a job beyond the bound", err, k)
	}
	if _, err := c.Status(t.Context(), false); err != nil {
		t.Errorf("the peer is gone after an oversized request: %v", err)
	}
}

func TestRawRequests(t *testing.T) {
	at, _ := serve(t, new(fake), "tcp:127.0.0.1:0")
	base := "http://" + at.String()
	for name, c := range map[string]struct {
		method, path, body string
		header             [2]string
		want               int
	}{
		"by address":            {"GET", "/v1/status", "", [2]string{}, 200},
		"with no token":         {"GET", "/v1/status", "", [2]string{"Authorization", ""}, 401},
		"with another token":    {"GET", "/v1/status", "", [2]string{"Authorization", "Bearer " + token + "x"}, 401},
		"with a part of it":     {"GET", "/v1/status", "", [2]string{"Authorization", "Bearer " + token[:len(token)-1]}, 401},
		"as a password":         {"GET", "/v1/status", "", [2]string{"Authorization", "Basic " + token}, 401},
		"no such thing, no one": {"GET", "/v1/nothing", "", [2]string{"Authorization", ""}, 401},
		"read by another site":  {"GET", "/v1/status", "", [2]string{"Sec-Fetch-Site", "cross-site"}, 403},
		"read by another port":  {"GET", "/v1/status", "", [2]string{"Sec-Fetch-Site", "same-site"}, 403},
		"by localhost":          {"GET", "/v1/status", "", [2]string{"Host", "localhost:1"}, 200},
		"by a name":             {"GET", "/v1/status", "", [2]string{"Host", "evil.example"}, 403},
		"from another site":     {"POST", "/v1/leave", "", [2]string{"Sec-Fetch-Site", "cross-site"}, 403},
		"with another's origin": {"POST", "/v1/leave", "", [2]string{"Origin", "http://evil.example"}, 403},
		"post":                  {"POST", "/v1/leave", "", [2]string{}, 200},
		"wrong method":          {"GET", "/v1/leave", "", [2]string{}, 405},
		"no such thing":         {"GET", "/v1/nothing", "", [2]string{}, 404},
		"no JSON":               {"POST", "/v1/jobs", "{", [2]string{}, 400},
		"unknown field":         {"POST", "/v1/jobs", `{"url":["http://a/"]}`, [2]string{}, 400},
		"a job":                 {"POST", "/v1/jobs", `{"urls":["http://a/"]}`, [2]string{}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), c.method, base+c.path, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+token)
			if c.header[0] == "Host" {
				req.Host = c.header[1]
			} else if c.header[0] != "" {
				req.Header.Set(c.header[0], c.header[1])
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if res.StatusCode != c.want {
				t.Errorf("status %d, want %d", res.StatusCode, c.want)
			}
		})
	}
}

// TestToken: over TCP the client shows the token, what it is told without one names the cure, and a
// server that was given none lets nobody in.
func TestToken(t *testing.T) {
	at, _ := serve(t, new(fake), "tcp:127.0.0.1:0")
	shown := func(text string, err error) func() (string, error) {
		return func() (string, error) { return text, err }
	}
	if _, err := client(t, "tcp:"+at.String()).Bearing(shown(token, nil)).Status(t.Context(), false); err != nil {
		t.Errorf("with the token: %v", err)
	}
	for text, says := range map[string]string{"": "missing", "another token than that": "wrong"} {
		_, err := client(t, "tcp:"+at.String()).Bearing(shown(text, nil)).Status(t.Context(), false)
		if control.KindOf(err) != control.KindRefused || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "--token-file") {
			t.Errorf("with %q: %v", text, err)
		}
		if err := client(t, "tcp:"+at.String()).Bearing(shown(text, nil)).Watch(t.Context(), func(control.RingEvent) error { return nil }); control.KindOf(err) != control.KindRefused {
			t.Errorf("a stream with %q: %v", text, err)
		}
	}
	unreadable := errors.New("unreadable")
	if _, err := client(t, "tcp:"+at.String()).Bearing(shown("", unreadable)).Status(t.Context(), false); !errors.Is(err, unreadable) {
		t.Errorf("without a file: %v", err)
	}

	ln, err := control.Listen(t.Context(), "tcp:127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- control.NewServer(new(fake), "", quiet()).Serve(ctx, ln) }()
	if _, err := client(t, "tcp:"+ln.Addr().String()).Bearing(shown("", nil)).Status(t.Context(), false); control.KindOf(err) != control.KindRefused {
		t.Errorf("a server without a token: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestAddCounters(t *testing.T) {
	a := control.Counters{Pages: 1, URLsPending: 2, URLsLeased: 3, Outbox: 4, NextRetryS: 5}
	a.Add(&control.Counters{Pages: 10, URLsPending: 20, NextRetryS: 2})
	a.Add(&control.Counters{})
	if want := (control.Counters{Pages: 11, URLsPending: 22, URLsLeased: 3, Outbox: 4, NextRetryS: 2}); a != want {
		t.Errorf("%+v, want %+v", a, want)
	}
	if a.Outstanding() != 29 {
		t.Errorf("%d outstanding, want 29", a.Outstanding())
	}
	var j control.JobCounts
	j.Add(&control.JobCounts{Done: 1, Outcomes: map[string]int64{"ok": 1}, NextRetryS: 3})
	j.Add(&control.JobCounts{Done: 2, Outcomes: map[string]int64{"ok": 2, "redirect": 1}, NextRetryS: 4, Outbox: 1})
	if j.Done != 3 || j.Outcomes["ok"] != 3 || j.Outcomes["redirect"] != 1 || j.NextRetryS != 3 || j.Outstanding() != 1 {
		t.Errorf("%+v", j)
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	addr := filepath.Join(t.TempDir(), "s")
	_, stop := serve(t, &fake{hold: true}, addr)
	begun := make(chan struct{}, 2)
	ended := make(chan error, 1)
	go func() {
		ended <- control.NewClient(addr).Watch(context.Background(), func(control.RingEvent) error {
			begun <- struct{}{}
			return nil
		})
	}()
	<-begun
	<-begun
	stop()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the stream ended without a word")
		}
	case <-time.After(30 * time.Second):
		t.Error("a stream goes on after its server has ended")
	}
}

// unraced skips a test that the race detector makes too slow; it has smaller siblings.
func unraced(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("slow with the race detector: not with -short")
	}
}
