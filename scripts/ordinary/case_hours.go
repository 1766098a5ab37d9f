package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/crawl/webgen/webtruth"
	"github.com/apoidea/apoidea/scripts/harness"
)

// hourCases are about peers and rings in their first hour.
var hourCases = []scenario{
	{name: "dead-bootstrap", words: "--bootstrap of a dead peer, with data that ran alone once", run: deadBootstrap},
	{name: "copied-identity", words: "a data directory in a ring is copied and started", run: copiedIdentity},
	{name: "new-addresses", words: "all addresses of two peers are replaced at once", slow: true, run: newAddresses},
	{name: "first-ctrl-c", words: "the README's first command, in small: Ctrl-C, again, finished", run: func(t *trial) { firstCommand(t, syscall.SIGINT, 3, 6, 40) }},
	{name: "first-kill-9", words: "the same with kill -9 of all processes", run: func(t *trial) { firstCommand(t, syscall.SIGKILL, 3, 6, 40) }},
	{name: "first-ctrl-c-whole", words: "the README's first command, Ctrl-C", slow: true, run: func(t *trial) { firstCommand(t, syscall.SIGINT, 8, 24, 100) }},
	{name: "first-kill-9-whole", words: "the same with kill -9 of all processes", slow: true, run: func(t *trial) { firstCommand(t, syscall.SIGKILL, 8, 24, 100) }},
	{name: "volunteer", words: "status and export of a peer that only crawls for others", run: volunteer},
	{name: "counters", words: "counters against the server's log, also after kill -9", run: counters},
	{name: "small-start", words: "start of a small crawl of 40 hosts by five peers", run: smallStart},
	{name: "status-line", words: "lines of an idle peer in 65 s", slow: true, run: statusLine},
}

// members returns how many members a peer knows, and 0 if it does not answer.
func (t *trial) members(p *harness.Peer) int {
	s, err := p.Client.Status(t, true)
	if err != nil {
		return 0
	}
	return s.Ring.Members
}

// address returns an address at which a peer listens.
func (t *trial) address(p *harness.Peer) string {
	s := harness.Must(p.Ready(t, true))
	for _, a := range s.Addrs {
		if strings.Contains(a, "/tcp/") {
			return a
		}
	}
	harness.Check(fmt.Errorf("no address over TCP in %v", s.Addrs))
	return ""
}

// stop ends a peer and keeps its records.
func stop(p *harness.Peer) {
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.Done:
	case <-time.After(15 * time.Second):
	}
	p.Kill()
}

func deadBootstrap(t *trial) {
	entry := t.up("entry")
	addr := t.address(entry)
	stop(entry)
	alone := t.up("p")
	stop(alone)
	for _, source := range [][]string{{"--bootstrap", addr}, {"--dns-seed", "no-such-seed.localhost"}} {
		p := t.start("p", source...)
		var log string
		told := t.within(20*time.Second, func() bool {
			log = said(p)
			return strings.Contains(log, source[0]) && (strings.Contains(log, "WARN") || strings.Contains(log, "apoidea:"))
		})
		t.holds(told, "dead "+source[0], tail(strings.TrimSpace(log)), "a warning or an error")
		if source[0] == "--bootstrap" {
			port := strings.Split(addr, "/")[4]
			again := t.up("entry", "--listen", "/ip4/127.0.0.1/tcp/"+port)
			t.want("members when the entry peer is back", map[bool]int{true: 2}[t.within(40*time.Second, func() bool { return t.members(p) == 2 })], 2)
			stop(again)
		}
		stop(p)
	}
}

func copiedIdentity(t *trial) {
	a := t.up("a")
	defer a.Kill()
	addr := t.address(a)
	b := t.up("b", "--bootstrap", addr)
	defer b.Kill()
	t.within(20*time.Second, func() bool { return t.members(a) == 2 && t.members(b) == 2 })
	t.want("members", t.members(a), 2)
	harness.Check(exec.CommandContext(t, "cp", "-a", t.at("b"), t.at("copy")).Run())
	for _, args := range [][]string{{"--bootstrap", addr}, {}} {
		c := t.start("copy", args...)
		begin := time.Now()
		select {
		case <-c.Done:
			t.Say("the copy ended after %.1f s", time.Since(begin).Seconds())
			t.holds(c.Err != nil, "its exit status", c.Err, "not 0")
		case <-time.After(time.Minute):
			t.Blame("the copy runs after a minute, expected its end")
		}
		c.Kill()
		t.has("its error", said(c), "another process runs with the identity", "--data-dir")
	}
	select {
	case <-b.Done:
		t.Blame("the older one has ended, expected it to run")
	default:
		t.Say("the older one runs")
	}
}

func newAddresses(t *trial) {
	s := t.up("s")
	addr := t.address(s)
	names := []string{"a", "b"}
	peers := []*harness.Peer{s}
	for _, n := range names {
		p := t.up(n, "--bootstrap", addr)
		peers = append(peers, p)
	}
	t.within(20*time.Second, func() bool { return t.members(s) == 3 })
	t.want("members", t.members(s), 3)
	for _, p := range peers {
		stop(p)
	}
	peers = peers[:0]
	for _, n := range names { // at an address that the others do not know
		p := t.start(n, "--listen", "/ip4/127.0.0.9/tcp/0")
		defer p.Kill()
		peers = append(peers, p)
	}
	for i, p := range peers {
		t.holds(t.within(30*time.Second, func() bool { return strings.Contains(said(p), "WARN") }), names[i]+" alone", tail(strings.TrimSpace(said(p))), "a warning")
	}
	port := strings.Split(addr, "/")[4]
	s = t.start("s", "--listen", "/ip4/127.0.0.1/tcp/"+port)
	defer s.Kill()
	t.within(100*time.Second, func() bool { return t.members(s) == 3 })
	t.want("members when the entry peer is back", t.members(s), 3)
}

// firstCommand runs cluster up with a web, interrupts it once pages have come, and repeats it
// twice.
func firstCommand(t *trial, sig syscall.Signal, peers, hosts, pages int) {
	args := []string{"cluster", "up", "-n", strconv.Itoa(peers), "--web", "--until-idle", "--dir", t.at("cluster")}
	if hosts != 24 {
		args = append(args, "--web-hosts", strconv.Itoa(hosts), "--web-pages", strconv.Itoa(pages))
	}
	var out bytes.Buffer
	cmd := t.command(t, args...)
	log := harness.Must(os.Create(t.at("first.log")))
	defer log.Close()
	cmd.Stdout, cmd.Stderr = &out, log
	harness.Check(cmd.Start())
	harness.NotePID(t.dir, "first", cmd.Process.Pid)
	defer t.killPeers()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // it is interrupted
	}()
	over := func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	}
	fetching := t.within(time.Minute, func() bool {
		text, _ := os.ReadFile(t.at("first.log"))
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		return number(lines[len(lines)-1], "pages") > 0 || over()
	})
	t.want("pages come before the interruption", fetching && !over(), true)
	_ = cmd.Process.Signal(sig)
	if sig == syscall.SIGKILL {
		t.killPeers()
	}
	select {
	case <-ended:
	case <-time.After(45 * time.Second):
		harness.Check(fmt.Errorf("the first command has not ended 45 s after %v", sig))
	}
	_ = os.Remove(t.at("first.pid"))
	begin := time.Now()
	second := t.apoidea(args...)
	t.want("repeated: exit status", second.code, 0)
	t.has("repeated", second.text(), "continued")
	most := 60 * time.Second
	t.holds(time.Since(begin) < most, "time", time.Since(begin).Round(time.Second), "under "+most.String())
	errs := number(second.out, "errors")
	t.holds(errs >= 0 && errs <= hosts*pages/10, "errors", errs, fmt.Sprintf("at most %d", hosts*pages/10))
	third := t.apoidea(args...)
	t.want("finished: exit status", third.code, 0)
	t.has("finished", third.text(), "finished on")
	kept := t.webRecords()
	missing := 0
	truth := t.webTruth(hosts, pages)
	for _, u := range truth {
		if !kept[u] {
			missing++
		}
	}
	t.want(fmt.Sprintf("pages without a record, of %d", len(truth)), missing, 0)
	t.want("pages of the finished crawl", number(third.text(), "pages?")+number(third.text(), "duplicates?")+max(number(third.text(), "not archived"), 0), len(kept))
	asked := max(number(third.out, "requests?"), 0) // without a crawl the web's line is not printed
	t.want("requests to the web", asked, 0)
}

// webRecords are the URLs of pages that the peers of the trial's cluster have on record.
func (t *trial) webRecords() map[string]bool {
	kept := make(map[string]bool)
	for _, dir := range harness.Must(filepath.Glob(filepath.Join(t.at("cluster"), "peer*"))) {
		for u, line := range t.urls(filepath.Join("cluster", filepath.Base(dir))) {
			if line.Outcome == "ok" || line.Outcome == "duplicate" || line.Outcome == "noindex" {
				kept[u] = true
			}
		}
	}
	return kept
}

// webTruth are the pages of the web that cluster up serves.
func (t *trial) webTruth(hosts, pages int) []string {
	var cluster struct {
		Port int `json:"web_port"`
	}
	harness.Check(json.Unmarshal(harness.Must(os.ReadFile(filepath.Join(t.at("cluster"), "cluster.json"))), &cluster))
	cfg := webgen.DefaultConfig()
	cfg.Hosts, cfg.PagesPerHost = hosts, pages
	return webtruth.Of(webgen.New(cfg), webtruth.Walk{Port: cluster.Port, MaxDepth: -1}).URLs
}

// killPeers kills the processes of the trial's cluster.
func (t *trial) killPeers() {
	files, _ := filepath.Glob(filepath.Join(t.at("cluster"), "peer*", "peer.pid"))
	for _, f := range files {
		text, _ := os.ReadFile(f)
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if err == nil && strings.HasPrefix(exe, t.work) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func volunteer(t *trial) {
	s := t.serve(func(r *http.Request, host string) string {
		var i int
		if n, _ := fmt.Sscanf(r.RequestURI, "/p/%d", &i); n != 1 || i > 10 {
			return ""
		}
		return page(fmt.Sprint(host, i), fmt.Sprintf("/p/%d", i+1))
	})
	a := t.up("a", "--placement", "random")
	defer a.Kill()
	addr := t.address(a)
	w := t.up("w", "--placement", "random", "--reachability", "private", "--bootstrap", addr)
	defer w.Kill()
	t.within(20*time.Second, func() bool {
		r, err := a.Client.Ring(t)
		return err == nil && len(r.Members) > 0 && len(r.Members[0].Attached) == 1
	})
	var seeds []string
	for i := range 24 {
		seeds = append(seeds, s.url(fmt.Sprintf("h%d.web", i), "/p/0"))
	}
	r := t.apoidea(append([]string{"crawl", "--wait", "--data-dir", t.at("a")}, seeds...)...)
	t.want("crawl: exit status", r.code, 0)
	st := harness.Must(w.Client.Status(t, false))
	t.want("role", st.Role, "worker")
	t.holds(st.OwnPages > 0, "pages that it fetched", st.OwnPages, "some of 264")
	r = t.apoidea("status", "--data-dir", t.at("w"))
	t.want("status: pages of its own", number(r.out, `pages?, .* since start`), st.OwnPages)
	t.lacks("status", r.out, "whole ring")
	r = t.apoidea("export", "urls", "--data-dir", t.at("w"))
	t.has("export urls", r.log, "--ring")
	r = t.apoidea("export", "urls", "--ring", "--data-dir", t.at("w"))
	t.want("export urls --ring: lines", strings.Count(r.out, "\n"), 264+24)
}

func counters(t *trial) {
	const pages = 60
	s := t.serve(func(r *http.Request, host string) string {
		var i int
		if n, _ := fmt.Sscanf(r.RequestURI, "/p/%d", &i); n != 1 || i >= pages {
			return ""
		}
		time.Sleep(5 * time.Millisecond)
		return page(fmt.Sprint(host, i), fmt.Sprintf("/p/%d", (i+1)%pages), fmt.Sprintf("/p/%d", (i*7)%pages))
	})
	hosts := []string{"h1.web", "h2.web", "h3.web"}
	var seeds []string
	for _, h := range hosts {
		seeds = append(seeds, s.url(h, "/p/0"))
	}
	p := t.start("p", append([]string{"--until-idle"}, seeds...)...)
	t.within(20*time.Second, func() bool { return s.total() > 40 })
	p.Kill()
	r := t.crawl("p", seeds...)
	distinct := 0
	for _, h := range hosts {
		for i := range pages {
			distinct += min(s.count(h, fmt.Sprintf("/p/%d", i)), 1)
		}
	}
	t.want("pages asked", distinct, len(hosts)*pages)
	t.want("exit status", r.code, 0)
	got := t.urls("p")
	t.want("records", len(got), distinct)
	t.has("end line", r.out, "all runs")
	t.want("fetched again, at most as the server saw", max(number(r.out, "fetched again"), 0) <= s.total()-distinct, true)
	whole := t.crawl("q", seeds...)
	t.want("a run without a break: pages in the last line", number(whole.out, "pages"), distinct)
	t.want("fetched again", max(number(whole.out, "fetched again"), 0), 0)
	lines := strings.Split(strings.TrimSpace(whole.log), "\n")
	t.want("pages in the last line of progress", number(lines[len(lines)-1], "pages"), distinct)
}

func smallStart(t *trial) {
	s := t.serve(func(r *http.Request, host string) string {
		if r.RequestURI == "/robots.txt" {
			return ""
		}
		return page(host)
	})
	args := []string{"cluster", "up", "-n", "5", "--until-idle", "--dir", t.at("cluster"), "--allow-private", "--delay", "0"}
	defer t.killPeers()
	for i := range 40 {
		args = append(args, s.url(fmt.Sprintf("h%d.web", i), "/"))
	}
	r := t.apoidea(args...)
	t.want("exit status", r.code, 0)
	t.want("pages in the last line", number(r.out, "pages"), 40)
	t.lacks("output", r.text(), "WARN")
	logs, _ := filepath.Glob(filepath.Join(t.at("cluster"), "peer*", "*.log"))
	t.want("logs", len(logs), 5)
	for _, f := range logs {
		if text, _ := os.ReadFile(f); strings.Contains(string(text), "WARN") {
			t.lacks(filepath.Base(filepath.Dir(f)), string(text), "WARN")
		}
	}
}

func statusLine(t *trial) {
	p := t.up("p")
	defer p.Kill()
	harness.Check(harness.Sleep(t, 65*time.Second))
	n := strings.Count(said(p), "\n")
	t.holds(n >= 2 && n <= 6, "lines", n, "2 to 6")
}
