package fetch_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/miekg/dns"

	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/resolve"
)

// everywhere answers every question with an address of this machine, at which nobody is dialled.
func everywhere(t testing.TB) string {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &dns.Server{PacketConn: pc, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		reply := new(dns.Msg).SetReply(q)
		reply.RecursionAvailable = true
		if q.Question[0].Qtype == dns.TypeA {
			reply.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.IPv4(192, 0, 2, 1)}}
		}
		_ = w.WriteMsg(reply)
	})}
	started, done := make(chan struct{}), make(chan struct{})
	server.NotifyStartedFunc = func() { close(started) }
	go func() {
		defer close(done)
		_ = server.ActivateAndServe()
	}()
	<-started
	t.Cleanup(func() {
		_ = server.Shutdown()
		<-done
	})
	return pc.LocalAddr().String()
}

// toHosts fetches by real names over a network on which every connect is refused; it tells where it
// was dialled.
func toHosts(t testing.TB, guarded bool) (get func(ctx context.Context, url string) (dialled string, err error)) {
	t.Helper()
	var at string
	f, err := fetch.New(fetch.Config{
		UserAgent: "apoidea-test", AllowPrivate: !guarded,
		Resolver: resolve.New(resolve.Config{Servers: []string{everywhere(t)}, NoIPv6: true}),
		Dial: func(_ context.Context, _, address string) (net.Conn, error) {
			at = address
			return nil, syscall.ECONNREFUSED
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return func(ctx context.Context, url string) (string, error) {
		at = ""
		resp, err := f.Get(ctx, &fetch.Request{URL: url})
		if err == nil {
			resp.Release()
		}
		return at, err
	}
}

// judge says what becomes of a URL: "dialled", or the outcome that a refused one gets, which must
// be final.
func judge(t testing.TB, url, dialled string, err error) string {
	t.Helper()
	fe, ok := errors.AsType[*fetch.Error](err)
	switch {
	case !ok:
		t.Fatalf("%s: %v", url, err)
	case dialled != "" && fe.Outcome == link.OutcomeConnect:
		if at, err := netip.ParseAddrPort(dialled); err != nil || at.Port() == 0 {
			t.Errorf("%s: dialled %q: %v", url, dialled, err)
		}
		return "dialled"
	case dialled != "":
		t.Errorf("%s: dialled %s, and %v", url, dialled, err)
	case fe.Outcome.Retryable(fe.Status()):
		t.Errorf("%s: nobody was asked, and it is to be tried again: %v", url, err)
	}
	return fe.Outcome.String()
}

// hosts that links may have, and what comes of them: refused as links, dialled, or refused for good
// with an outcome.
var hosts = []struct{ host, want string }{
	{"a.example", "dialled"},
	{"a.example.", "dialled"},
	{"a.example..", "no link"},
	{".a.example", "no link"},
	{"a..example", "no link"},
	{"", "no link"},
	{".", "no link"},
	{"a.example:0", "no link"},
	{"a.example:1", "no link"},
	{"a.example:65535", "dialled"},
	{"a.example:65536", "no link"},
	{"a.example:00080", "dialled"},
	{"a.example:-1", "no link"},
	{"a.example:", "dialled"},
	{"a.example:8080x", "no link"},
	{"[::1]", "dialled"},
	{"[::1]:65535", "dialled"},
	{"[::]", "dialled"},
	{"[2001:db8::1]", "dialled"},
	{"[fe80::1%25eth0]", "no link"},
	{"[fe80::1%eth0]", "no link"},
	{"[::ffff:192.0.2.1]", "dialled"},
	{"[::192.0.2.1]", "dialled"},
	{"[1::2::3]", "no link"},
	{"[192.0.2.1]", "no link"},
	{"[::1", "no link"},
	{"::1", "no link"},
	{"[v1.x]", "no link"},
	{"under_score.example", "dialled"},
	{"_dmarc.example", "dialled"},
	{"-a.example", "dialled"},
	{"a-.example", "dialled"},
	{"a--b.example", "dialled"},
	{strings.Repeat("a", 63) + ".example", "dialled"},
	{strings.Repeat("a", 64) + ".example", "no link"},
	{"a." + strings.Repeat("b", 63), "dialled"},
	{"a." + strings.Repeat("b", 64), "no link"},
	{strings.Repeat("a.", 126) + "b", "dialled"},
	{strings.Repeat("a.", 126) + "bc", "no link"},
	{strings.Repeat("a.", 126) + "b.", "dialled"},
	{strings.Repeat("a.", 126) + "b:65535", "dialled"},
	{"localhost", "dialled"},
	{"intranet", "dialled"},
	{"com", "dialled"},
	{"x", "dialled"},
	{"127.0.0.1", "dialled"},
	{"127.1", "dialled"},
	{"0x7f.1", "dialled"},
	{"2130706433", "dialled"},
	{"017700000001", "dialled"},
	{"0", "dialled"},
	{"127.0.0.1.", "dialled"},
	{"256.1.1.1", "no link"},
	{"1.2.3.4.5", "no link"},
	{"0x", "dialled"},
	{"4294967296", "no link"},
	{"1.2.3.09", "no link"},
	{"a.1", "no link"},
	{"1.a", "dialled"},
	{"bücher.example", "dialled"},
	{"例え.テスト", "dialled"},
	{"xn--bcher-kva.example", "dialled"},
	{"xn--a.example", "no link"},
	{"ａ.example", "dialled"},
	{"a。example", "dialled"},
	{"a%2eexample", "dialled"},
	{"a%00.example", "no link"},
	{"a b.example", "no link"},
	{"a%20b.example", "no link"},
	{"a!b.example", "dns"},
	{"a$b.example", "dns"},
	{"a*b.example", "dns"},
	{"*.example", "dns"},
	{"a~b.example", "dns"},
	{"a'b.example", "dns"},
	{"a,b.example", "dns"},
	{"a(b).example", "dns"},
	{"a;b.example", "dns"},
	{"a=b.example", "dns"},
	{"a&b.example", "dns"},
	{"a+b.example", "dns"},
	{`a"b.example`, "out_of_scope"},
	{"a`b.example", "out_of_scope"},
	{"a{b}.example", "out_of_scope"},
	{"a|b.example", "no link"},
	{"a^b.example", "no link"},
	{`a\b.example`, "dialled"},
	{"user:pass@a.example", "dialled"},
	{"a@b@c.example", "dialled"},
}

// TestHostsOfLinks: whatever host a link may have is dialled, or refused at once and for good;
// robots.txt of it likewise, since that comes first.
func TestHostsOfLinks(t *testing.T) {
	get := toHosts(t, false)
	for _, tt := range hosts {
		for _, scheme := range []string{"http://", "https://"} {
			url, err := link.Canonical(scheme + tt.host + "/")
			if err != nil {
				if tt.want != "no link" {
					t.Errorf("%q is no link: %v", tt.host, err)
				}
				continue
			}
			for _, u := range []string{url, link.Origin(url) + "/robots.txt"} {
				dialled, err := get(t.Context(), u)
				if got := judge(t, u, dialled, err); got != tt.want {
					t.Errorf("%q as %s: %s, want %s (%v)", tt.host, u, got, tt.want, err)
				}
			}
		}
	}
}

// TestGuardOfHosts: no way to write an address that is not public gets it dialled in the public
// profile.
func TestGuardOfHosts(t *testing.T) {
	get := toHosts(t, true)
	for _, tt := range hosts {
		if url, err := link.Canonical("http://" + tt.host + "/"); err == nil {
			dialled, err := get(t.Context(), url) // all names lead to a documentation address
			if got := judge(t, url, dialled, err); got == "dialled" {
				t.Errorf("%q: dialled %s", tt.host, dialled)
			}
		}
	}
}

// FuzzHostsOfLinks holds the table's promise for any host.
func FuzzHostsOfLinks(f *testing.F) {
	for _, tt := range hosts {
		f.Add(tt.host)
	}
	get := toHosts(f, false)
	f.Fuzz(func(t *testing.T, host string) {
		url, err := link.Canonical("http://" + host + "/")
		if err != nil {
			return
		}
		dialled, err := get(t.Context(), url)
		judge(t, url, dialled, err)
	})
}
