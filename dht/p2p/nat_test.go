package p2p

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/workers"
)

// The addresses in the test's own namespaces are public ones, since no other is asked for by
// AutoNAT; no packet leaves them.
const (
	wanNet     = "5.0.0."
	routersAt  = 50 // the first router's, the others follow
	routerAddr = wanNet + "50"
	peerPort   = "4001"
)

// natEnv makes the test binary one peer in a namespace; see TestNATPeer.
const natEnv = "APOIDEA_NAT_PEER"

// natOrder is what such a peer is to be.
type natOrder struct {
	Listen    string
	Reach     Reachability
	Bootstrap []string
	Dial      string // try this TCP address and tell, nothing else
	Traversal bool
	// Call is a multiaddr of a peer to be called again and again, known by it alone.
	Call string
}

// natWord is what it says, a line each time.
type natWord struct {
	Addrs       []string
	Self        string
	State       string
	Size        int
	Attached    []string
	Attachments []string
	Called      []string // attached workers that answered a call over their own connection
	Tried       bool
	Dialled     bool
	Reached     Reached
	Answered    bool // by the peer to be called
	Direct      bool // without a relay
}

// TestNATPeer is no test: TestBehindNAT runs it in namespaces.
func TestNATPeer(t *testing.T) {
	var order natOrder
	text := os.Getenv(natEnv)
	if text == "" {
		t.Skip("a part of TestBehindNAT")
	}
	if err := json.Unmarshal([]byte(text), &order); err != nil {
		t.Fatal(err)
	}
	say := json.NewEncoder(os.Stdout)
	if order.Dial != "" {
		conn, err := net.DialTimeout("tcp", order.Dial, 2*time.Second)
		if err == nil {
			_ = conn.Close()
		}
		_ = say.Encode(natWord{Tried: true, Dialled: err == nil})
		return
	}
	key, err := member.GenerateIdentity(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := startPeer(t, Config{
		Network: "test", Identity: key, Profile: Public, Reachability: order.Reach, Traversal: order.Traversal,
		Listen: []string{"/ip4/" + order.Listen + "/tcp/" + peerPort, "/ip4/" + order.Listen + "/udp/" + peerPort + "/quic-v1"},
	}, dht.Config{Promote: 2 * time.Second, Demote: time.Second}, Sources{Bootstrap: order.Bootstrap})
	gone := make(chan struct{})
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1)) // until the test closes it
		close(gone)
	}()
	for {
		w := wordOf(p)
		if order.Call != "" {
			w.Answered, w.Direct = callBehind(t, p, order.Call)
		}
		if err := say.Encode(w); err != nil {
			return
		}
		select {
		case <-gone:
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// callBehind calls a peer by an address of it; direct says that the hole was punched.
func callBehind(t *testing.T, p *ringPeer, addr string) (answered, direct bool) {
	info, err := peer.AddrInfoFromString(addr)
	if err != nil {
		t.Error(err)
		return false, false
	}
	p.Met(info.ID, [][]byte{info.Addrs[0].Bytes()})
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	_, err = p.Call(ctx, info.ID, ringService, nil)
	return err == nil, p.Connected(info.ID)
}

func wordOf(p *ringPeer) natWord {
	w := natWord{Addrs: p.Addrs(), Self: p.Self().String(), State: p.dht.State().String(), Size: p.dht.Size(), Reached: p.Reached()}
	for _, q := range p.dht.Attachments() {
		w.Attachments = append(w.Attachments, q.String())
	}
	for _, q := range p.dht.Attached() {
		w.Attached = append(w.Attached, q.String())
		ctx, cancel := context.WithTimeout(calls.WithoutDial(context.Background()), time.Second)
		if _, err := p.Call(ctx, q.ID, ringService, nil); err == nil {
			w.Called = append(w.Called, q.String())
		}
		cancel()
	}
	return w
}

// natPeer is a peer in a namespace, seen from outside.
type natPeer struct {
	mu     sync.Mutex // guards what follows
	last   natWord
	states map[string]bool
}

func (p *natPeer) word() natWord {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// was says whether the peer ever said that it was in a state.
func (p *natPeer) was(state string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.states[state]
}

// run starts the test binary in a namespace; it ends with the test.
func (l *natLab) run(t *testing.T, namespace string, order natOrder) *natPeer {
	t.Helper()
	text, err := json.Marshal(order)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("ip", "netns", "exec", l.name(namespace), self, "-test.run=^TestNATPeer$")
	cmd.Env = append(os.Environ(), natEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	stop, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &natPeer{states: map[string]bool{}}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var w natWord
			if json.Unmarshal(lines.Bytes(), &w) == nil {
				p.mu.Lock()
				p.last, p.states[w.State] = w, true
				p.mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() {
		_ = stop.Close()
		<-read
		_ = cmd.Wait()
	})
	return p
}

// natLab is a few namespaces: peers on one network, and some at home, each behind a router of its
// own that masquerades.
type natLab struct{ prefix string }

func (l *natLab) name(namespace string) string { return l.prefix + namespace }

// newNATLab builds them, or skips the test where that is not possible.
func newNATLab(t *testing.T, homes, peers []string) *natLab {
	t.Helper()
	for _, tool := range []string{"ip", "nft"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no network namespaces with masquerading here: %s is not installed", tool)
		}
	}
	l := &natLab{prefix: fmt.Sprintf("apo%d-", os.Getpid())}
	do := func(command string) error {
		words := strings.Fields(strings.ReplaceAll(command, "@", l.prefix))
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", command, err, strings.TrimSpace(string(out)))
		}
		return nil
	}
	must := func(commands ...string) {
		for _, c := range commands {
			if err := do(c); err != nil {
				t.Fatal(err)
			}
		}
	}
	var routers []string
	for _, home := range homes {
		routers = append(routers, "router-"+home)
	}
	for _, ns := range slices.Concat([]string{"wan"}, routers, homes, peers) {
		if err := do("ip netns add @" + ns); err != nil {
			t.Skipf("no network namespaces with masquerading here: %v", err)
		}
		t.Cleanup(func() { _ = do("ip netns del @" + ns) })
		must("ip -n @" + ns + " link set lo up")
	}
	must("ip -n @wan link add bridge type bridge", "ip -n @wan link set bridge up")
	for i, ns := range slices.Concat(routers, peers) {
		addr := fmt.Sprintf("%s%d", wanNet, routersAt+i)
		if i >= len(routers) {
			addr = fmt.Sprintf("%s%d", wanNet, 11+i-len(routers))
		}
		must(fmt.Sprintf("ip -n @%s link add eth0 type veth peer name port%d netns @wan", ns, i),
			fmt.Sprintf("ip -n @wan link set port%d master bridge up", i),
			fmt.Sprintf("ip -n @%s addr add %s/24 dev eth0", ns, addr), fmt.Sprintf("ip -n @%s link set eth0 up", ns))
	}
	for i, home := range homes {
		router := routers[i]
		must("ip -n @"+router+" link add eth1 type veth peer name eth0 netns @"+home,
			"ip -n @"+router+" addr add 192.168.7.1/24 dev eth1", "ip -n @"+router+" link set eth1 up",
			"ip -n @"+home+" addr add 192.168.7.2/24 dev eth0", "ip -n @"+home+" link set eth0 up", "ip -n @"+home+" route add default via 192.168.7.1",
			"ip netns exec @"+router+" sysctl -q -w net.ipv4.ip_forward=1")
		nft := exec.Command("ip", "netns", "exec", l.name(router), "nft", "-f", "-")
		nft.Stdin = strings.NewReader(`
			table ip home {
				chain out { type nat hook postrouting priority srcnat; oifname "eth0" masquerade; }
				chain in { type filter hook forward priority filter; iifname "eth0" ct state new drop; }
				chain own { type filter hook input priority filter; iifname "eth0" ct state new drop; }
			}`)
		if out, err := nft.CombinedOutput(); err != nil {
			t.Skipf("no network namespaces with masquerading here: nft: %v: %s", err, strings.TrimSpace(string(out)))
		}
	}
	return l
}

// TestBehindNAT: four peers on one network, one behind a router that masquerades, and one that
// finds out that it can be dialled. The one behind is a worker and stays one, the ring reaches it
// over its own connections; the last becomes a ring peer.
func TestBehindNAT(t *testing.T) {
	if testing.Short() || os.Getenv("APOIDEA_FULL") == "" {
		t.Skip("slow: runs with scripts/check.sh --full")
	}
	lab := newNATLab(t, []string{"home"}, []string{"a", "b", "c", "d", "late"})
	ring := []*natPeer{lab.run(t, "a", natOrder{Listen: wanNet + "11", Reach: ReachPublic})}
	waitFor(t, "the founder", func() bool { return ring[0].word().State == "serving" })
	bootstrap := ring[0].word().Addrs
	for i, ns := range []string{"b", "c", "d"} {
		ring = append(ring, lab.run(t, ns, natOrder{Listen: fmt.Sprintf("%s%d", wanNet, 12+i), Reach: ReachPublic, Bootstrap: bootstrap}))
	}
	for _, p := range ring {
		waitFor(t, "a ring of four", func() bool { return p.word().State == "serving" && p.word().Size == 4 })
	}

	home := lab.run(t, "home", natOrder{Listen: "0.0.0.0", Reach: ReachAuto, Bootstrap: bootstrap})
	waitFor(t, "three attachments", func() bool { return len(home.word().Attachments) == workers.AttachTo })
	reached := func() (n int) {
		for _, p := range ring {
			n += len(p.word().Called)
		}
		return n
	}
	waitFor(t, "calls over the worker's connections", func() bool { return reached() == workers.AttachTo })
	for _, row := range []struct {
		name, addr string
		dialled    bool
	}{{"the founder", wanNet + "11", true}, {"the peer behind NAT", routerAddr, false}} {
		w := lab.run(t, "b", natOrder{Dial: net.JoinHostPort(row.addr, peerPort)})
		waitFor(t, "a dial", func() bool { return w.word().Tried })
		if got := w.word().Dialled; got != row.dialled {
			t.Errorf("dialled %s = %v", row.name, got)
		}
	}

	late := lab.run(t, "late", natOrder{Listen: wanNet + "15", Reach: ReachAuto, Bootstrap: bootstrap})
	waitForAWhile(t, "it to be dialled, and a ring of five", func() bool { return late.word().State == "serving" && ring[0].word().Size == 5 })
	if !late.was("worker") {
		t.Error("joined before it was dialled")
	}
	if w := home.word(); w.State != "worker" || len(w.Addrs) != 0 {
		t.Errorf("behind NAT: %s at %v", w.State, w.Addrs)
	}
}

// TestThroughRelays: two peers, each at home behind a router of its own that lets nobody in.
// Members of the ring relay for them, so that one calls the other by an address at a relay; with
// luck the two punch a hole and need it no more.
func TestThroughRelays(t *testing.T) {
	if testing.Short() || os.Getenv("APOIDEA_FULL") == "" {
		t.Skip("slow: runs with scripts/check.sh --full")
	}
	lab := newNATLab(t, []string{"home", "villa"}, []string{"a", "b", "c", "d"})
	ring := []*natPeer{lab.run(t, "a", natOrder{Listen: wanNet + "11", Reach: ReachPublic, Traversal: true})}
	waitFor(t, "the founder", func() bool { return ring[0].word().State == "serving" })
	bootstrap := ring[0].word().Addrs
	for i, ns := range []string{"b", "c", "d"} {
		ring = append(ring, lab.run(t, ns, natOrder{Listen: fmt.Sprintf("%s%d", wanNet, 12+i), Reach: ReachPublic, Traversal: true, Bootstrap: bootstrap}))
	}
	for _, p := range ring {
		waitFor(t, "a ring of four", func() bool { return p.word().State == "serving" && p.word().Size == 4 })
	}
	home := lab.run(t, "home", natOrder{Listen: "0.0.0.0", Reach: ReachAuto, Traversal: true, Bootstrap: bootstrap})
	waitForAWhile(t, "an address at a relay", func() bool { return home.word().Reached == ReachedRelayed })
	addrs := home.word().Addrs
	relayed := slices.IndexFunc(addrs, func(a string) bool { return strings.Contains(a, "/p2p-circuit/") })
	if relayed < 0 {
		t.Fatalf("relayed, and at %v", addrs)
	}
	villa := lab.run(t, "villa", natOrder{Listen: "0.0.0.0", Reach: ReachAuto, Traversal: true, Bootstrap: bootstrap, Call: addrs[relayed]})
	waitForAWhile(t, "an answer from one home to the other", func() bool { return villa.word().Answered })
	t.Logf("the hole was punched: %v", villa.word().Direct)
	if w := villa.word(); w.State != "worker" {
		t.Errorf("behind NAT: %s", w.State)
	}
}

// waitForAWhile waits longer than waitFor: AutoNAT takes its time.
func waitForAWhile(t *testing.T, what string, done func() bool) {
	t.Helper()
	for range 900 {
		if done() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("waited in vain for %s", what)
}
