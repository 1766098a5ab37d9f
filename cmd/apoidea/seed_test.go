//go:build unix

package main

import (
	"encoding/json"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// process is a command that goes on running.
type process struct {
	*exec.Cmd
	said  *spoken
	ended chan struct{}
}

// start starts a command, which the end of the test kills, and waits for a word of it.
func start(t *testing.T, word string, args ...string) *process {
	t.Helper()
	p := &process{Cmd: command(t, args...), said: new(spoken), ended: make(chan struct{})}
	p.Stdout, p.Stderr = p.said, p.said
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = p.Wait(); close(p.ended) }()
	t.Cleanup(p.kill)
	await(t, p.said, func() bool {
		select {
		case <-p.ended:
			t.Fatalf("it ended: %s", p.said)
		default:
		}
		return strings.Contains(p.said.String(), word)
	})
	return p
}

// kill is SIGKILL.
func (p *process) kill() {
	_ = p.Process.Kill()
	<-p.ended
}

// interrupt is Ctrl-C; the process has to end well.
func (p *process) interrupt(t *testing.T) {
	t.Helper()
	_ = p.Process.Signal(syscall.SIGINT)
	select {
	case <-p.ended:
	case <-time.After(20 * time.Second):
		t.Fatalf("it does not end: %s", p.said)
	}
	if code := p.ProcessState.ExitCode(); code != 0 {
		t.Errorf("it ended with %d: %s", code, p.said)
	}
}

// TestSeed: a ring of three is found by name alone; who is killed is told no more; a restarted seed
// tells the same as before.
//
// Slow: four processes form a ring, and a death has to be detected by the ring and by the seed.
func TestSeed(t *testing.T) {
	t.Parallel()
	const zone = "seeds.test"
	top := t.TempDir()
	dir := func(name string) string { return filepath.Join(top, name) }
	run := func(name string, args ...string) *process {
		return start(t, ", ring of ", append([]string{"run", "--data-dir", dir(name), "--log-level", "info", "--network", "seeded", "--dashboard", "off"}, args...)...)
	}
	id := func(name string) string {
		var s struct{ Peer string }
		out, _ := say(t, "status", "--json", "--data-dir", dir(name))
		if json.Unmarshal([]byte(out), &s) != nil || s.Peer == "" {
			t.Fatalf("status: %s", out)
		}
		return s.Peer
	}
	first := run("first")
	out, _ := say(t, "peers", "--addrs", "--data-dir", dir("first"), "--quiet")
	bootstrap := strings.TrimSpace(out)
	run("second", "--bootstrap", bootstrap)
	third := run("third", "--bootstrap", bootstrap)
	names := []string{id("first"), id("second"), id("third")}

	serve := func(listen string, args ...string) (*process, string) {
		s := start(t, ", UDP and TCP", append([]string{"seed", "serve", "--zone", zone, "--profile", "lab", "--network", "seeded", "--every", "1s", "--listen", listen, "--data-dir", dir("seed")}, args...)...)
		return s, regexp.MustCompile(` at (\S+), UDP`).FindStringSubmatch(s.said.String())[1]
	}
	seed, addr := serve("127.0.0.1:0", "--bootstrap", bootstrap)
	told := func() (ids []string) {
		m, _, err := new(dns.Client).Exchange(new(dns.Msg).SetQuestion("_dnsaddr."+zone+".", dns.TypeTXT), addr)
		if err != nil {
			return nil
		}
		for _, rr := range m.Answer {
			_, id, _ := strings.Cut(strings.Join(rr.(*dns.TXT).Txt, ""), "/p2p/")
			ids = append(ids, id)
		}
		return slices.Sorted(slices.Values(ids))
	}
	tells := func(ids ...string) {
		t.Helper()
		ids = slices.Sorted(slices.Values(ids))
		var got []string
		for end := time.Now().Add(time.Minute); !slices.Equal(got, ids); time.Sleep(100 * time.Millisecond) {
			if time.Now().After(end) {
				shown, _ := say(t, "seed", "show", "--data-dir", dir("seed"))
				t.Fatalf("it tells %v, not %v: %s\n%s", got, ids, seed.said, shown)
			}
			got = told()
		}
	}
	tells(names...)

	fourth := run("fourth", "--dns-seed", zone, "--dns-server", addr)
	if size, _ := say(t, "ring", "--json", "--data-dir", dir("fourth")); strings.Count(size, `"successor":`) != 4 {
		t.Errorf("the fourth peer is not in the ring: %s", size)
	}
	names = append(names, id("fourth"))
	tells(names...)

	third.kill()
	alive := []string{names[0], names[1], names[3]}
	tells(alive...)

	seed.interrupt(t)
	seed, addr = serve(addr) // knows its peers by itself
	if got := told(); !slices.Equal(got, slices.Sorted(slices.Values(alive))) {
		t.Errorf("after a restart: %v", got)
	}
	var document struct {
		Peers []struct{ Peer, Given, Why string }
	}
	shown, _ := say(t, "seed", "show", "--json", "--data-dir", dir("seed"))
	if err := json.Unmarshal([]byte(shown), &document); err != nil {
		t.Fatalf("%v: %s", err, shown)
	}
	for _, p := range document.Peers {
		if gone := p.Peer == names[2]; gone != (p.Given == "out") || gone && !strings.Contains(p.Why, "unreachable") || !gone && !slices.Contains(names, p.Peer) {
			t.Errorf("%+v", p)
		}
	}
	if len(document.Peers) != 4 {
		t.Errorf("%d peers are shown: %s", len(document.Peers), shown)
	}
	inWords, _ := say(t, "seed", "show", "--data-dir", dir("seed"))
	t.Logf("%s", inWords)
	byState, code := say(t, "seed", "zone", "--data-dir", dir("seed"))
	if code != 0 || strings.Count(byState, "\tIN\tTXT\t\"dnsaddr=/ip4/127.0.0.1/") != 3 {
		t.Errorf("zone: %d, %s", code, byState)
	}
	for line := range strings.Lines(byState) {
		if rr, err := dns.NewRR(line); err != nil || rr == nil && !strings.HasPrefix(line, ";") {
			t.Errorf("no line of a zone file: %q, %v", line, err)
		}
	}
	bySurvey, code := say(t, "seed", "zone", "--zone", "other.test", "--profile", "lab", "--network", "seeded", "--bootstrap", bootstrap, "--data-dir", dir("none"))
	if code != 0 || strings.Count(bySurvey, "_dnsaddr.other.test.\t300\tIN\tTXT\t") != 3 {
		t.Errorf("zone: %d, %s", code, bySurvey)
	}
	for _, p := range []*process{seed, fourth, first} {
		p.interrupt(t)
	}
}

// TestSeedSaysWhatIsWrong: each error names the flag, what was given, and what to do.
func TestSeedSaysWhatIsWrong(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for want, args := range map[string][]string{
		`zone "": must be a domain name`:     {"seed", "serve"},
		`zone "a b": must be`:                {"seed", "serve", "--zone", "a b"},
		`listen "53": must be HOST:PORT`:     {"seed", "serve", "--zone", "a.test", "--listen", "53"},
		"set --address":                      {"seed", "serve", "--zone", "a.test"},
		`address "x": must be an IP address`: {"seed", "serve", "--zone", "a.test", "--address", "x"},
		`every "1ms": must be 5s to 1h0m0s`:  {"seed", "serve", "--zone", "a.test", "--every", "1ms"},
		`metrics "0.0.0.0:1": must be`:       {"seed", "serve", "--zone", "a.test", "--address", "192.0.2.7", "--metrics", "0.0.0.0:1"},
		"set --bootstrap":                    {"seed", "serve", "--zone", "a.test", "--address", "192.0.2.7", "--listen", "127.0.0.1:0"},
		"another name server":                {"seed", "serve", "--zone", "a.test", "--profile", "lab", "--dns-seed", "b.test", "--listen", taken.Addr().String()},
		"apoidea seed serve":                 {"seed", "show"},
		`profile "x": must be public or lab`: {"seed", "zone", "--zone", "a.test", "--bootstrap", "x", "--profile", "x"},
	} {
		if out, err := apoidea(t, append(args, "--data-dir", filepath.Join(t.TempDir(), "seed"))...); err == nil || !strings.Contains(err.Error(), want) || exitCode(err) == exitDone {
			t.Errorf("%v: %s %v; want %q", args, out, err, want)
		}
	}
}
