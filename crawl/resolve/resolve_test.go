package resolve_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
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
		if next == "" || strings.HasPrefix(next, "elsewhere") {
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

// clock is a time that is moved by hand.
type clock struct{ offset atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(1_770_000_000, c.offset.Load()) }
func (c *clock) advance(d time.Duration) { c.offset.Add(int64(d)) }

func newResolver(t *testing.T, change func(*resolve.Config), servers ...string) *resolve.Resolver {
	t.Helper()
	config := resolve.Config{
		Servers: servers, HostsFile: filepath.Join(t.TempDir(), "hosts"), Timeout: 2 * time.Second,
	}
	if change != nil {
		change(&config)
	}
	return resolve.New(config)
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
	"outward.test.":     {"600 IN CNAME elsewhere.test."},
	"elsewhere.test.":   {"700 IN A 192.0.2.7"},
	"loop.test.":        {"60 IN CNAME loop.test."},
	"dangling.test.":    {"60 IN CNAME nowhere.test."},
	"empty.test.":       {"3600 IN SOA ns.test. admin.test. 1 2 3 4 900"},
	"brief.test.":       {"1 IN A 192.0.2.8"},
	"eternal.test.":     {"2147483647 IN A 192.0.2.9"},
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
		{"outward.test", "192.0.2.7", 0},
		{"under_score.test", "192.0.2.10", 0},
		{"192.0.2.77", "192.0.2.77", 0},
		{"[2001:db8::77]", "2001:db8::77", 0},
		{"2001:db8::77", "2001:db8::77", 0},
		{"localhost", "127.0.0.1", 0},
		{"site-7.LOCALHOST", "127.0.0.1", 0},
		{"nowhere.test", "", resolve.NotFound},
		{"dangling.test", "", resolve.NotFound},
		{"empty.test", "", resolve.NoData},
		{"loop.test", "", resolve.ServerFailure},
		{"", "", resolve.NotFound},
		{"a..b", "", resolve.NotFound},
		{"a b.test", "", resolve.NotFound},
		{`a\.b.test`, "", resolve.NotFound},
		{"fe80::1%eth0", "", resolve.NotFound},
		{strings.Repeat("a", 64) + ".test", "", resolve.NotFound},
		{strings.Repeat("a.", 127) + "test", "", resolve.NotFound},
	}
	r := newResolver(t, nil, z.addr)
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

func TestFamilies(t *testing.T) {
	z := serve(t, testZone)
	for _, tt := range []struct {
		name   string
		change func(*resolve.Config)
		want   string
		asked  int
	}{
		{"IPv6 first", func(c *resolve.Config) { c.PreferIPv6 = true }, "[2001:db8::1 192.0.2.2 192.0.2.1]", 2},
		{"IPv4 only", func(c *resolve.Config) { c.NoIPv6 = true }, "[192.0.2.2 192.0.2.1]", 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			addrs, err := newResolver(t, tt.change, z.addr).Lookup(t.Context(), "both.test")
			if err != nil || fmt.Sprint(addrs) != tt.want {
				t.Errorf("%v, %v; want %s", addrs, err, tt.want)
			}
			if n := z.count("both.test."); n != tt.asked {
				t.Errorf("%d questions so far, want %d", n, tt.asked)
			}
		})
	}
}

// TestSilentAAAA checks that a server that does not answer questions for IPv6 addresses delays the
// IPv4 ones by less than the time for one answer.
func TestSilentAAAA(t *testing.T) {
	z := serve(t, testZone)
	z.setAnswer(func(_ dns.ResponseWriter, q, _ *dns.Msg) bool { return q.Question[0].Qtype == dns.TypeAAAA })
	c := &clock{}
	r := newResolver(t, func(cfg *resolve.Config) { cfg.Now = c.now }, z.addr)
	for i, questions := range []int{2, 2, 4} { // A and AAAA at first and after MinTTL
		if i == 2 {
			c.advance(31 * time.Second)
		}
		addrs, err := r.Lookup(t.Context(), "four.test")
		if err != nil || fmt.Sprint(addrs) != "[192.0.2.4]" {
			t.Fatalf("%v, %v; want the IPv4 address", addrs, err)
		}
		if n := z.count("four.test."); n != questions {
			t.Errorf("%d questions, want %d", n, questions)
		}
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
	r := newResolver(t, func(c *resolve.Config) { c.Search = []string{"office.test", "corp.test"} }, z.addr)
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
		name string
		host string
		zone map[string][]string
		ttl  time.Duration
	}{
		{"the smaller of both families", "both.test", testZone, 200 * time.Second},
		{"the smallest of a chain", "alias.test", testZone, 40 * time.Second},
		{"at least the minimum", "brief.test", testZone, 30 * time.Second},
		{"at most the maximum", "eternal.test", testZone, 24 * time.Hour},
		{"absence by the SOA", "empty.test", testZone, 900 * time.Second},
		{"absence without an SOA", "nowhere.test", testZone, 4 * time.Second},
		{"absence for ever", "x.test", map[string][]string{"x.test.": {"99999 IN SOA ns.test. admin.test. 1 2 3 4 99999"}}, time.Hour},
		{"absence for no time", "x.test", map[string][]string{"x.test.": {"0 IN SOA ns.test. admin.test. 1 2 3 4 0"}}, 4 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			z := serve(t, tt.zone)
			var c clock
			r := newResolver(t, func(config *resolve.Config) { config.Now = c.now }, z.addr)
			count := func() int {
				_, _ = r.Lookup(t.Context(), tt.host)
				return z.count(tt.host + ".")
			}
			if n := count(); n != 2 {
				t.Fatalf("%d questions, want 2", n)
			}
			asked := 2
			if strings.HasPrefix(tt.name, "absence") { // is to be said twice
				c.advance(resolve.DefaultConfig().FailureTTL)
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
	addrs, err := newResolver(t, nil, z.addr).Lookup(t.Context(), "four.test")
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
	old := serve(t, testZone)
	old.setAnswer(func(w dns.ResponseWriter, q, reply *dns.Msg) bool {
		if q.IsEdns0() == nil {
			return false
		}
		reply.Rcode = dns.RcodeFormatError
		_ = w.WriteMsg(reply)
		return true
	})
	for name, servers := range map[string][]string{
		"behind a failing one": {refuses.addr, good.addr},
		"behind a lying one":   {lies.addr, good.addr},
		"behind a closed port": {"127.0.0.1:1", good.addr},
		"that predates EDNS":   {old.addr},
	} {
		t.Run(name, func(t *testing.T) {
			addrs, err := newResolver(t, nil, servers...).Lookup(t.Context(), "four.test")
			if err != nil || len(addrs) != 1 {
				t.Errorf("%v, %v", addrs, err)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		var c clock
		r := newResolver(t, func(config *resolve.Config) { config.Now, config.Rounds = c.now, 1 }, refuses.addr)
		before := refuses.count("four.test.")
		for range 3 {
			_, err := r.Lookup(t.Context(), "four.test")
			wantKind(t, err, resolve.ServerFailure)
		}
		if n := refuses.count("four.test.") - before; n != 2 {
			t.Errorf("%d questions for three lookups of a failing name, want 2", n)
		}
		c.advance(10 * time.Second)
		_, _ = r.Lookup(t.Context(), "four.test")
		if n := refuses.count("four.test.") - before; n != 4 {
			t.Errorf("%d questions after the failure was forgotten, want 4", n)
		}
	})
	t.Run("silent", func(t *testing.T) {
		silent := serve(t, nil)
		silent.setAnswer(func(dns.ResponseWriter, *dns.Msg, *dns.Msg) bool { return true })
		r := newResolver(t, func(c *resolve.Config) { c.Timeout, c.Rounds = 20*time.Millisecond, 1 }, silent.addr)
		_, err := r.Lookup(t.Context(), "four.test")
		wantKind(t, err, resolve.Timeout)
	})
}

// Many lookups of one name are one flight; it outlives the one who began it and not the last who
// waits.
func TestFlight(t *testing.T) {
	z := serve(t, testZone)
	hold := make(chan struct{})
	z.setAnswer(func(dns.ResponseWriter, *dns.Msg, *dns.Msg) bool { <-hold; return false })
	r := newResolver(t, func(c *resolve.Config) { c.Timeout = time.Minute }, z.addr)
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

func TestLastToLeaveEndsTheFlight(t *testing.T) {
	z := serve(t, testZone)
	z.setAnswer(func(dns.ResponseWriter, *dns.Msg, *dns.Msg) bool { return true })
	r := newResolver(t, func(c *resolve.Config) { c.Timeout = time.Hour }, z.addr)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := r.Lookup(ctx, "four.test"); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	z.setAnswer(nil)
	if addrs, err := r.Lookup(t.Context(), "four.test"); err != nil || len(addrs) != 1 {
		t.Errorf("a question that was cut off is remembered: %v, %v", addrs, err)
	}
}

func TestCacheIsBounded(t *testing.T) {
	records := make(map[string][]string)
	for i := range 20 {
		records[fmt.Sprintf("n%d.test.", i)] = []string{"300 IN A 192.0.2.1"}
	}
	z := serve(t, records)
	r := newResolver(t, func(c *resolve.Config) { c.MaxEntries = 5 }, z.addr)
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

func TestHostsFile(t *testing.T) {
	z := serve(t, testZone)
	var c clock
	var file string
	r := newResolver(t, func(config *resolve.Config) { config.Now = c.now; file = config.HostsFile }, z.addr)
	lookup := func() string {
		addrs, err := r.Lookup(t.Context(), "four.test")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Trim(fmt.Sprint(addrs), "[]")
	}
	write := func(text string, at time.Time) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
		c.advance(5 * time.Second)
	}
	if got := lookup(); got != "192.0.2.4" {
		t.Errorf("without a file: %s", got)
	}
	write("# a comment\n\n2001:db8::4 four.test\n192.0.2.44\tFOUR.test. alias # x\nnonsense four.test\n192.0.2.45\n", time.Unix(1000, 0))
	if got := lookup(); got != "192.0.2.44 2001:db8::4" {
		t.Errorf("with a file: %s", got)
	}
	write("192.0.2.46 four.test\n", time.Unix(2000, 0))
	if got := lookup(); got != "192.0.2.46" {
		t.Errorf("with another file: %s", got)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	c.advance(5 * time.Second)
	if got := lookup(); got != "192.0.2.4" {
		t.Errorf("with the file gone: %s", got)
	}
}

// Records beside the way from the question to the answer are not believed.
func TestStrayRecords(t *testing.T) {
	z := serve(t, testZone)
	z.setAnswer(func(w dns.ResponseWriter, q, reply *dns.Msg) bool {
		for _, r := range []string{"bank.test. 300 IN A 192.0.2.66", "four.test. 300 CH TXT x"} {
			rr, err := dns.NewRR(r)
			if err != nil {
				panic(err)
			}
			reply.Answer = append(reply.Answer, rr)
		}
		z.fill(reply, q.Question[0].Name, dns.TypeToString[q.Question[0].Qtype])
		_ = w.WriteMsg(reply)
		return true
	})
	r := newResolver(t, nil, z.addr)
	addrs, err := r.Lookup(t.Context(), "alias.test")
	if err != nil || !slices.Equal(addrs, []netip.Addr{netip.MustParseAddr("192.0.2.4")}) {
		t.Errorf("%v, %v", addrs, err)
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
