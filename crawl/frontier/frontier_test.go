package frontier

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// at is a time in seconds.
func at(seconds float64) time.Time { return epoch.Add(time.Duration(seconds * float64(time.Second))) }

// TestDelay: what is owed after one request, by what the site asks and how long it took.
func TestDelay(t *testing.T) {
	for _, tt := range []struct {
		name  string
		cfg   Config
		crawl time.Duration
		took  time.Duration
		want  time.Duration
	}{
		{"the floor", Config{Delay: time.Second}, 0, 10 * time.Millisecond, time.Second},
		{"a slow site gets rest", Config{Delay: time.Second}, 0, 3 * time.Second, 6 * time.Second},
		{"but not without end", Config{Delay: time.Second}, 0, time.Minute, DefaultMaxAdaptive},
		{"a factor of its own", Config{Delay: time.Second, Factor: 10}, 0, time.Second, 10 * time.Second},
		{"no factor", Config{Delay: time.Second, Factor: -1}, 0, time.Minute, time.Second},
		{"Crawl-delay", Config{Delay: time.Second}, 5 * time.Second, 0, 5 * time.Second},
		{"Crawl-delay below the floor", Config{Delay: time.Second}, time.Millisecond, 0, time.Second},
		{"Crawl-delay beyond the cap", Config{Delay: time.Second}, time.Hour, 0, time.Minute},
		{"Crawl-delay below zero", Config{Delay: time.Second}, -time.Hour, 0, time.Second},
		{"no limit", Config{}, 0, time.Minute, 0},
		{"no limit but the site's", Config{}, 2 * time.Second, time.Minute, 2 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := New[int](tt.cfg)
			f.CrawlDelay("a", tt.crawl)
			f.Push("a", 1, 2)
			f.Next(epoch)
			f.Take("a")
			f.Done(epoch, "a", tt.took)
			if got := f.Owed(epoch, "a"); got != tt.want {
				t.Errorf("owed %v, want %v", got, tt.want)
			}
			name, due := f.Next(epoch)
			if tt.want > 0 && (name != "" || !due.Equal(epoch.Add(tt.want))) || tt.want == 0 && name != "a" {
				t.Errorf("Next: %q due %v", name, due)
			}
		})
	}
}

// TestOrder: hosts that are due at the same time have turns; items of a host come in their order.
func TestOrder(t *testing.T) {
	f := New[string](Config{})
	f.Push("a", "a1", "a2", "a3")
	f.Push("b", "b1", "b2")
	f.Push("c", "c1")
	var got []string
	for {
		name, _ := f.Next(epoch)
		if name == "" {
			break
		}
		item, ok := f.Take(name)
		if !ok {
			t.Fatalf("%s has nothing", name)
		}
		got = append(got, item)
		f.Done(epoch, name, 0)
	}
	if want := []string{"a1", "b1", "c1", "a2", "b2", "a3"}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

// TestGroupsHaveTurns: of hosts that may be asked the groups have turns, however many hosts one has
// and however new they are; what leaves its line is not asked, and loses nothing.
func TestGroupsHaveTurns(t *testing.T) {
	f := New[int](Config{Group: func(host string) string { return host[:1] }})
	for i := range 100 {
		f.Push(fmt.Sprint("f", i), 1)
	}
	f.Push("a", 1, 2, 3)
	f.Push("b", 1)
	turn := 0
	next := func() string {
		name, _ := f.Next(at(float64(turn)))
		f.Take(name)
		f.Done(at(float64(turn)), name, 0)
		turn++
		f.Push(fmt.Sprint("f", 100+turn), 1) // new ones, that were never asked
		return name
	}
	var got []string
	for range 9 {
		got = append(got, next())
	}
	if want := []string{"f0", "a", "b", "f1", "a", "f2", "a", "f3", "f4"}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
	f.Push("c", 1)
	f.Next(at(float64(turn))) // f5; c is in a line now
	f.NotBefore("c", at(1000))
	f.Remove("f6")
	for range 300 {
		if name := next(); name == "c" || name == "f6" {
			t.Fatalf("%s is asked", name)
		}
	}
	if name, _ := f.Next(at(1000)); name == "" {
		t.Error("nothing is due")
	}
	for range 3 {
		if next() == "c" {
			return
		}
	}
	turn = 1001
	for range 3 {
		if next() == "c" {
			return
		}
	}
	t.Error("c never has its turn")
}

// TestNotBefore leaves a host alone, never less than before.
func TestNotBefore(t *testing.T) {
	f := New[int](Config{})
	f.Push("a", 1)
	f.NotBefore("a", at(10))
	f.NotBefore("a", at(5))
	f.NotBefore("b", at(3)) // nothing is known of it yet
	f.Push("b", 1)
	if name, due := f.Next(at(2)); name != "" || !due.Equal(at(3)) {
		t.Errorf("Next: %q, due %v", name, due)
	}
	if name, _ := f.Next(at(3)); name != "b" {
		t.Errorf("Next: %q, want b", name)
	}
	if name, _ := f.Next(at(9)); name != "" {
		t.Errorf("Next: %q, want none", name)
	}
	if name, _ := f.Next(at(10)); name != "a" {
		t.Errorf("Next: %q, want a", name)
	}
}

// TestSlow: a host is asked so many times less often than politeness has it, up to the cap of what
// adapts, and never more often.
func TestSlow(t *testing.T) {
	for _, tt := range []struct {
		cfg  Config
		slow float64
		want time.Duration
	}{
		{Config{Delay: time.Second, Factor: -1}, 0, time.Second},
		{Config{Delay: time.Second, Factor: -1}, 0.1, time.Second},
		{Config{Delay: time.Second, Factor: -1}, 3, 3 * time.Second},
		{Config{Delay: time.Second, Factor: 2}, 3, 12 * time.Second}, // a request took two seconds
		{Config{Delay: time.Second, Factor: -1}, 1000, DefaultMaxAdaptive},
		{Config{Delay: 50 * time.Second, Factor: -1}, 3, 50 * time.Second},
		{Config{}, 3, 0},
	} {
		f := New[int](tt.cfg)
		f.Push("a", 1, 2)
		f.Slow("a", tt.slow)
		f.Next(at(0))
		f.Take("a")
		f.Done(at(2), "a", 2*time.Second)
		if got := f.Owed(at(2), "a"); got != tt.want {
			t.Errorf("%+v, %v times less often: %v owed, want %v", tt.cfg, tt.slow, got, tt.want)
		}
	}
}

// TestUnget puts an item in front of the others.
func TestUnget(t *testing.T) {
	f := New[int](Config{})
	f.Push("a", 1, 2)
	f.Next(epoch)
	one, _ := f.Take("a")
	f.Unget("a", one)
	f.Free("a")
	f.Unget("b", 7)
	for _, want := range []int{1, 2} {
		if got, _ := f.Take("a"); got != want {
			t.Errorf("took %d, want %d", got, want)
		}
	}
	if f.Items() != 1 || f.Len("b") != 1 {
		t.Errorf("%d items, %d of b", f.Items(), f.Len("b"))
	}
}

// TestRemoveWhileVisited: a host that is removed and comes back has no second visit before the end
// of the first.
func TestRemoveWhileVisited(t *testing.T) {
	f := New[int](Config{Delay: time.Second})
	f.Push("a", 1, 2)
	f.Next(epoch)
	f.Take("a")
	if rest := f.Remove("a"); !slices.Equal(rest, []int{2}) {
		t.Errorf("Remove: %v", rest)
	}
	f.Push("a", 3)
	if name, _ := f.Next(at(5)); name != "" {
		t.Errorf("second visit of %q", name)
	}
	f.Done(at(6), "a", 0)
	if name, _ := f.Next(at(6.5)); name != "" {
		t.Error("the delay after the first visit is forgotten")
	}
	if name, _ := f.Next(at(7)); name != "a" {
		t.Errorf("Next: %q, want a", name)
	}
	f.Remove("a")
	f.Done(at(8), "a", 0)
	if f.Hosts() != 0 {
		t.Errorf("%d hosts left", f.Hosts())
	}
}

// TestAddressShares: hosts behind one address share requests at once and the gap between them;
// loopback, and a peer without any delay, do not.
func TestAddressShares(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  Config
		ip   string
		want []int // visits opened at each tenth of a second, none ending
	}{
		{"requests at once", Config{Delay: time.Second, PerIP: 3, IPDelay: -1}, "192.0.2.1", []int{3, 0, 0}},
		{"gap", Config{Delay: time.Second, PerIP: -1, IPDelay: 100 * time.Millisecond}, "192.0.2.1", []int{1, 1, 1}},
		{"both", Config{Delay: 400 * time.Millisecond, PerIP: 2}, "192.0.2.1", []int{1, 1, 0}},
		{"mapped IPv6 is IPv4", Config{Delay: time.Second, PerIP: 3, IPDelay: -1}, "::ffff:192.0.2.1", []int{3, 0, 0}},
		{"loopback", Config{Delay: time.Second, PerIP: 3}, "127.0.0.1", []int{10, 0, 0}},
		{"no delay", Config{PerIP: 3}, "192.0.2.1", []int{10, 0, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := New[int](tt.cfg)
			for i := range 10 {
				name := fmt.Sprint("h", i)
				f.SetAddr(name, netip.MustParseAddr(tt.ip))
				f.Push(name, 1)
			}
			for tenth, want := range tt.want {
				got := 0
				now := at(float64(tenth) / 10)
				for {
					name, _ := f.Next(now)
					if name == "" {
						break
					}
					got++
				}
				if got != want {
					t.Errorf("after %d tenths: %d visits, want %d", tenth, got, want)
				}
			}
		})
	}
}

// TestAddressFreed: the host that waited longest for its address is next when a visit ends.
func TestAddressFreed(t *testing.T) {
	f := New[int](Config{Delay: time.Second, PerIP: 1, IPDelay: -1, Factor: -1})
	for _, name := range []string{"a", "b", "c"} {
		f.SetAddr(name, netip.MustParseAddr("192.0.2.1"))
		f.Push(name, 1, 2)
	}
	var got []string
	for i := range 6 {
		name, due := f.Next(at(float64(i)))
		if name == "" {
			t.Fatalf("nothing at %d, due %v", i, due)
		}
		got = append(got, name)
		if second, _ := f.Next(at(float64(i))); second != "" {
			t.Errorf("%s beside %s", second, name)
		}
		f.Take(name)
		f.Done(at(float64(i)+0.5), name, 0)
	}
	if want := []string{"a", "b", "c", "a", "b", "c"}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

// TestEnter: a request that is in no queue counts for its address, before and after those of hosts,
// whether or not any is known there; what nobody uses any more is forgotten.
func TestEnter(t *testing.T) {
	const one, two = "192.0.2.1", "192.0.2.2"
	ip := netip.MustParseAddr
	for _, tt := range []struct {
		name string
		cfg  Config
		do   func(t *testing.T, f *Frontier[int])
	}{
		{"hosts wait for it", Config{Delay: time.Second, PerIP: -1, IPDelay: 500 * time.Millisecond}, func(t *testing.T, f *Frontier[int]) {
			enter(t, f, 0, one, true, 0)
			f.Leave(ip(one))
			f.SetAddr("a", ip(one)) // met only now
			f.Push("a", 1)
			if name, due := f.Next(at(0.4)); name != "" || !due.Equal(at(0.5)) {
				t.Errorf("host %q 0.4 s later, due %v", name, due)
			}
			if name, _ := f.Next(at(0.5)); name != "a" {
				t.Errorf("host %q half a second later", name)
			}
		}},
		{"it waits for hosts", Config{Delay: time.Second, PerIP: 1, IPDelay: 500 * time.Millisecond}, func(t *testing.T, f *Frontier[int]) {
			f.SetAddr("a", ip(one))
			f.Push("a", 1)
			f.Next(at(0))
			enter(t, f, 0.1, one, false, 0.5)
			enter(t, f, 0.6, one, false, 0.65) // no room
			enter(t, f, 0.1, two, true, 0)
			f.Take("a")
			f.Done(at(0.7), "a", 0)
			enter(t, f, 0.7, "::ffff:"+one, true, 0)
			f.Push("a", 2)
			if name, _ := f.Next(at(9)); name != "" {
				t.Error("a host beside the request that is under way")
			}
			f.Leave(ip("::ffff:" + one))
			if name, _ := f.Next(at(9)); name != "a" {
				t.Errorf("host %q once it is over", name)
			}
		}},
		{"loopback shares nothing", Config{Delay: time.Second, PerIP: 1}, func(t *testing.T, f *Frontier[int]) {
			enter(t, f, 0, "127.0.0.1", true, 0)
			enter(t, f, 0, "127.0.0.1", true, 0)
			f.Leave(ip("127.0.0.1"))
		}},
		{"no delay, no bound", Config{}, func(t *testing.T, f *Frontier[int]) {
			enter(t, f, 0, one, true, 0)
			enter(t, f, 0, one, true, 0)
		}},
		{"many addresses", Config{Delay: 4 * time.Second}, func(t *testing.T, f *Frontier[int]) {
			for i := range 100 {
				a := netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
				if ok, _ := f.Enter(at(float64(i)), a); !ok {
					t.Fatal("an address without requests has no room")
				}
				f.Leave(a)
			}
			if len(f.ips.at) > 2 || len(f.ips.entered) > 2 {
				t.Errorf("%d addresses remembered, %d of requests", len(f.ips.at), len(f.ips.entered))
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.do(t, New[int](tt.cfg)) })
	}
}

func enter(t *testing.T, f *Frontier[int], now float64, ip string, want bool, due float64) {
	t.Helper()
	ok, when := f.Enter(at(now), netip.MustParseAddr(ip))
	if ok != want || !ok && !when.Equal(at(due)) {
		t.Errorf("at %v s: %v, due %v; want %v, %v", now, ok, when, want, at(due))
	}
}

// TestProperties drives a frontier at random against a naive model of what must hold: one visit a
// host, never before its time, never more than the bound to an address nor closer than its gap, one
// visit a group that has a delay and none within that, nothing lost or made up, and Next never
// idles over a host that might be visited.
func TestProperties(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := &model{
			t: t, seed: seed, r: r, hosts: make(map[string]*modelHost), ips: make(map[netip.Addr]*modelIP), groups: make(map[string]*modelGroup),
			cfg: Config{Delay: time.Duration(1+r.IntN(1000)) * time.Millisecond, PerIP: r.IntN(4) - 1, IPDelay: time.Duration(r.IntN(300)-1) * time.Millisecond},
		}
		m.cfg.fill()
		if seed%3 > 0 {
			m.cfg.Group = func(host string) string { return fmt.Sprint(host[1] % 3) }
		}
		if seed%3 == 1 {
			m.cfg.GroupDelay = time.Duration(1+r.IntN(1500)) * time.Millisecond
		}
		m.f = New[int](m.cfg)
		now := epoch
		for range 600 {
			now = now.Add(time.Duration(r.IntN(200)) * time.Millisecond)
			m.step(now)
			if t.Failed() {
				return
			}
		}
	}
}

type modelHost struct {
	items   []int
	due     time.Time
	crawl   time.Duration
	visited bool
	addr    netip.Addr
	using   netip.Addr
}

type modelGroup struct {
	visited bool
	next    time.Time
}

type modelIP struct {
	running int
	next    time.Time
}

type model struct {
	t     *testing.T
	seed  uint64
	r     *rand.Rand
	cfg   Config
	f     *Frontier[int]
	hosts map[string]*modelHost
	ips   map[netip.Addr]*modelIP
	last  int

	groups map[string]*modelGroup
}

// group is what the hosts of a group share; nil where they share nothing.
func (m *model) group(host string) *modelGroup {
	if m.cfg.GroupDelay == 0 {
		return nil
	}
	name := m.cfg.Group(host)
	if m.groups[name] == nil {
		m.groups[name] = &modelGroup{}
	}
	return m.groups[name]
}

func (m *model) host(name string) *modelHost {
	h := m.hosts[name]
	if h == nil {
		h = &modelHost{}
		m.hosts[name] = h
	}
	return h
}

func (m *model) ip(a netip.Addr) *modelIP {
	p := m.ips[a]
	if p == nil {
		p = &modelIP{}
		m.ips[a] = p
	}
	return p
}

func (m *model) step(now time.Time) {
	name := fmt.Sprint("h", m.r.IntN(12))
	h := m.host(name)
	switch m.r.IntN(10) {
	case 0, 1:
		for range 1 + m.r.IntN(3) {
			m.last++
			m.f.Push(name, m.last)
			h.items = append(h.items, m.last)
		}
	case 2:
		if !h.addr.IsValid() {
			h.addr = netip.AddrFrom4([4]byte{192, 0, 2, byte(m.r.IntN(3))})
			m.f.SetAddr(name, h.addr)
		}
	case 3:
		until := now.Add(time.Duration(m.r.IntN(2000)) * time.Millisecond)
		m.f.NotBefore(name, until)
		if until.After(h.due) {
			h.due = until
		}
	case 4:
		h.crawl = time.Duration(m.r.IntN(2000)) * time.Millisecond
		m.f.CrawlDelay(name, h.crawl)
	case 5, 6:
		if h.visited {
			m.end(now, name, h)
		}
	case 7:
		if m.r.IntN(4) > 0 || h.addr.IsValid() || h.visited { // of those it forgets more, or less
			m.next(now)
			break
		}
		rest := m.f.Remove(name)
		if !slices.Equal(rest, h.items) {
			m.t.Errorf("seed %d: %v is left of %s, want %v", m.seed, rest, name, h.items)
		}
		delete(m.hosts, name)
	default:
		m.next(now)
	}
	total := 0
	for _, h := range m.hosts {
		total += len(h.items)
	}
	if m.f.Items() != total {
		m.t.Errorf("seed %d: %d items, want %d", m.seed, m.f.Items(), total)
	}
}

func (m *model) end(now time.Time, name string, h *modelHost) {
	h.visited = false
	if h.using.IsValid() {
		m.ip(h.using).running--
		h.using = netip.Addr{}
	}
	g := m.group(name)
	if g != nil {
		g.visited = false
	}
	if m.r.IntN(4) == 0 {
		m.f.Free(name)
		return
	}
	took := time.Duration(m.r.IntN(1000)) * time.Millisecond
	m.f.Done(now, name, took)
	if g != nil {
		g.next = now.Add(m.cfg.GroupDelay)
	}
	delay := max(m.cfg.Delay, m.cfg.GroupDelay, h.crawl, time.Duration(m.cfg.Factor*float64(took)))
	if now.Add(delay).After(h.due) {
		h.due = now.Add(delay)
	}
}

// may says whether a host may be visited.
func (m *model) may(now time.Time, name string, h *modelHost) bool {
	if g := m.group(name); h.visited || len(h.items) == 0 || h.due.After(now) || g != nil && (g.visited || g.next.After(now)) {
		return false
	}
	if !h.addr.IsValid() {
		return true
	}
	p := m.ip(h.addr)
	return (m.cfg.PerIP < 0 || p.running < m.cfg.PerIP) && !p.next.After(now)
}

func (m *model) next(now time.Time) {
	name, due := m.f.Next(now)
	if name == "" {
		for name, h := range m.hosts {
			if m.may(now, name, h) {
				m.t.Errorf("seed %d: nothing to visit (due in %v), though %s might be", m.seed, due.Sub(now), name)
			}
		}
		return
	}
	h := m.host(name)
	if !m.may(now, name, h) {
		m.t.Errorf("seed %d: %s is visited: %+v, address %+v", m.seed, name, *h, m.ips[h.addr])
		return
	}
	m.visit(now, name, h)
}

// visit notes a visit that was opened.
func (m *model) visit(now time.Time, name string, h *modelHost) {
	h.visited = true
	if g := m.group(name); g != nil {
		g.visited = true
	}
	if h.addr.IsValid() {
		h.using = h.addr
		p := m.ip(h.addr)
		p.running++
		p.next = now.Add(max(m.cfg.IPDelay, 0))
	}
	item, ok := m.f.Take(name)
	if !ok || item != h.items[0] {
		m.t.Errorf("seed %d: took %d of %s, want %d", m.seed, item, name, h.items[0])
		return
	}
	h.items = h.items[1:]
}

// TestValidate names the field.
func TestValidate(t *testing.T) {
	for _, tt := range []struct {
		cfg Config
		ok  bool
	}{
		{Config{}, true},
		{Config{Delay: time.Second, Factor: -1, PerIP: -1, IPDelay: -1}, true},
		{Config{Delay: -1}, false},
		{Config{MaxCrawlDelay: -1}, false},
		{Config{MaxAdaptive: -1}, false},
	} {
		if err := tt.cfg.Validate(); (err == nil) != tt.ok {
			t.Errorf("%+v: %v", tt.cfg, err)
		}
	}
}

func BenchmarkVisit(b *testing.B) {
	f := New[int](Config{Delay: time.Second})
	for i := range 1000 {
		f.Push(fmt.Sprint("host", i), 1)
	}
	now := epoch
	b.ReportAllocs()
	for b.Loop() {
		name, due := f.Next(now)
		for name == "" {
			now = due
			name, due = f.Next(now)
		}
		item, _ := f.Take(name)
		f.Push(name, item)
		f.Done(now, name, 10*time.Millisecond)
	}
}

// TestHungIsSlow: a host of which nothing came is slow until it answers, whatever it is owed.
func TestHungIsSlow(t *testing.T) {
	f := New[int](Config{Delay: time.Second})
	f.Push("a", 1, 2, 3)
	now := at(0)
	for i, step := range []struct {
		hung bool
		want kind
	}{{false, prompt}, {true, slow}, {false, prompt}} {
		if name, _ := f.Next(now); name != "a" {
			t.Fatalf("step %d: %q is visited", i, name)
		}
		f.Take("a")
		if step.hung {
			f.Hung(now, "a", time.Second)
		} else {
			f.Done(now, "a", time.Second)
		}
		if owed := f.Owed(now, "a"); owed != 2*time.Second {
			t.Errorf("step %d: %v owed", i, owed)
		}
		if got := f.hosts["a"].kind(); got != step.want {
			t.Errorf("step %d: of kind %d, want %d", i, got, step.want)
		}
		now = now.Add(2 * time.Second)
	}
}
