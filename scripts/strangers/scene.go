package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/node/control"
)

// The web: as many hosts, each asked once a delay, so that the crawl outlasts the attacks.
const (
	webHosts = 12
	webDelay = 200 * time.Millisecond
	peers    = 3
	// turn is what there is between two attacks: a peer leaves.
	turn = 1500 * time.Millisecond
	// endWithin is how much longer than the attacks the crawl may take.
	endWithin = 2 * time.Minute
)

// scene is the web, and the ring that crawls it.
type scene struct {
	*options
	ctx     context.Context // of all processes
	end     context.CancelFunc
	group   sync.WaitGroup // of what runs until end
	truth   webgen.Truth
	webAt   string
	peers   []*peer // the first is attacked
	fresh   int     // peers that joined meanwhile
	honest  *honest
	planned time.Duration
}

// open starts web and ring, and has the ring crawl for about so long.
func open(ctx context.Context, o *options, planned time.Duration) (*scene, error) {
	s := &scene{options: o, planned: planned}
	s.ctx, s.end = context.WithCancel(context.WithoutCancel(ctx))
	err := s.start(ctx)
	if err != nil {
		s.close()
	}
	return s, err
}

func (s *scene) start(ctx context.Context) error {
	seeds, err := s.serveWeb()
	if err != nil {
		return err
	}
	for i := range peers {
		args := []string{"--pprof", s.pprof()}
		if i > 0 {
			args = []string{"--bootstrap", s.peers[0].addr}
		}
		p, err := s.startPeer(ctx, fmt.Sprintf("p%d", i+1), args...)
		if p != nil {
			s.peers = append(s.peers, p)
		}
		if err != nil {
			return err
		}
	}
	if s.honest, err = newHonest(s.peers[0].addr); err != nil {
		return err
	}
	if _, err := s.peers[1].client.Post(ctx, control.JobSpec{URLs: seeds}); err != nil {
		return err
	}
	for { // until the crawl is under way
		if a, err := s.audit(ctx); err == nil && a.Totals.Requests > 2*webHosts {
			return nil
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

func (s *scene) close() {
	if s.honest != nil {
		s.honest.close()
	}
	s.end()
	s.group.Wait()
	for _, p := range s.peers {
		p.client.Close()
	}
}

// serveWeb starts `apoidea web serve`, and returns its seeds. Pages have no faults, so that each is
// to be had at once.
func (s *scene) serveWeb() ([]string, error) {
	cfg := webgen.DefaultConfig()
	// Hosts rest for some seconds whenever a peer joins or leaves: a crawl takes twice what the
	// delay alone would have it take.
	cfg.Hosts, cfg.PagesPerHost, cfg.PageBytes, cfg.Links, cfg.ErrorShare, cfg.Domain = webHosts, int(s.planned/webDelay/2), 2000, 20, 0, "web.localhost"
	cmd := exec.CommandContext(s.ctx, "apoidea", "web", "serve", "--json", "--listen", fmt.Sprintf("127.0.0.1:%d", s.port), "--seed", strconv.FormatUint(cfg.Seed, 10),
		"--hosts", strconv.Itoa(cfg.Hosts), "--pages", strconv.Itoa(cfg.PagesPerHost), "--page-bytes", strconv.Itoa(cfg.PageBytes),
		"--links", strconv.Itoa(cfg.Links), "--error-share", "0", "--domain", cfg.Domain)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	note(s.work, "web", cmd)
	line, err := bufio.NewReader(out).ReadBytes('\n')
	s.group.Go(func() { _ = cmd.Wait() }) // killed with the context
	if err != nil {
		return nil, fmt.Errorf("web server: %w: %s", err, bytes.TrimSpace(said.Bytes()))
	}
	var web struct {
		Listen string   `json:"listen"`
		Seeds  []string `json:"seeds"`
	}
	if err := json.Unmarshal(line, &web); err != nil {
		return nil, fmt.Errorf("web server: %w", err)
	}
	s.webAt = web.Listen
	s.truth = webgen.New(cfg).Truth(webgen.Walk{Port: s.port, MaxDepth: -1})
	return web.Seeds, nil
}

// note tells the script of a process, should this program be killed.
func note(work, name string, cmd *exec.Cmd) {
	_ = os.WriteFile(filepath.Join(work, name+".pid"), fmt.Appendln(nil, cmd.Process.Pid), 0o600)
}

// get reads what an HTTP server of ours answers.
func get(ctx context.Context, client *http.Client, url string, read func(io.Reader) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, res.Status)
	}
	return read(res.Body)
}

// pprof is where the profiler of the peer that is attacked answers.
func (s *scene) pprof() string { return fmt.Sprintf("127.0.0.1:%d", s.port+1) }

// heap is what the peer that is attacked has in use: once it has collected what is garbage, which
// would count as its heap for long after an attack. Rss is what the kernel says.
func (s *scene) heap(ctx context.Context) (heap, rss int64, err error) {
	err = get(ctx, http.DefaultClient, "http://"+s.pprof()+"/debug/pprof/heap?gc=1&debug=1", func(r io.Reader) error {
		raw, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		_, after, _ := strings.Cut(string(raw), "# HeapAlloc = ")
		line, _, _ := strings.Cut(after, "\n")
		heap, err = strconv.ParseInt(line, 10, 64)
		return err
	})
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.peers[0].cmd.Process.Pid))
	if fields := strings.Fields(string(raw)); len(fields) > 1 {
		pages, _ := strconv.ParseInt(fields[1], 10, 64)
		rss = pages * int64(os.Getpagesize())
	}
	return heap, rss, err
}

// audit is what the web has seen.
func (s *scene) audit(ctx context.Context) (a webgen.Audit, err error) {
	return a, get(ctx, http.DefaultClient, "http://"+s.webAt+webgen.AuditPath, func(r io.Reader) error { return json.NewDecoder(r).Decode(&a) })
}

// finish waits for the end of the crawl and counts what is missing.
func (s *scene) finish(ctx context.Context) *report {
	r := &report{Name: "crawl", Does: "what the ring crawled meanwhile"}
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, s.planned+endWithin)
	defer cancel()
	if err := s.peers[1].client.Wait(ctx, "", -1, func(control.Progress) error { return nil }); err != nil {
		r.blame("the crawl did not end: %v", err)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	a, err := s.audit(last)
	if err != nil {
		r.blame("audit: %v", err)
	}
	asked := make(map[string]bool)
	err = get(last, http.DefaultClient, "http://"+s.webAt+webgen.AuditURLsPath, func(body io.Reader) error {
		for lines := json.NewDecoder(body); lines.More(); {
			var u webgen.AuditURL
			if err := lines.Decode(&u); err != nil {
				return err
			}
			asked[fmt.Sprintf("http://%s:%d%s", u.Host, s.port, u.Path)] = true
		}
		return nil
	})
	if err != nil {
		r.blame("audit: %v", err)
	}
	lost := 0
	for _, u := range s.truth.URLs {
		if !asked[u] {
			lost++
		}
	}
	if lost > 0 {
		r.blame("%d of %d pages are lost", lost, len(s.truth.URLs))
	}
	if a.Totals.Overlaps > 0 {
		r.blame("two workers at once asked a host %d times", a.Totals.Overlaps)
	}
	r.say("%d pages, %d lost; fetched again %d, two at once %d; ended %.0f s after the attacks",
		len(s.truth.URLs), lost, a.Totals.RepeatedRequests, a.Totals.Overlaps, time.Since(begin).Seconds())
	return r
}

// peer is a running process of the product.
type peer struct {
	cmd    *exec.Cmd
	dir    string
	addr   string // multiaddr by which others join
	quic   string // its socket over QUIC
	client *control.Client
	done   chan struct{}
}

// startPeer runs `apoidea run` and returns when the peer is in the ring. The process ends with the
// scene; if the peer is not nil it has begun.
func (s *scene) startPeer(ctx context.Context, name string, args ...string) (*peer, error) {
	p := &peer{dir: filepath.Join(s.work, name), done: make(chan struct{})}
	log, err := os.Create(p.dir + ".log")
	if err != nil {
		return nil, err
	}
	defer log.Close() // the process has its own
	p.cmd = exec.CommandContext(s.ctx, "apoidea", append([]string{
		"run", "--data-dir", p.dir, "--dashboard", "off", "--log-level", s.logLevel, "--quiet",
		"--allow-private", "--delay", webDelay.String(), "--optout-proof", "yes",
	}, args...)...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	note(s.work, name, p.cmd)
	s.group.Go(func() {
		defer close(p.done)
		_ = p.cmd.Wait()
	})
	p.client = control.NewClient(filepath.Join(p.dir, "apoidea.sock"))
	for {
		st, err := p.client.Status(ctx, false)
		if err == nil && st.State != "joining" && len(st.Addrs) > 0 {
			return p, p.foundAt(st.Addrs)
		}
		select {
		case <-p.done:
			raw, _ := os.ReadFile(log.Name())
			return p, fmt.Errorf("peer %s ended: %s", name, bytes.TrimSpace(raw))
		default:
		}
		if sleep(ctx, 50*time.Millisecond) != nil {
			return p, fmt.Errorf("peer %s has not joined: %w", name, errors.Join(ctx.Err(), err))
		}
	}
}

// foundAt notes where the peer listens.
func (p *peer) foundAt(addrs []string) error {
	for _, a := range addrs {
		parts := strings.Split(a, "/") // /ip4/127.0.0.1/tcp/4001/p2p/ID
		if parts[3] == "tcp" {
			p.addr = a
		} else {
			p.quic = net.JoinHostPort(parts[2], parts[4])
		}
	}
	if p.addr == "" || p.quic == "" {
		return fmt.Errorf("listens at %v", addrs)
	}
	return nil
}

// leave has a peer hand over what it keeps, and waits for its end.
func (p *peer) leave() {
	_ = p.cmd.Process.Signal(syscall.SIGINT)
	select {
	case <-p.done:
	case <-time.After(20 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	p.client.Close()
}

// cpu is the processor time that the peer has used.
func (p *peer) cpu() time.Duration {
	const tick = 10 * time.Millisecond // USER_HZ is 100 wherever Go runs Linux
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:])) // the first is the state, field 3
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * tick
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
