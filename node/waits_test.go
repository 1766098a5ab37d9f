package node

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/apoidea/apoidea/node/control"
)

// nameServer answers for names ending in .test: those with nx do not exist, those with sf fail
// until they are mended, silent ones get no answer, all others are 127.0.0.1.
type nameServer struct {
	addr   string
	mended atomic.Bool
	asked  atomic.Int64
}

func serveNames(t *testing.T) *nameServer {
	t.Helper()
	n := new(nameServer)
	pc, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n.addr = pc.LocalAddr().String()
	server := &dns.Server{PacketConn: pc, Handler: dns.HandlerFunc(n.answer)}
	ended := make(chan error, 1)
	go func() { ended <- server.ActivateAndServe() }()
	t.Cleanup(func() {
		_ = pc.Close()
		<-ended
	})
	return n
}

func (n *nameServer) answer(w dns.ResponseWriter, q *dns.Msg) {
	n.asked.Add(1)
	name := q.Question[0].Name
	reply := new(dns.Msg).SetReply(q)
	switch {
	case strings.HasPrefix(name, "nx"):
		reply.Rcode = dns.RcodeNameError
	case strings.HasPrefix(name, "sf") && !n.mended.Load():
		reply.Rcode = dns.RcodeServerFailure
	case strings.HasPrefix(name, "silent"):
		return
	case q.Question[0].Qtype == dns.TypeA:
		rr, err := dns.NewRR(name + " 300 IN A 127.0.0.1")
		if err != nil {
			panic(err)
		}
		reply.Answer = append(reply.Answer, rr)
	}
	_ = w.WriteMsg(reply)
}

// waitFor waits for the end of all that is due within a patience, and returns how it was then.
func waitFor(t *testing.T, p *testPeer, within time.Duration) (last control.Progress) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := p.Wait(ctx, "", within, func(pr control.Progress) error { last = pr; return nil }); err != nil {
		t.Fatalf("wait: %v; last progress %+v", err, last)
	}
	return last
}

// TestWaitingEnds: a ring is done when nothing is left but URLs whose next try is further away than
// the patience, whichever peers keep them. They are told as put off, and taken up later; a name
// that does not exist is no reason to wait.
//
// Slow: real peers form a ring and crawl over real connections, beside other tests.
func TestWaitingEnds(t *testing.T) {
	t.Parallel()
	names := serveNames(t)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/robots.txt" && strings.HasPrefix(r.Host, "closed"):
			w.Header().Set("Retry-After", "Thu, 01 Jan 2099 00:00:00 GMT")
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/robots.txt":
			w.WriteHeader(http.StatusNotFound)
		case strings.HasPrefix(r.Host, "busy"):
			w.Header().Set("Retry-After", "1000000000000")
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			fmt.Fprint(w, r.Host, r.URL.Path)
		}
	}))
	t.Cleanup(site.Close)
	_, port, err := net.SplitHostPort(site.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	peers := ringOf(t, 3, func(_ int, c *Config) { c.DNSServer = names.addr })
	var seeds []string
	for _, kind := range []string{"good", "busy", "closed", "nx", "sf"} {
		for i := range 3 {
			seeds = append(seeds, fmt.Sprintf("http://%s%d.test:%s/", kind, i, port))
		}
	}
	if _, err := peers[0].Post(t.Context(), control.JobSpec{URLs: seeds}); err != nil {
		t.Fatal(err)
	}
	p := waitFor(t, peers[1], time.Second)
	// The names that do not exist end after a second try, 5 s later: on a slow machine before this.
	ended := p.Errors
	if p.Pages+p.Duplicates != 3 || p.URLsPutOff != 12-ended || p.HostsPutOff != 12-ended || p.URLsPending != 12-ended || ended > 3 {
		t.Errorf("in the end: %+v", p)
	}
	told := make(map[string]int64)
	for _, w := range p.Waits {
		told[w.Reason] = w.PutOff
		if len(w.Examples) == 0 || w.Examples[0].Why == "" || w.Reason == "dns" && !strings.Contains(w.Examples[0].Why, "resolve") {
			t.Errorf("why %s: %+v", w.Reason, w.Examples)
		}
	}
	if told["dns"] != 6-ended || told["http_error"] != 3 || told["robots_unreachable"] != 3 {
		t.Errorf("reasons %v", told)
	}
	wantPutOff(t, peers[2], seeds[3], "Too Many Requests")
	wantPutOff(t, peers[0], seeds[6], "robots")
	jobs, err := peers[2].Jobs(t.Context())
	if err != nil || len(jobs) != 1 || jobs[0].State != "running" || jobs[0].PutOffHosts != 6 { // by the peer's own patience
		t.Errorf("jobs %+v, %v", jobs, err)
	}
	names.mended.Store(true)
	if p = waitFor(t, peers[0], 5*time.Minute); p.Pages+p.Duplicates != 6 || p.URLsPutOff != 6 || p.Errors != 3 {
		t.Errorf("with more patience, and the names there: %+v", p)
	}
	if w, err := peers[2].Why(t.Context(), seeds[9]); err != nil || len(w.Jobs) != 1 || w.Jobs[0].Outcome != "dns" || w.Jobs[0].Status != 0 {
		t.Errorf("a name that does not exist: %+v, %v", w, err)
	}
}

// wantPutOff asks for a URL and its host.
func wantPutOff(t *testing.T, p *testPeer, url, why string) {
	t.Helper()
	w, err := p.Why(t.Context(), url)
	if err != nil || len(w.Jobs) != 1 || !w.Jobs[0].PutOff || w.Jobs[0].DueS < 23*3600 || !strings.Contains(w.Jobs[0].Text, why) {
		t.Errorf("why %s: %+v, %v", url, w, err)
	}
	h, err := p.Host(t.Context(), url)
	if err != nil || !h.PutOff || h.Fails != 1 || !strings.Contains(h.Backoff, why) {
		t.Errorf("host of %s: %+v, %v", url, h, err)
	}
	for _, r := range h.Robots {
		if r.AgeS < 0 || r.AgeS > 3600 {
			t.Errorf("robots.txt of %s is said to be %v s old", url, r.AgeS)
		}
	}
}
