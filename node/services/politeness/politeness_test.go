package politeness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/optout"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/node/services/rpc/rpctest"
	"github.com/apoidea/apoidea/node/services/wire"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
	"github.com/apoidea/apoidea/storage/kv/kvtest"
	"github.com/apoidea/apoidea/storage/storagetest"
)

var quiet = slog.New(slog.DiscardHandler)

// pair returns what two peers see of a ring of which a owns everything: a asks itself, b asks a.
// Serve answers at a.
func pair(serve func() calls.Handler) (a, b *rpc.Router) {
	net := rpctest.NewNet()
	net.At("a", func(ctx context.Context, _ string, req []byte) ([]byte, error) { return serve()(ctx, "b", req) })
	of := func(self peer.ID) *rpc.Router {
		return &rpc.Router{Ring: &rpctest.Ring{Self: self, Believed: rpctest.OwnedBy("a"), Real: rpctest.OwnedBy("a")}, Net: net}
	}
	return of("a"), of("b")
}

// TestDomains: the owner of a domain admits so many of its hosts, takes the domain's wish when the
// site has proved it, and has the owners of these hosts told.
func TestDomains(t *testing.T) {
	var home *Domains
	a, b := pair(func() calls.Handler { return home.Service().Handle })
	var told []string
	var settled, crowded bool
	proof := errors.New("the line is not there")
	deps := DomainsDeps{
		Records: storagetest.New(t).Keyspace(storage.KeyspaceDomains), Hosts: 2, Router: a,
		Settled: func(ring.Key) bool { return settled },
		Prove:   func(context.Context, optout.Subject, optout.Action) error { return proof },
		Spread: func(_ optout.Subject, _ optout.Action, hosts []string, _ bool) bool {
			told = hosts
			return !crowded
		}, Log: quiet,
	}
	var err error
	if home, err = NewDomains(deps); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = home.Run(ctx) })
	defer running.Wait()
	defer cancel()
	deps.Router, deps.Records = b, storagetest.New(t).Keyspace(storage.KeyspaceDomains)
	asker, err := NewDomains(deps)
	if err != nil {
		t.Fatal(err)
	}

	s := optout.Subject{Kind: optout.KindDomain, Name: "a.example"}
	wishes := NewOptOuts(OptOutsDeps{Owners: b, Log: quiet})
	if err := home.serves("a.example"); calls.CodeOf(err) != calls.CodeBusy {
		t.Errorf("records may be on their way: %v", err)
	}
	settled = true
	verdicts := make(map[string]domain.Verdict)
	var list []owner.Admission
	for _, host := range []string{"x.a.example", "y.a.example", "z.a.example"} {
		list = append(list, owner.Admission{Job: job.ID{1}, Host: host})
	}
	asker.ask(t.Context(), list, func(a owner.Admission, v domain.Verdict) { verdicts[a.Host] = v })
	admitted := 0
	for _, v := range verdicts {
		if v == domain.Admitted {
			admitted++
		}
	}
	if len(verdicts) != 3 || admitted != 2 {
		t.Errorf("verdicts %v", verdicts)
	}
	if _, err := wishes.Announce(t.Context(), s, optout.Out); !rpc.Refused(err) {
		t.Errorf("without a proof: %v", err)
	}
	proof = nil
	if changed, err := wishes.Announce(t.Context(), s, optout.Out); err != nil || !changed {
		t.Errorf("with a proof: %v, %v", changed, err)
	}
	if want := []string{"a.example", "www.a.example", "x.a.example", "y.a.example"}; !slices.Equal(told, want) {
		t.Errorf("told the owners of %v, want %v", told, want)
	}
	crowded = true
	if _, err := wishes.Announce(t.Context(), s, optout.Out); calls.CodeOf(err) != calls.CodeBusy {
		t.Errorf("with no room to tell the owners: %v", err)
	}
	if names, err := home.OptedOut(t.Context(), 10); err != nil || !slices.Equal(names, []string{"a.example"}) {
		t.Errorf("opted out: %v, %v", names, err)
	}
	if err := asker.serves("a.example"); calls.CodeOf(err) != calls.CodeMoved {
		t.Errorf("another's domain: %v", err)
	}
}

// TestSpreads: a wish that is brought again and again is told to the owners of hosts once, and
// after a minute again; where they could not be told it is told again at once. A later wish comes
// behind the one before, and there are so many under way.
func TestSpreads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards what follows
		hosts, told, spawned, away := someHosts{make(map[string]string)}, 0, 0, false
		free := NewOptOuts(OptOutsDeps{Log: quiet})
		_, b := pair(func() calls.Handler {
			return func(ctx context.Context, from peer.ID, req []byte) ([]byte, error) {
				mu.Lock()
				defer mu.Unlock()
				if told++; away {
					return nil, &calls.Error{Code: calls.CodeInternal}
				}
				return free.HostsService(hosts).Handle(ctx, from, req)
			}
		})
		teller := NewOptOuts(OptOutsDeps{Log: quiet, Owners: b, Spawn: func(fn func(ctx context.Context)) {
			spawned++
			go fn(t.Context())
		}})
		s, list := optout.Subject{Kind: optout.KindDomain, Name: "a.example"}, []string{"a.example"}
		spread := func(a optout.Action, changed bool, wait time.Duration, want int) {
			t.Helper()
			mu.Lock()
			told = 0
			mu.Unlock()
			for range 100 {
				if !teller.Spread(s, a, list, changed) {
					t.Error("no room")
				}
				changed = false
			}
			time.Sleep(wait)
			mu.Lock()
			defer mu.Unlock()
			if told != want {
				t.Errorf("%s: %d told, want %d", a, told, want)
			}
		}
		spread(optout.Out, true, time.Second, 1)
		spread(optout.Out, false, spreadRest, 0)
		spread(optout.Out, false, time.Second, 1)
		leave := func(now bool) {
			mu.Lock()
			defer mu.Unlock()
			away = now
		}
		leave(true)
		spread(optout.Back, true, time.Hour, optOutTries)
		spread(optout.Back, false, time.Second/2, 1)
		leave(false)
		spread(optout.Out, true, time.Hour, 1)
		if hosts.out["a.example"] == "" {
			t.Error("the wish before came last")
		}
		leave(true)
		spawned = 0
		for i := range 2 * spreadsAtOnce {
			s.Name = fmt.Sprintf("a%d.example", i)
			if ok := teller.Spread(s, optout.Out, list, true); ok != (i < spreadsAtOnce) {
				t.Errorf("%d are under way, and one more: %v", i, ok)
			}
		}
		time.Sleep(time.Hour)
		teller.mu.Lock()
		defer teller.mu.Unlock()
		if spawned != spreadsAtOnce || len(teller.spreads) > 1 || teller.spreading > 0 {
			t.Errorf("%d spawned, %d kept, %d still under way", spawned, len(teller.spreads), teller.spreading)
		}
	})
}

// TestQuestions: one question is about hosts of one domain and job, and not too many.
func TestQuestions(t *testing.T) {
	var list []owner.Admission
	for range wire.MaxAdmissions + 1 {
		list = append(list, owner.Admission{Job: job.ID{1}, Host: "x.a.example"})
	}
	list = append(list, owner.Admission{Job: job.ID{2}, Host: "x.a.example"}, owner.Admission{Job: job.ID{1}, Host: "x.b.example"}, owner.Admission{Job: job.ID{2}, Host: "y.a.example"})
	var sizes []int
	for _, q := range questions(list) {
		sizes = append(sizes, len(q))
	}
	if !slices.Equal(sizes, []int{wire.MaxAdmissions, 1, 2, 1}) {
		t.Errorf("questions of %v", sizes)
	}
}

// TestHostWish: a wish to the owner of a host is one that speaks for that host.
func TestHostWish(t *testing.T) {
	for _, row := range []struct {
		subject, action, host string
		ok                    bool
	}{
		{"host a.example", "opt-out", "a.example", true},
		{"domain a.example", "withdraw", "x.a.example", true},
		{"host a.example", "opt-out", "b.example", false},
		{"domain a.example", "opt-out", "a.example.org", false},
		{"host a.example", "something", "a.example", false},
		{"ip 192.0.2.1", "opt-out", "a.example", false},
		{"host a.example", "opt-out", "A.example", false},
	} {
		_, _, host, err := decodeHostOptOut(&wire.OptOut{Subject: row.subject, Action: row.action, Host: row.host})
		if (err == nil) != row.ok || row.ok && host != row.host || !row.ok && !rpc.Refused(err) {
			t.Errorf("%+v: %q, %v", row, host, err)
		}
	}
}

// someHosts owns a.example and notes wishes.
type someHosts struct{ out map[string]string }

func (h someHosts) Serves(host string) error {
	if host != "a.example" {
		return &calls.Error{Code: calls.CodeMoved}
	}
	return nil
}

func (h someHosts) OptOut(_ context.Context, host string, out bool, by string) (changed bool, err error) {
	changed = out != (h.out[host] != "")
	if delete(h.out, host); out {
		h.out[host] = by
	}
	return changed, nil
}

// TestHostsService: the owner of a host takes its wish, once the site has shown it where that is
// demanded; any other peer sends the asker on.
func TestHostsService(t *testing.T) {
	hosts := someHosts{make(map[string]string)}
	free := NewOptOuts(OptOutsDeps{Log: quiet})
	strict := NewOptOuts(OptOutsDeps{Log: quiet, Demand: true, Prover: NewProver(func(context.Context, *fetch.Request) (*fetch.Response, error) {
		return nil, errors.New("the site does not answer")
	}, "127.0.0.1:1")})
	for _, row := range []struct {
		opt          *OptOuts
		host, action string
		changed      bool
		code         calls.Code
	}{
		{free, "a.example", "opt-out", true, 0},
		{free, "a.example", "opt-out", false, 0},
		{free, "b.example", "opt-out", false, calls.CodeMoved},
		{strict, "a.example", "withdraw", false, calls.CodeRefused},
		{free, "a.example", "withdraw", true, 0},
	} {
		raw, err := proto.Marshal(&wire.OptOut{Subject: "host " + row.host, Action: row.action, Host: row.host})
		if err != nil {
			t.Fatal(err)
		}
		answer, err := row.opt.HostsService(hosts).Handle(t.Context(), "asker", append([]byte{TagOptOut}, raw...))
		reply := new(wire.OptOutReply)
		if calls.CodeOf(err) != row.code || proto.Unmarshal(answer, reply) != nil || reply.GetChanged() != row.changed {
			t.Errorf("%+v: %v, %v", row, reply, err)
		}
	}
	if len(hosts.out) > 0 {
		t.Errorf("opted out: %v", hosts.out)
	}
}

// TestBusyIsNoRefusal: a wish that no site could be looked at for, as strangers had used up the
// looks of the minute, is not refused, and is told again until it is taken.
func TestBusyIsNoRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := optout.Subject{Kind: optout.KindHost, Name: "a.example"}
		hosts := someHosts{make(map[string]string)}
		prover := NewProver(func(context.Context, *fetch.Request) (*fetch.Response, error) {
			return &fetch.Response{Status: http.StatusOK, Body: []byte(optout.Token(s, optout.Out))}, nil
		}, "127.0.0.1:1")
		for range proofsPerMinute {
			prover.begin(time.Now(), false)
		}
		file := filepath.Join(t.TempDir(), "optout.txt")
		if err := os.WriteFile(file, []byte("host a.example\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		lists, err := NewLists(ListsDeps{File: file, Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		strict := NewOptOuts(OptOutsDeps{Log: quiet, Demand: true, Prover: prover})
		_, b := pair(func() calls.Handler {
			return strict.HostsService(hosts).Handle
		})
		teller := NewOptOuts(OptOutsDeps{Log: quiet, Lists: lists, Owners: b, Changed: func() {}})
		if _, err := teller.Announce(t.Context(), s, optout.Out); calls.CodeOf(err) != calls.CodeBusy {
			t.Errorf("told with %v, want busy", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- teller.Run(ctx) }()
		time.Sleep(2 * optOutAgain)
		cancel()
		<-done
		if len(hosts.out) != 1 {
			t.Errorf("opted out: %v", hosts.out)
		}
	})
}

// TestLooksForStrangers: for who is no member few sites are looked at in a minute, and then those
// of members' wishes still are.
func TestLooksForStrangers(t *testing.T) {
	looks := 0
	p := NewProver(func(context.Context, *fetch.Request) (*fetch.Response, error) {
		looks++
		return &fetch.Response{Status: http.StatusNotFound}, nil
	}, "127.0.0.1:1")
	p.TXT = func(context.Context, string) ([]string, error) { return nil, errors.New("no such record") }
	service := NewOptOuts(OptOutsDeps{Log: quiet, Demand: true, Prover: p}).HostsService(anyHost{})
	ask := func(gate rpc.Authorizer, i int) calls.Code {
		raw, err := proto.Marshal(&wire.OptOut{Subject: fmt.Sprintf("host a%d.example", i), Action: "opt-out", Host: fmt.Sprintf("a%d.example", i)})
		if err != nil {
			t.Fatal(err)
		}
		_, err = service.Behind(gate)(t.Context(), "asker", append([]byte{TagOptOut}, raw...))
		return calls.CodeOf(err)
	}
	for i := range 100 {
		want := calls.CodeRefused // the site shows nothing
		if i >= proofsOfStrangers {
			want = calls.CodeBusy
		}
		if code := ask(rpctest.Untrusted{}, i); code != want {
			t.Errorf("wish %d of a stranger: code %v, want %v", i, code, want)
		}
	}
	if looks != 2*proofsOfStrangers { // by https and by http
		t.Errorf("%d requests to sites for strangers", looks)
	}
	if code := ask(rpctest.Members{}, 100); code != calls.CodeRefused {
		t.Errorf("a member's wish: code %v", code)
	}
}

// TestDomainsWishesOfStrangers: who has proved the wish of a domain, and is no member, has no
// records of hosts below it made, in any number; a member, such as who answers for the domain, has.
func TestDomainsWishesOfStrangers(t *testing.T) {
	hosts := namedHosts{someHosts{make(map[string]string)}}
	s := optout.Subject{Kind: optout.KindDomain, Name: "a.example"}
	prover := NewProver(func(context.Context, *fetch.Request) (*fetch.Response, error) {
		return &fetch.Response{Status: http.StatusOK, Body: []byte(optout.Token(s, optout.Out))}, nil
	}, "127.0.0.1:1")
	service := NewOptOuts(OptOutsDeps{Log: quiet, Demand: true, Prover: prover}).HostsService(hosts)
	for _, row := range []struct {
		gate rpc.Authorizer
		want int
	}{{rpctest.Members{}, 10}, {rpctest.Untrusted{}, 0}} {
		clear(hosts.out)
		for i := range 10 {
			raw, err := proto.Marshal(&wire.OptOut{Subject: s.String(), Action: string(optout.Out), Host: fmt.Sprintf("x%d.a.example", i)})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := service.Behind(row.gate)(t.Context(), "asker", append([]byte{TagOptOut}, raw...)); (err == nil) != (row.want > 0) || rpc.Refused(err) {
				t.Errorf("%T: %v", row.gate, err)
			}
		}
		if len(hosts.out) != row.want {
			t.Errorf("%T: %d records", row.gate, len(hosts.out))
		}
	}
}

// namedHosts owns all hosts and notes wishes.
type namedHosts struct{ someHosts }

func (namedHosts) Serves(string) error { return nil }

// anyHost is an owner of all hosts that keeps no wish.
type anyHost struct{}

func (anyHost) Serves(string) error { return nil }

func (anyHost) OptOut(context.Context, string, bool, string) (bool, error) { return true, nil }

// listServer serves a list, and is fetched from as a fetcher would.
func listServer(t *testing.T, text string) (url string, get Get, status *int) {
	t.Helper()
	code := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(server.Close)
	return server.URL, func(ctx context.Context, req *fetch.Request) (*fetch.Response, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, req.URL, nil)
		if err != nil {
			return nil, err
		}
		resp, err := server.Client().Do(r)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return &fetch.Response{Status: resp.StatusCode, Header: resp.Header, Body: body}, err
	}, &code
}

// TestLists: a list stays in force when its file is gone, or its URL does not answer, also over a
// restart; a copy that was changed is not believed.
func TestLists(t *testing.T) {
	dir := t.TempDir()
	url, get, status := listServer(t, "host c.example\n")
	deps := ListsDeps{File: filepath.Join(dir, "optout.txt"), URL: url, Dir: dir, Get: get, Log: quiet}
	if err := os.WriteFile(deps.File, []byte("ip 127.0.0.0/8\nhost b.example\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := NewLists(deps)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if why := l.Host("c.example"); !strings.Contains(why, "--optout-url") {
		t.Errorf("why: %q", why)
	}
	if got := l.subjects(); len(got) != 2 {
		t.Errorf("for the ring: %v", got)
	}
	if err := os.Remove(deps.File); err != nil {
		t.Fatal(err)
	}
	l.look()
	if !l.Refused(netip.MustParseAddr("127.0.0.1")) {
		t.Error("a file that is gone took the last list with it")
	}
	*status = http.StatusInternalServerError
	if l.refresh(t.Context()) == nil {
		t.Error("a server that fails was believed")
	}
	deps.File = ""
	again, err := NewLists(deps)
	if err != nil || again.URL("http://c.example/") == "" {
		t.Errorf("the copy of the list is not taken up: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, optOutCopy), []byte("host x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if damaged, err := NewLists(deps); err != nil || damaged.Sources()[1].List != nil {
		t.Errorf("a copy that was changed is believed: %v", err)
	}
}

// TestProver: a site is looked at once for a while, and again when that is over.
func TestProver(t *testing.T) {
	looks := 0
	shown := ""
	p := NewProver(func(context.Context, *fetch.Request) (*fetch.Response, error) {
		looks++
		return &fetch.Response{Status: http.StatusOK, Body: []byte(shown)}, nil
	}, "")
	p.TXT = func(context.Context, string) ([]string, error) { return nil, errors.New("no such record") }
	s := optout.Subject{Kind: optout.KindHost, Name: "a.example"}
	for range 2 {
		if p.Check(t.Context(), s, optout.Out) == nil || looks != 2 {
			t.Errorf("proved after %d looks", looks)
		}
	}
	shown = optout.Token(s, optout.Out)
	if p.Forget(); p.Check(t.Context(), s, optout.Out) != nil || looks != 3 {
		t.Errorf("not proved after %d looks", looks)
	}
}

// claimedHosts has one claim, until an opt-out ends it.
type claimedHosts struct {
	someHosts
	claim owner.Claim
	ended *bool
}

func (h claimedHosts) NextClaim(context.Context, string) (owner.Claim, bool, error) {
	return h.claim, !*h.ended, nil
}

func (h claimedHosts) OptOut(ctx context.Context, host string, out bool, by string) (bool, error) {
	*h.ended = true
	return h.someHosts.OptOut(ctx, host, out, by)
}

// TestClaims: an opt-out or withdrawal in a record of another owner is checked at the site, and
// applies if the site shows it; while the site does not answer it stays a claim, and the site is
// asked every ten minutes.
func TestClaims(t *testing.T) {
	host := optout.Subject{Kind: optout.KindHost, Name: "a.example"}
	whole := optout.Subject{Kind: optout.KindDomain, Name: "a.example"}
	for _, row := range []struct {
		name       string
		claim      owner.Claim
		shown      string // by the site; empty: it does not answer
		ended, out bool
	}{
		{"opt-out, shown", owner.Claim{Out: true, Why: "host a.example"}, optout.Token(host, optout.Out), true, true},
		{"opt-out of the domain, shown", owner.Claim{Out: true, Why: "domain a.example"}, optout.Token(whole, optout.Out), true, true},
		{"opt-out with another reason, shown", owner.Claim{Out: true, Why: "with the whole domain"}, optout.Token(whole, optout.Out), true, true},
		{"opt-out of another site", owner.Claim{Out: true, Why: "host b.example"}, optout.Token(optout.Subject{Kind: optout.KindHost, Name: "b.example"}, optout.Out), true, false},
		{"opt-out, not shown", owner.Claim{Out: true, Why: "host a.example"}, "-", true, false},
		{"withdrawal, shown", owner.Claim{Why: "host a.example"}, optout.Token(host, optout.Back), true, false},
		{"withdrawal, not shown", owner.Claim{Why: "host a.example"}, "-", true, true},
		{"no answer", owner.Claim{Out: true, Why: "host a.example"}, "", false, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			looks := 0
			prover := NewProver(func(context.Context, *fetch.Request) (*fetch.Response, error) {
				looks++
				if row.shown == "" {
					return nil, errors.New("the site does not answer")
				}
				return &fetch.Response{Status: http.StatusOK, Body: []byte(row.shown)}, nil
			}, "127.0.0.1:1")
			prover.TXT = func(context.Context, string) ([]string, error) { return nil, &net.DNSError{IsNotFound: true} }
			opt := NewOptOuts(OptOutsDeps{Log: quiet, Demand: true, Prover: prover})
			row.claim.Host = "a.example"
			hosts := claimedHosts{someHosts{make(map[string]string)}, row.claim, new(bool)}
			synctest.Test(t, func(t *testing.T) {
				a, _ := pair(nil)
				domains, err := NewDomains(DomainsDeps{Records: make(kvtest.Map), Router: a, Prove: opt.Prove, Log: quiet})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { _ = domains.Run(ctx) })
				running.Go(func() { _ = opt.RunClaims(ctx, hosts, hosts.NextClaim, domains) })
				time.Sleep(19 * time.Minute)
				cancel()
				running.Wait()
			})
			if *hosts.ended != row.ended || (hosts.out["a.example"] != "") != row.out {
				t.Errorf("ended: %v, opted out: %v", *hosts.ended, hosts.out)
			}
			if !row.ended && looks != 4 { // by https and by http, twice
				t.Errorf("%d requests to the site", looks)
			}
		})
	}
}

// TestDomainClaims: the owner of a domain checks an opt-out in a record of another owner at the
// site, once a host below is asked for.
func TestDomainClaims(t *testing.T) {
	for _, shown := range []error{nil, errors.New("the line is not there"), errors.Join(errSilent)} {
		a, _ := pair(nil)
		from, spread := storagetest.New(t).Keyspace(storage.KeyspaceDomains), 0
		other, err := domain.New(from, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := other.SetOptOut(time.Now(), "a.example", true); err != nil {
			t.Fatal(err)
		}
		var records []kv.Record
		if err := from.Scan(nil, nil, func(k, v []byte) bool {
			records = append(records, kv.Record{Key: slices.Clone(k), Value: slices.Clone(v)})
			return true
		}); err != nil {
			t.Fatal(err)
		}
		d, err := NewDomains(DomainsDeps{
			Records: storagetest.New(t).Keyspace(storage.KeyspaceDomains), Router: a, ProveOptOuts: true, Settled: func(ring.Key) bool { return true },
			Prove: func(context.Context, optout.Subject, optout.Action) error { return shown }, Log: quiet,
			Spread: func(optout.Subject, optout.Action, []string, bool) bool { spread++; return true },
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = d.Run(ctx) })
		verdict := func() (v []domain.Verdict) {
			if err := d.Do(ctx, func() { v, _, err = d.State.Admit(job.ID{1}, []string{"b.a.example"}) }); err != nil {
				t.Fatal(err)
			}
			return v
		}
		if _, err := d.State.Import(records); err != nil {
			t.Fatal(err)
		}
		if v := verdict(); v[0] != domain.Unknown {
			t.Errorf("before the check: %v", v)
		}
		if err := d.checkClaim(ctx); err != nil {
			t.Error(err)
		}
		want := domain.OptedOut
		switch {
		case errors.Is(shown, errSilent):
			want = domain.Unknown
		case shown != nil:
			want = domain.Admitted
		}
		if v := verdict(); v[0] != want || spread != map[bool]int{true: 1}[shown == nil] {
			t.Errorf("%v: verdict %v, want %v; spread %d times", shown, v, want, spread)
		}
		cancel()
		running.Wait()
	}
}
