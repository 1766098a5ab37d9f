package p2p

import (
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// newDNS serves TXT records by name on loopback and returns its address and how
// to stop it.
func newDNS(t *testing.T, records map[string][]string) (addr string, stop func()) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	server := &dns.Server{
		PacketConn:        conn,
		NotifyStartedFunc: func() { close(ready) },
		Handler: dns.HandlerFunc(func(w dns.ResponseWriter, req *dns.Msg) {
			answer := new(dns.Msg).SetReply(req)
			name := strings.ToLower(strings.TrimSuffix(req.Question[0].Name, "."))
			texts, known := records[name]
			if !known {
				answer.Rcode = dns.RcodeNameError
			}
			for _, text := range texts {
				answer.Answer = append(answer.Answer, &dns.TXT{
					Hdr: dns.RR_Header{Name: req.Question[0].Name, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: 1},
					Txt: []string{text},
				})
			}
			_ = w.WriteMsg(answer)
		}),
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.ActivateAndServe()
	}()
	<-ready
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			_ = server.Shutdown()
			<-done
		}
	}
	t.Cleanup(stop)
	return conn.LocalAddr().String(), stop
}

func TestSeedRecords(t *testing.T) {
	const id = "12D3KooWD3eckifWpRn9wQpMG9R9hX3sD158z7EqHWmweQAJU5SA"
	peerAt := func(port string) string { return "/ip4/127.0.0.1/tcp/" + port + "/p2p/" + id }
	loop := map[string][]string{"_dnsaddr.loop.test": {"dnsaddr=/dnsaddr/loop.test"}}
	many := map[string][]string{}
	for i := range 3 * maxNesting {
		many["_dnsaddr."+strings.Repeat("n", i)+"deep.test"] = []string{"dnsaddr=/dnsaddr/" + strings.Repeat("n", i+1) + "deep.test"}
	}
	rows := []struct {
		name    string
		domain  string
		records map[string][]string
		want    []string
		err     string
	}{
		{
			"records beside other text", "seed.test",
			map[string][]string{"_dnsaddr.seed.test": {"v=spf1 -all", "dnsaddr=" + peerAt("1"), "dnsaddr=nonsense", "dnsaddr=" + peerAt("2")}},
			[]string{peerAt("1"), peerAt("2")},
			"",
		},
		{
			"nested", "seed.test",
			map[string][]string{
				"_dnsaddr.seed.test":    {"dnsaddr=/dnsaddr/eu.seed.test", "dnsaddr=/dnsaddr/us.seed.test"},
				"_dnsaddr.eu.seed.test": {"dnsaddr=" + peerAt("3")},
				"_dnsaddr.us.seed.test": {"dnsaddr=" + peerAt("4")},
			},
			[]string{peerAt("3"), peerAt("4")},
			"",
		},
		{
			"one region gone", "seed.test",
			map[string][]string{
				"_dnsaddr.seed.test":    {"dnsaddr=/dnsaddr/eu.seed.test", "dnsaddr=/dnsaddr/us.seed.test"},
				"_dnsaddr.eu.seed.test": {"dnsaddr=" + peerAt("3")},
			},
			[]string{peerAt("3")},
			"",
		},
		{"no such domain", "nowhere.test", nil, nil, "lookup _dnsaddr.nowhere.test: no such host"},
		{"nothing usable", "seed.test", map[string][]string{"_dnsaddr.seed.test": {"hello"}}, nil, "no usable dnsaddr record"},
		{"loop", "loop.test", loop, nil, "nested"},
		{"too deep", "deep.test", many, nil, "nested"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			server, _ := newDNS(t, row.records)
			found, err := newResolver(server).seed(t.Context(), row.domain)
			var got []string
			for _, a := range found {
				got = append(got, a.String())
			}
			slices.Sort(got)
			if !slices.Equal(got, row.want) {
				t.Errorf("found %v, want %v", got, row.want)
			}
			if row.err == "" && err != nil || row.err != "" && (err == nil || !strings.Contains(err.Error(), row.err)) {
				t.Errorf("error %v, want %q", err, row.err)
			}
		})
	}
}

// TestRingOfEightFromSeed is Apoidea 3.3: peers find the ring through a DNS name,
// and with the name gone through the peers they remember.
func TestRingOfEightFromSeed(t *testing.T) {
	members := newMembers(t, 8)
	var records []string
	for _, m := range members {
		for _, a := range m.Addrs() {
			records = append(records, "dnsaddr="+a)
		}
	}
	server, stop := newDNS(t, map[string][]string{
		"_dnsaddr.seed.test":       {"dnsaddr=/dnsaddr/peers.seed.test"},
		"_dnsaddr.peers.seed.test": records,
	})
	newcomer := func() kadPeer {
		var m kadPeer
		m.Net = newNet(t, "test", "", func(n *Net) {
			var err error
			if m.Kad, err = NewKad(n); err != nil {
				t.Fatal(err)
			}
		})
		return m
	}
	first := newcomer()
	report := first.Bootstrap(t.Context(), Sources{DNSSeeds: []string{"seed.test"}, DNSServer: server})
	if len(report.Entries) != len(members) {
		t.Fatalf("%d entries: %v", len(report.Entries), report)
	}
	waitFor(t, "members", func() bool { return first.Size() == len(members) })
	remembered := first.Remembered(32)
	if len(remembered) != len(members) {
		t.Fatalf("remembered %q", remembered)
	}
	if err := first.Net.Close(); err != nil {
		t.Fatal(err)
	}
	stop()

	again := newcomer()
	report = again.Bootstrap(t.Context(), Sources{
		DNSSeeds: []string{"seed.test"}, DNSServer: server, Remembered: remembered,
	})
	if len(report.Entries) != len(members) {
		t.Fatalf("with the seed gone, %d entries: %v", len(report.Entries), report)
	}
	lost := slices.IndexFunc(report.Attempts, func(a Attempt) bool { return a.Source == sourceSeed && a.Err != nil })
	if lost < 0 {
		t.Errorf("the report does not say that the seed is gone: %v", report.Attempts)
	}
}

func TestNoEntrySaysWhatWasTried(t *testing.T) {
	n := newNet(t, "test", "", func(n *Net) {
		if _, err := NewKad(n); err != nil {
			t.Fatal(err)
		}
	})
	stranger := newNet(t, "other", "", func(n *Net) { n.Handle(ringService, echo) })
	deadServer, stop := newDNS(t, nil)
	stop()
	const id = "12D3KooWD3eckifWpRn9wQpMG9R9hX3sD158z7EqHWmweQAJU5SA"
	report := n.Bootstrap(t.Context(), Sources{
		Bootstrap:  []string{"/ip4/127.0.0.1/tcp/1/p2p/" + id, "/ip4/127.0.0.1/tcp/1", "127.0.0.1:1", stranger.Addrs()[0]},
		DNSSeeds:   []string{"seed.test"},
		DNSServer:  deadServer,
		Remembered: []string{n.Addrs()[0]},
	})
	if len(report.Entries) != 0 {
		t.Fatalf("entries %v", report.Entries)
	}
	text := report.Error()
	for _, want := range []string{
		"--bootstrap /ip4/127.0.0.1/tcp/1/p2p/" + id + ": ", "connection refused",
		"--bootstrap /ip4/127.0.0.1/tcp/1: /ip4/127.0.0.1/tcp/1 has no /p2p/<peer>",
		"--bootstrap 127.0.0.1:1: ",
		`network "other"`, `"test"`,
		"--dns-seed seed.test: lookup _dnsaddr.seed.test: ",
		"remembered peer", "is this peer itself",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in: %s", want, text)
		}
	}
	if strings.Contains(text, "\n") {
		t.Errorf("more than one line: %q", text)
	}
	if text := n.Bootstrap(t.Context(), Sources{}).Error(); !strings.Contains(text, "none") {
		t.Errorf("nothing to try: %q", text)
	}
}

// TestEntryHangsUp: an entry peer that has a crowd at its limiter, and ends connections before
// anything was said over them, is tried again; one that always does is told of.
func TestEntryHangsUp(t *testing.T) {
	t.Parallel()
	member := newNet(t, "test", "/ip4/127.0.0.1/tcp/0", func(n *Net) {
		if _, err := NewKad(n); err != nil {
			t.Fatal(err)
		}
		n.Handle(ringService, echo)
	})
	addr := strings.TrimPrefix(member.Addrs()[0], "/ip4/127.0.0.1/tcp/")
	port, id, _ := strings.Cut(addr, "/p2p/")
	for _, tt := range []struct {
		name   string
		passes []int64 // bytes that the member may say over a connection; the last one goes for all further
		enters bool
	}{
		{"at once", []int64{0, 0, 1 << 20}, true},
		{"in the handshake", []int64{30, 200, 1 << 20}, true},
		{"always", []int64{0}, false},
		{"always in the handshake", []int64{200}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			limiter, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = limiter.Close() })
			go func() {
				for i := 0; ; i++ {
					in, err := limiter.Accept()
					if err != nil {
						return
					}
					go func() {
						defer in.Close()
						out, err := net.Dial("tcp", "127.0.0.1:"+port)
						if err != nil {
							return
						}
						defer out.Close()
						go func() { _, _ = io.Copy(out, in) }()
						_, _ = io.CopyN(in, out, tt.passes[min(i, len(tt.passes)-1)])
					}()
				}
			}()
			n := newNet(t, "test", "", func(n *Net) {
				if _, err := NewKad(n); err != nil {
					t.Fatal(err)
				}
			})
			_, doorPort, _ := net.SplitHostPort(limiter.Addr().String())
			report := n.Bootstrap(t.Context(), Sources{Bootstrap: []string{"/ip4/127.0.0.1/tcp/" + doorPort + "/p2p/" + id}})
			if entered := len(report.Entries) == 1; entered != tt.enters {
				t.Errorf("entered %v: %v", entered, report)
			}
			if text := report.Error(); !tt.enters && (strings.Contains(text, "does not serve") || strings.Contains(text, "\n")) {
				t.Errorf("it says %s", text)
			}
		})
	}
}
