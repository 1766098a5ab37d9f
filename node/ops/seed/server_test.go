package seed

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// names of eight peers, as they stand in an answer.
func eight() (list []string) {
	for i := range 8 {
		list = append(list, fmt.Sprintf("/ip6/2a00:1450:4001:829:aaaa:bbbb:cccc:%d/udp/40001/quic-v1/p2p/12D3KooWGfX9jMtG73nYuV18phSpPqsqmtPDjGemVQtfYudsinLy", 1000+i))
	}
	return list
}

func testZone(t testing.TB, draw func() []string) *zone {
	t.Helper()
	c := DefaultConfig()
	c.Zone, c.Names, c.Dir = "Seeds.Example.org", []string{"eu"}, t.TempDir()
	c.NS = []string{"ns.seeds.example.org", "ns.another.example"}
	c.Mailbox = "dns.admin@example.org"
	c.Addresses = []netip.Addr{netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("2001:db8::7")}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return newZone(&c, 7, draw)
}

// serve runs a server on loopback until the test ends.
func serve(t testing.TB, z *zone, perSecond int) (addr string, counts func(string) int) {
	t.Helper()
	udp, tcp, err := listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	seen := map[string]int{}
	s := &server{zone: z, paces: newPaces(perSecond), udp: udp, tcp: tcp, count: func(transport, result string) {
		mu.Lock()
		defer mu.Unlock()
		seen[transport+" "+result]++
	}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Error("the server does not end")
		}
	})
	return tcp.Addr().String(), func(what string) int {
		mu.Lock()
		defer mu.Unlock()
		return seen[what]
	}
}

func ask(t testing.TB, addr, transport, name string, kind uint16, change func(*dns.Msg)) *dns.Msg {
	t.Helper()
	req := new(dns.Msg).SetQuestion(name, kind)
	if change != nil {
		change(req)
	}
	c := &dns.Client{Net: transport, Timeout: 3 * time.Second, UDPSize: dns.DefaultMsgSize}
	m, _, err := c.Exchange(req, addr)
	if err != nil {
		t.Fatalf("%s %s: %v", name, dns.TypeToString[kind], err)
	}
	return m
}

// TestAnswers: each question has its answer, over UDP and TCP.
func TestAnswers(t *testing.T) {
	addr, _ := serve(t, testZone(t, eight), 1000)
	edns := func(size uint16) func(*dns.Msg) { return func(m *dns.Msg) { m.SetEdns0(size, true) } }
	for name, row := range map[string]struct {
		name       string
		kind       uint16
		change     func(*dns.Msg)
		rcode      int
		answers    int
		soa, extra int // SOA in the authority section, records beside OPT in the additional one
	}{
		"peers":                     {"_dnsaddr.seeds.example.org.", dns.TypeTXT, edns(1232), dns.RcodeSuccess, 8, 0, 0},
		"peers, spelled otherwise":  {"_DNSaddr.sEEDs.example.ORG.", dns.TypeTXT, edns(1232), dns.RcodeSuccess, 8, 0, 0},
		"peers of a name below":     {"_dnsaddr.eu.seeds.example.org.", dns.TypeTXT, edns(1232), dns.RcodeSuccess, 8, 0, 0},
		"peers of none such":        {"_dnsaddr.us.seeds.example.org.", dns.TypeTXT, edns(1232), dns.RcodeNameError, 0, 1, 0},
		"SOA":                       {"seeds.example.org.", dns.TypeSOA, nil, dns.RcodeSuccess, 1, 0, 0},
		"NS":                        {"seeds.example.org.", dns.TypeNS, nil, dns.RcodeSuccess, 2, 0, 2},
		"address of a name server":  {"ns.seeds.example.org.", dns.TypeA, nil, dns.RcodeSuccess, 1, 0, 0},
		"its other address":         {"NS.seeds.example.org.", dns.TypeAAAA, nil, dns.RcodeSuccess, 1, 0, 0},
		"no such type":              {"_dnsaddr.seeds.example.org.", dns.TypeA, nil, dns.RcodeSuccess, 0, 1, 0},
		"no such type at the top":   {"seeds.example.org.", dns.TypeTXT, nil, dns.RcodeSuccess, 0, 1, 0},
		"DS":                        {"seeds.example.org.", dns.TypeDS, nil, dns.RcodeSuccess, 0, 1, 0},
		"a name with others below":  {"eu.seeds.example.org.", dns.TypeA, nil, dns.RcodeSuccess, 0, 1, 0},
		"no such name":              {"www.seeds.example.org.", dns.TypeA, nil, dns.RcodeNameError, 0, 1, 0},
		"the parent":                {"example.org.", dns.TypeNS, nil, dns.RcodeRefused, 0, 0, 0},
		"the root":                  {".", dns.TypeNS, nil, dns.RcodeRefused, 0, 0, 0},
		"another zone":              {"example.net.", dns.TypeA, nil, dns.RcodeRefused, 0, 0, 0},
		"one with the same end":     {"moreseeds.example.org.", dns.TypeA, nil, dns.RcodeRefused, 0, 0, 0},
		"ANY":                       {"_dnsaddr.seeds.example.org.", dns.TypeANY, nil, dns.RcodeRefused, 0, 0, 0},
		"AXFR":                      {"seeds.example.org.", dns.TypeAXFR, nil, dns.RcodeRefused, 0, 0, 0},
		"IXFR":                      {"seeds.example.org.", dns.TypeIXFR, nil, dns.RcodeRefused, 0, 0, 0},
		"CHAOS":                     {"seeds.example.org.", dns.TypeTXT, func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }, dns.RcodeRefused, 0, 0, 0},
		"version.bind":              {"version.bind.", dns.TypeTXT, func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }, dns.RcodeRefused, 0, 0, 0},
		"two questions":             {"seeds.example.org.", dns.TypeSOA, func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }, dns.RcodeFormatError, 0, 0, 0},
		"no question":               {"seeds.example.org.", dns.TypeSOA, func(m *dns.Msg) { m.Question = nil }, dns.RcodeFormatError, 0, 0, 0},
		"a question with an answer": {"seeds.example.org.", dns.TypeSOA, func(m *dns.Msg) { m.Answer = records("x.", eight()[:1]) }, dns.RcodeFormatError, 0, 0, 0},
		"NOTIFY":                    {"seeds.example.org.", dns.TypeSOA, func(m *dns.Msg) { m.Opcode = dns.OpcodeNotify }, dns.RcodeNotImplemented, 0, 0, 0},
		"UPDATE":                    {"seeds.example.org.", dns.TypeSOA, func(m *dns.Msg) { m.Opcode = dns.OpcodeUpdate }, dns.RcodeNotImplemented, 0, 0, 0},
		"EDNS of the future":        {"seeds.example.org.", dns.TypeSOA, func(m *dns.Msg) { m.SetEdns0(1232, false); m.IsEdns0().SetVersion(1) }, dns.RcodeBadVers, 0, 0, 0},
	} {
		for _, transport := range []string{"udp", "tcp"} {
			t.Run(name+" over "+transport, func(t *testing.T) {
				m := ask(t, addr, transport, row.name, row.kind, row.change)
				soa, extra := 0, len(m.Extra)
				for _, rr := range m.Ns {
					if rr, ok := rr.(*dns.SOA); ok && rr.Hdr.Name == "seeds.example.org." && rr.Mbox == `dns\.admin.example.org.` && rr.Minttl == lifetime {
						soa++
					}
				}
				if m.IsEdns0() != nil {
					extra--
				}
				authority := row.rcode == dns.RcodeSuccess || row.rcode == dns.RcodeNameError
				if m.Rcode != row.rcode || len(m.Answer) != row.answers || soa != row.soa || len(m.Ns) != soa || extra != row.extra || m.Authoritative != authority || m.RecursionAvailable || m.Truncated {
					t.Errorf("%v", m)
				}
				for _, rr := range m.Answer {
					if rr.Header().Name != row.name && rr.Header().Rrtype != dns.TypeSOA || rr.Header().Ttl > authorityLifetime || rr.Header().Rrtype == dns.TypeTXT && rr.Header().Ttl != lifetime {
						t.Errorf("%v", rr)
					}
				}
			})
		}
	}
	t.Run("response", func(t *testing.T) {
		req := new(dns.Msg).SetQuestion("seeds.example.org.", dns.TypeSOA)
		req.Response = true
		if m, _, err := (&dns.Client{Timeout: 200 * time.Millisecond}).Exchange(req, addr); err == nil {
			t.Errorf("answered: %v", m)
		}
	})
}

// TestSizes: an answer fits into what whoever asked can take, without being cut: with fewer peers
// if need be.
func TestSizes(t *testing.T) {
	addr, _ := serve(t, testZone(t, eight), 1000)
	for _, row := range []struct {
		transport string
		edns      uint16 // 0: none
		answers   int
	}{{"udp", 0, 3}, {"udp", 100, 3}, {"udp", 512, 3}, {"udp", 700, 4}, {"udp", 1232, 8}, {"udp", 4096, 8}, {"udp", 65535, 8}, {"tcp", 0, 8}} {
		m := ask(t, addr, row.transport, "_dnsaddr.seeds.example.org.", dns.TypeTXT, func(m *dns.Msg) {
			if row.edns > 0 {
				m.SetEdns0(row.edns, false)
			}
		})
		m.Compress = true
		if n := m.Len(); len(m.Answer) != row.answers || m.Truncated || row.transport == "udp" && n > min(max(int(row.edns), 512), 1232) || (m.IsEdns0() != nil) != (row.edns > 0) {
			t.Errorf("%+v: %d bytes, %v", row, n, m)
		}
	}
	long := strings.Repeat(strings.Repeat("a", 60)+".", 3) + "seeds.example.org"
	c := DefaultConfig()
	c.Zone, c.NS = long, []string{"ns." + strings.Repeat(strings.Repeat("b", 60)+".", 3) + "example"}
	c.NS = append(c.NS, "x"+c.NS[0], "y"+c.NS[0], "z"+c.NS[0])
	addr, _ = serve(t, newZone(&c, 1, eight), 1000)
	if m := ask(t, addr, "udp", dns.Fqdn(long), dns.TypeNS, nil); m.Truncated && len(m.Answer) == len(c.NS) {
		t.Errorf("%v", m)
	}
	if m := ask(t, addr, "tcp", dns.Fqdn(long), dns.TypeNS, nil); m.Truncated || len(m.Answer) != len(c.NS) {
		t.Errorf("%v", m)
	}
}

// TestNobodyToTell: a seed without peers says so, and not that there is no such name.
func TestNobodyToTell(t *testing.T) {
	addr, _ := serve(t, testZone(t, func() []string { return nil }), 1000)
	if m := ask(t, addr, "udp", "_dnsaddr.seeds.example.org.", dns.TypeTXT, nil); m.Rcode != dns.RcodeSuccess || len(m.Answer) != 0 || len(m.Ns) != 1 {
		t.Errorf("%v", m)
	}
}

// TestPace: beyond the rate of a network half of the answers are none, and half send whoever asked
// to TCP, where they are answered.
func TestPace(t *testing.T) {
	addr, counts := serve(t, testZone(t, eight), 5)
	const questions = 100
	c, err := net.Dial("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	req, _ := new(dns.Msg).SetQuestion("_dnsaddr.seeds.example.org.", dns.TypeTXT).Pack()
	begun := time.Now()
	for range questions {
		_, _ = c.Write(req)
		time.Sleep(time.Millisecond)
	}
	whole, cut, buf := 0, 0, make([]byte, 4096)
	most := 10 + int(5*time.Since(begun).Seconds()) + 4
	for {
		_ = c.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
		n, err := c.Read(buf)
		if err != nil {
			break
		}
		m := new(dns.Msg)
		switch err := m.Unpack(buf[:n]); {
		case err != nil:
			t.Fatal(err)
		case m.Truncated && len(m.Answer) == 0 && n <= len(req):
			cut++
		case !m.Truncated && len(m.Answer) > 0:
			whole++
		default:
			t.Errorf("%d bytes for %d: %v", n, len(req), m)
		}
	}
	if over := questions - whole; whole < 10 || whole > most || cut < over/2-3 || cut > over/2+3 {
		t.Errorf("%d whole, %d cut of %d", whole, cut, questions)
	}
	if counts("udp answered") != whole || counts("udp slipped") != cut || counts("udp dropped") != questions-whole-cut {
		t.Error("they are not counted")
	}
	if m := ask(t, addr, "tcp", "_dnsaddr.seeds.example.org.", dns.TypeTXT, nil); len(m.Answer) != 8 {
		t.Errorf("over TCP: %v", m)
	}
}

// TestPaceByNetwork: networks are counted apart, their addresses together, and there is no end of
// networks in memory.
func TestPaceByNetwork(t *testing.T) {
	p := newPaces(1)
	now := time.Now()
	take := func(text string) verdict { return p.take(now, netip.MustParseAddr(text)) }
	for i, row := range []struct {
		addr string
		want verdict
	}{
		{"192.0.2.1", send},
		{"192.0.2.2", send},
		{"192.0.2.3", slip},
		{"::ffff:192.0.2.4", drop},
		{"192.0.2.5", slip},
		{"198.51.100.1", send},
		{"2001:db8::1", send},
		{"2001:db8:0:ff::1", send},
		{"2001:db8::2", drop},
		{"2001:db8:0:100::1", send},
	} {
		if got := take(row.addr); got != row.want {
			t.Errorf("%d, %s: %v, want %v", i, row.addr, got, row.want)
		}
	}
	now = now.Add(time.Second)
	if take("192.0.2.9") != send {
		t.Error("the rate does not come back")
	}
}

// TestSlowOverTCP: silent and dripping clients are disconnected in time, and others are answered
// meanwhile.
func TestSlowOverTCP(t *testing.T) {
	if testing.Short() || os.Getenv("APOIDEA_FULL") == "" {
		t.Skip("slow: runs with scripts/check.sh --full")
	}
	addr, _ := serve(t, testZone(t, eight), 1000)
	begin := time.Now()
	var slow sync.WaitGroup
	for i := range 15 {
		slow.Go(func() {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			if i%2 == 0 { // drips questions: each in time, and more of them than one may
				req, _ := new(dns.Msg).SetQuestion("seeds.example.org.", dns.TypeSOA).Pack()
				framed := append(binary.BigEndian.AppendUint16(nil, uint16(len(req))), req...)
				go func() { _, _ = io.Copy(io.Discard, c) }()
				for time.Since(begin) < 2*tcpLife {
					if _, err := c.Write(framed[:1]); err != nil {
						return
					}
					time.Sleep(time.Second)
					if _, err := c.Write(framed[1:]); err != nil {
						return
					}
				}
				t.Error("a dripping client was not sent away")
				return
			}
			_ = c.SetReadDeadline(begin.Add(2 * tcpLife))
			if n, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || time.Since(begin) > tcpLife {
				t.Errorf("a silent client: %d bytes, %v after %v", n, err, time.Since(begin))
			}
		})
	}
	time.Sleep(300 * time.Millisecond)
	if m := ask(t, addr, "tcp", "_dnsaddr.seeds.example.org.", dns.TypeTXT, nil); len(m.Answer) != 8 {
		t.Errorf("beside them: %v", m)
	}
	if m := ask(t, addr, "udp", "_dnsaddr.seeds.example.org.", dns.TypeTXT, nil); len(m.Answer) == 0 {
		t.Errorf("over UDP: %v", m)
	}
	slow.Wait()
	if took := time.Since(begin); took > tcpLife+2*time.Second {
		t.Errorf("they were there for %v", took)
	}
	for range 2 * tcpQueries { // and the door counts whoever has left
		ask(t, addr, "tcp", "seeds.example.org.", dns.TypeSOA, nil)
	}
}

// TestFlood: a flood of questions, whole, cut and senseless, takes no memory that stays, and does
// not keep the server from ending.
func TestFlood(t *testing.T) {
	addr, counts := serve(t, testZone(t, eight), 20)
	good, _ := new(dns.Msg).SetQuestion("_dnsaddr.seeds.example.org.", dns.TypeTXT).Pack()
	live := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := live()
	var senders sync.WaitGroup
	var peak int64
	for i := range 4 {
		senders.Go(func() {
			c, err := net.Dial("udp", addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			for k := range 25_000 {
				switch msg := bytes.Clone(good); (i + k) % 4 {
				case 0:
					_, _ = c.Write(msg[:k%len(msg)])
				case 1:
					msg[k%len(msg)] ^= byte(k)
					_, _ = c.Write(msg)
				default:
					_, _ = c.Write(msg)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { senders.Wait(); close(done) }()
	for running := true; running; {
		select {
		case <-done:
			running = false
		case <-time.After(50 * time.Millisecond):
			peak = max(peak, live()-before)
		}
	}
	// Go keeps the descriptors of the goroutines that were alive at once, half a kilobyte each: on a
	// busy machine several thousand, as each datagram has one.
	const kept = 4 << 20
	after := live() - before
	for end := time.Now().Add(10 * time.Second); after > kept && time.Now().Before(end); { // what came last may still be under way
		time.Sleep(50 * time.Millisecond)
		after = live() - before
	}
	t.Logf("at most %d KiB, %d KiB after; %d answered, %d slipped, %d dropped, %d malformed", peak>>10, after>>10,
		counts("udp answered"), counts("udp slipped"), counts("udp dropped"), counts("udp malformed"))
	if peak > 16<<20 || after > kept {
		t.Errorf("the flood took %d KiB, and %d KiB stay", peak>>10, after>>10)
	}
	if m := ask(t, addr, "tcp", "_dnsaddr.seeds.example.org.", dns.TypeTXT, nil); len(m.Answer) != 8 {
		t.Errorf("after the flood: %v", m)
	}
}

// FuzzAnswer: whatever comes in is answered within its bounds, or not at all.
func FuzzAnswer(f *testing.F) {
	z := testZone(f, eight)
	for _, kind := range []uint16{dns.TypeTXT, dns.TypeSOA, dns.TypeANY, dns.TypeIXFR} {
		for _, name := range []string{"_dnsaddr.seeds.example.org.", "seeds.example.org.", "example.net.", "."} {
			m := new(dns.Msg).SetQuestion(name, kind)
			plain, _ := m.Pack()
			m.SetEdns0(4096, true)
			extended, _ := m.Pack()
			f.Add(plain)
			f.Add(extended)
		}
	}
	f.Add(make([]byte, 12))
	f.Add([]byte{1, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0}) // a head that promises a question
	f.Fuzz(func(t *testing.T, raw []byte) {
		req := new(dns.Msg)
		if req.Unpack(raw) != nil {
			return
		}
		most := size(req)
		m := z.answer(req, most)
		packed, err := m.Pack()
		if err != nil {
			t.Fatalf("%v: %v", err, m)
		}
		if len(packed) > most || most > mostUDP || m.Id != req.Id || !m.Response || m.RecursionAvailable || m.Rcode == dns.RcodeRefused && len(m.Answer) > 0 {
			t.Fatalf("%d bytes: %v", len(packed), m)
		}
	})
}

// TestListenHint: who may not have a port is told what to do.
func TestListenHint(t *testing.T) {
	for want, err := range map[string]error{
		"sudo setcap cap_net_bind_service=+ep": &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", syscall.EACCES)},
		"--listen ADDRESS:53":                  &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", syscall.EADDRINUSE)},
		"listen :53: no such thing":            errors.New("no such thing"),
	} {
		if got := listenHint(":53", err); !strings.Contains(got.Error(), want) || !errors.Is(got, err) {
			t.Errorf("%v, want %q", got, want)
		}
	}
}
