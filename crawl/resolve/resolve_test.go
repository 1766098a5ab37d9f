package resolve_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/apoidea/apoidea/crawl/resolve"
)

// zone is a DNS server on loopback, over UDP and TCP. Names map to records in zone-file form; one
// without records exists and is empty.
type zone struct {
	addr string

	mu      sync.Mutex // guards the rest
	records map[string][]string
	asked   map[string]int // "name type network"
	answer  func(w dns.ResponseWriter, q, reply *dns.Msg) bool
}

func serve(t *testing.T, records map[string][]string) *zone {
	t.Helper()
	z := &zone{records: records, asked: make(map[string]int)}
	pc, l := listen(t)
	z.addr = pc.LocalAddr().String()
	for _, srv := range []*dns.Server{{PacketConn: pc, Handler: z}, {Listener: l, Handler: z}} {
		started, done := make(chan struct{}), make(chan struct{})
		srv.NotifyStartedFunc = func() { close(started) }
		go func() {
			defer close(done)
			_ = srv.ActivateAndServe()
		}()
		<-started
		t.Cleanup(func() {
			_ = srv.Shutdown()
			<-done
		})
	}
	return z
}

// listen opens one port of both kinds. A port that is free of one kind may be taken of the other.
func listen(t *testing.T) (net.PacketConn, net.Listener) {
	t.Helper()
	for range 20 {
		pc, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", pc.LocalAddr().String())
		if err == nil {
			return pc, l
		}
		_ = pc.Close()
	}
	t.Fatal("no port is free of both kinds")
	return nil, nil
}

func (z *zone) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	z.mu.Lock()
	defer z.mu.Unlock()
	name, qtype := q.Question[0].Name, dns.TypeToString[q.Question[0].Qtype]
	z.asked[name+" "+qtype+" "+w.RemoteAddr().Network()]++
	reply := new(dns.Msg).SetReply(q)
	reply.RecursionAvailable = true
	if z.answer != nil && z.answer(w, q, reply) {
		return
	}
	z.fill(reply, name, qtype)
	_ = w.WriteMsg(reply)
}

// fill answers from the records, following aliases as far as they are within the zone.
func (z *zone) fill(reply *dns.Msg, name, qtype string) {
	for range 10 {
		records, ok := z.records[name]
		if !ok {
			reply.Rcode = dns.RcodeNameError
		}
		next := ""
		for _, r := range records {
			rr, err := dns.NewRR(name + " " + r)
			if err != nil {
				panic(err)
			}
			switch rr := rr.(type) {
			case *dns.CNAME:
				reply.Answer = append(reply.Answer, rr)
				next = rr.Target
			case *dns.SOA:
				reply.Ns = append(reply.Ns, rr)
			default:
				if dns.TypeToString[rr.Header().Rrtype] == qtype {
					reply.Answer = append(reply.Answer, rr)
				}
			}
		}
		if next == "" {
			return
		}
		name = next
	}
}

// setAnswer replaces how questions are answered; what returns false leaves it to the records.
func (z *zone) setAnswer(answer func(w dns.ResponseWriter, q, reply *dns.Msg) bool) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.answer = answer
}

// count returns how many questions for name came, over both transports.
func (z *zone) count(name string) int {
	z.mu.Lock()
	defer z.mu.Unlock()
	n := 0
	for k, v := range z.asked {
		if strings.HasPrefix(k, name+" ") {
			n += v
		}
	}
	return n
}

// TestOldServers: a server that rejects EDNS is asked without it, and an alias that a server does
// not follow is followed.
func TestOldServers(t *testing.T) {
	z := serve(t, map[string][]string{"old.test.": {"60 IN A 192.0.2.1"}, "alias.test.": {"60 IN CNAME old.test."}})
	z.setAnswer(func(w dns.ResponseWriter, q, reply *dns.Msg) bool {
		if q.IsEdns0() != nil {
			reply.Rcode = dns.RcodeFormatError
		} else if q.Question[0].Name == "alias.test." {
			rr, _ := dns.NewRR("alias.test. 60 IN CNAME old.test.")
			reply.Answer = append(reply.Answer, rr)
		} else {
			return false
		}
		_ = w.WriteMsg(reply)
		return true
	})
	for _, name := range []string{"old.test", "alias.test"} {
		addrs, err := newResolver(z.addr).Lookup(t.Context(), name)
		if len(addrs) != 1 || addrs[0].String() != "192.0.2.1" || err != nil {
			t.Errorf("%s: %v, %v", name, addrs, err)
		}
	}
}

// clock is a time that is moved by hand.
type clock struct{ offset atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(1_770_000_000, c.offset.Load()) }
func (c *clock) advance(d time.Duration) { c.offset.Add(int64(d)) }

func newResolver(servers ...string) *resolve.Resolver {
	return resolve.New(resolve.Config{Servers: servers})
}

func wantKind(t *testing.T, err error, want resolve.Kind) {
	t.Helper()
	e, ok := errors.AsType[*resolve.Error](err)
	if !ok || e.Kind != want {
		t.Fatalf("error %v, want %s", err, want)
	}
}

var testZone = map[string][]string{
	"both.test.":        {"300 IN A 192.0.2.2", "300 IN A 192.0.2.1", "200 IN AAAA 2001:db8::1"},
	"four.test.":        {"300 IN A 192.0.2.4"},
	"six.test.":         {"300 IN AAAA 2001:db8::6"},
	"alias.test.":       {"50 IN CNAME middle.test."},
	"middle.test.":      {"40 IN CNAME four.test."},
	"dangling.test.":    {"60 IN CNAME nowhere.test."},
	"empty.test.":       {"3600 IN SOA ns.test. admin.test. 1 2 3 4 900"},
	"-hyphens-.test.":   {"300 IN A 192.0.2.8"},
	"under_score.test.": {"300 IN A 192.0.2.10"},
}

func TestLookup(t *testing.T) {
	z := serve(t, testZone)
	tests := []struct {
		host string
		want string
		kind resolve.Kind
	}{
		{"both.test", "192.0.2.2 192.0.2.1 2001:db8::1", 0},
		{"BOTH.test.", "192.0.2.2 192.0.2.1 2001:db8::1", 0},
		{"four.test", "192.0.2.4", 0},
		{"six.test", "2001:db8::6", 0},
		{"alias.test", "192.0.2.4", 0},
		{"-hyphens-.test", "192.0.2.8", 0},
		{"under_score.test", "192.0.2.10", 0},
		{"192.0.2.77", "192.0.2.77", 0},
		{"[2001:db8::77]", "2001:db8::77", 0},
		{"2001:db8::77", "2001:db8::77", 0},
		{"localhost", "127.0.0.1", 0},
		{"site-7.LOCALHOST", "127.0.0.1", 0},
		{"nowhere.test", "", resolve.NotFound},
		{"dangling.test", "", resolve.NotFound},
		{"empty.test", "", resolve.NotFound},
		{"", "", resolve.NotFound},
		{"a..b", "", resolve.NotFound},
		{"a b.test", "", resolve.NotFound},
		{`a\.b.test`, "", resolve.NotFound},
		{"fe80::1%eth0", "", resolve.NotFound},
		{strings.Repeat("a", 64) + ".test", "", resolve.NotFound},
		{strings.Repeat("a.", 127) + "test", "", resolve.NotFound},
	}
	r := newResolver(z.addr)
	for _, tt := range tests {
		t.Run(tt.host, func(t *testing.T) {
			addrs, err := r.Lookup(t.Context(), tt.host)
			if tt.kind != 0 {
				wantKind(t, err, tt.kind)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Trim(fmt.Sprint(addrs), "[]"); got != tt.want {
				t.Errorf("addresses %s, want %s", got, tt.want)
			}
		})
	}
	if n := z.count("localhost."); n != 0 {
		t.Errorf("localhost was asked for %d times", n)
	}
	if n := z.count("both.test."); n != 2 {
		t.Errorf("%d questions for both.test, want one for A and one for AAAA", n)
	}
}

func TestNoIPv6(t *testing.T) {
	z := serve(t, testZone)
	addrs, err := resolve.New(resolve.Config{Servers: []string{z.addr}, NoIPv6: true}).Lookup(t.Context(), "both.test")
	if err != nil || fmt.Sprint(addrs) != "[192.0.2.2 192.0.2.1]" {
		t.Errorf("%v, %v; want the IPv4 addresses", addrs, err)
	}
	if n := z.count("both.test."); n != 1 {
		t.Errorf("%d questions, want 1", n)
	}
}

// TestSilentAAAA checks that a server that does not answer questions for IPv6 addresses delays the
// IPv4 ones by less than the time for one answer.
func TestSilentAAAA(t *testing.T) {
	z := serve(t, testZone)
	z.setAnswer(func(_ dns.ResponseWriter, q, _ *dns.Msg) bool { return q.Question[0].Qtype == dns.TypeAAAA })
	start := time.Now()
	addrs, err := newResolver(z.addr).Lookup(t.Context(), "four.test")
	if err != nil || fmt.Sprint(addrs) != "[192.0.2.4]" {
		t.Fatalf("%v, %v; want the IPv4 address", addrs, err)
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("the lookup took %v", took)
	}
}

// TestSearchDomains checks that a name without a dot is looked up in the search domains, then by
// itself, and that another name is not.
func TestSearchDomains(t *testing.T) {
	z := serve(t, map[string][]string{
		"wiki.corp.test.":          {"300 IN A 192.0.2.1"},
		"wiki.":                    {"300 IN A 192.0.2.2"},
		"alone.":                   {"300 IN A 192.0.2.3"},
		"www.example.corp.test.":   {"300 IN A 192.0.2.4"},
		"www.example.office.test.": {"300 IN A 192.0.2.4"},
	})
	r := newResolver(z.addr)
	r.Adjust(nil, 0, 0, "office.test", "corp.test")
	for host, want := range map[string]string{"wiki": "[192.0.2.1]", "alone": "[192.0.2.3]"} {
		if addrs, err := r.Lookup(t.Context(), host); err != nil || fmt.Sprint(addrs) != want {
			t.Errorf("%s: %v, %v; want %s", host, addrs, err, want)
		}
	}
	for _, host := range []string{"www.example", "nowhere"} {
		_, err := r.Lookup(t.Context(), host)
		wantKind(t, err, resolve.NotFound)
	}
}

// How long an answer is believed.
func TestTTL(t *testing.T) {
	tests := []struct {
		name, host string
		ttl        time.Duration
	}{
		{"addresses", "both.test", resolve.AddressTTL},
		{"absence of an address", "empty.test", resolve.AbsenceTTL},
		{"absence of the name", "nowhere.test", resolve.AbsenceTTL},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			z := serve(t, testZone)
			var c clock
			r := newResolver(z.addr)
			r.Adjust(c.now, 0, 0)
			count := func() int {
				_, _ = r.Lookup(t.Context(), tt.host)
				return z.count(tt.host + ".")
			}
			if n := count(); n != 2 {
				t.Fatalf("%d questions, want 2", n)
			}
			asked := 2
			if strings.HasPrefix(tt.name, "absence") { // is to be said twice
				c.advance(resolve.FailureTTL)
				if asked = count(); asked != 4 {
					t.Errorf("%d questions, want 4: absence was believed at once", asked)
				}
			}
			c.advance(tt.ttl - time.Second)
			if n := count(); n != asked {
				t.Errorf("asked again before %s", tt.ttl)
			}
			c.advance(time.Second)
			if n := count(); n != asked+2 {
				t.Errorf("not asked again after %s", tt.ttl)
			}
		})
	}
}

func TestTruncatedGoesToTCP(t *testing.T) {
	z := serve(t, testZone)
	z.setAnswer(func(w dns.ResponseWriter, _, reply *dns.Msg) bool {
		if w.RemoteAddr().Network() != "udp" {
			return false
		}
		reply.Truncated = true
		_ = w.WriteMsg(reply)
		return true
	})
	addrs, err := newResolver(z.addr).Lookup(t.Context(), "four.test")
	if err != nil || len(addrs) != 1 {
		t.Errorf("%v, %v", addrs, err)
	}
}

func TestNextServer(t *testing.T) {
	good := serve(t, testZone)
	refuses := serve(t, nil)
	refuses.setAnswer(func(w dns.ResponseWriter, _, reply *dns.Msg) bool {
		reply.Rcode = dns.RcodeServerFailure
		_ = w.WriteMsg(reply)
		return true
	})
	lies := serve(t, nil)
	lies.setAnswer(func(w dns.ResponseWriter, _, reply *dns.Msg) bool {
		reply.Question[0].Name = "other.test."
		_ = w.WriteMsg(reply)
		return true
	})
	for name, servers := range map[string][]string{
		"behind a failing one": {refuses.addr, good.addr},
		"behind a lying one":   {lies.addr, good.addr},
		"behind a closed port": {"127.0.0.1:1", good.addr},
	} {
		t.Run(name, func(t *testing.T) {
			addrs, err := newResolver(servers...).Lookup(t.Context(), "four.test")
			if err != nil || len(addrs) != 1 {
				t.Errorf("%v, %v", addrs, err)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		var c clock
		r := newResolver(refuses.addr)
		r.Adjust(c.now, 0, 0)
		before := refuses.count("four.test.")
		for range 3 {
			_, err := r.Lookup(t.Context(), "four.test")
			wantKind(t, err, resolve.ServerFailure)
		}
		if n := refuses.count("four.test.") - before; n != 4 {
			t.Errorf("%d questions for three lookups of a failing name, want two rounds of A and AAAA", n)
		}
		c.advance(10 * time.Second)
		_, _ = r.Lookup(t.Context(), "four.test")
		if n := refuses.count("four.test.") - before; n != 8 {
			t.Errorf("%d questions after the failure was forgotten, want 8", n)
		}
	})
	t.Run("silent", func(t *testing.T) {
		silent := serve(t, nil)
		silent.setAnswer(func(dns.ResponseWriter, *dns.Msg, *dns.Msg) bool { return true })
		r := newResolver(silent.addr)
		r.Adjust(nil, 20*time.Millisecond, 0)
		_, err := r.Lookup(t.Context(), "four.test")
		wantKind(t, err, resolve.Timeout)
	})
}

// TestFlight checks that concurrent lookups of a name share one query, which outlives the first
// lookup.
func TestFlight(t *testing.T) {
	z := serve(t, testZone)
	hold := make(chan struct{})
	z.setAnswer(func(dns.ResponseWriter, *dns.Msg, *dns.Msg) bool { <-hold; return false })
	r := newResolver(z.addr)
	r.Adjust(nil, time.Minute, 0)
	gone := errors.New("lease lapsed")
	ctx, cancel := context.WithCancelCause(t.Context())
	waits := make(chan struct{}, 11)
	first := make(chan error, 1)
	go func() {
		_, err := r.Lookup(waiting{ctx, waits}, "four.test") //nolint:contextcheck // it wraps the one that is inherited
		first <- err
	}()
	<-waits
	results := make(chan error, 10)
	for range 10 {
		go func() {
			addrs, err := r.Lookup(waiting{t.Context(), waits}, "four.test")
			if err == nil && len(addrs) != 1 {
				err = fmt.Errorf("addresses %v", addrs)
			}
			results <- err
		}()
	}
	for range 10 {
		<-waits
	}
	cancel(gone)
	if err := <-first; !errors.Is(err, gone) {
		t.Errorf("error %v", err)
	}
	close(hold)
	for range 10 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if n := z.count("four.test."); n != 2 {
		t.Errorf("%d questions, want one for A and one for AAAA", n)
	}
}

// waiting is a context that tells when somebody begins to wait for its end.
type waiting struct {
	context.Context //nolint:containedctx // it is one itself
	begun           chan<- struct{}
}

func (w waiting) Done() <-chan struct{} {
	select {
	case w.begun <- struct{}{}:
	default:
	}
	return w.Context.Done()
}

func TestCacheIsBounded(t *testing.T) {
	records := make(map[string][]string)
	for i := range 20 {
		records[fmt.Sprintf("n%d.test.", i)] = []string{"300 IN A 192.0.2.1"}
	}
	z := serve(t, records)
	r := newResolver(z.addr)
	r.Adjust(nil, 0, 5)
	for i := range 20 {
		for _, host := range []string{"n0.test", fmt.Sprintf("n%d.test", i)} {
			if _, err := r.Lookup(t.Context(), host); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := r.Len(); n != 5 {
		t.Errorf("%d names kept, want 5", n)
	}
	if n := z.count("n0.test."); n != 2 {
		t.Errorf("the name used most was asked for %d times", n)
	}
}

func TestErrorText(t *testing.T) {
	cause := errors.New("server 192.0.2.53:53: refused")
	err := &resolve.Error{Host: "a.test", Kind: resolve.ServerFailure, Err: cause}
	if got := err.Error(); got != `resolve "a.test": server failure: server 192.0.2.53:53: refused` || !errors.Is(err, cause) || !err.Temporary() {
		t.Errorf("%s", got)
	}
	if got := (&resolve.Error{Host: "a.test", Kind: resolve.NotFound}).Error(); got != `resolve "a.test": no such host` {
		t.Errorf("%s", got)
	}
}
