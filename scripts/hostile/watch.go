package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apoidea/apoidea/scripts/harness"
)

// use is what a peer uses at a moment.
type use struct {
	RSS        int64 // bytes
	Peak       int64 // of RSS since the process began
	Threads    int
	Goroutines int
	Files      int   // descriptors
	Disk       int64 // bytes of the data directory, archives aside
	LogLines   int
}

// use reads what the kernel reports of a peer; with ctx, also the goroutines of its metrics.
func (p *peer) use(ctx context.Context) (u use, err error) {
	m, err := harness.MemoryOf(p.Pid())
	if err != nil {
		return u, err
	}
	u.RSS, u.Peak, u.Threads = m.RSS, m.Peak, m.Threads
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.Pid()))
	if err != nil {
		return u, err
	}
	u.Files = len(fds)
	_ = filepath.WalkDir(p.Dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path == filepath.Join(p.Dir, "archive") {
			return filepath.SkipDir
		}
		if err == nil && !d.IsDir() {
			if info, err := d.Info(); err == nil { // files vanish meanwhile
				u.Disk += info.Size()
			}
		}
		return nil
	})
	text, _ := os.ReadFile(p.Log())
	u.LogLines = bytes.Count(text, []byte{'\n'})
	if ctx != nil {
		u.Goroutines, err = p.goroutines(ctx)
	}
	return u, err
}

// raise makes each figure the larger of both.
func (u *use) raise(o *use) {
	u.RSS, u.Peak, u.Threads = max(u.RSS, o.RSS), max(u.Peak, o.Peak), max(u.Threads, o.Threads)
	u.Goroutines, u.Files = max(u.Goroutines, o.Goroutines), max(u.Files, o.Files)
	u.Disk, u.LogLines = max(u.Disk, o.Disk), max(u.LogLines, o.LogLines)
}

// watch observes a peer while it crawls.
type watch struct {
	peer, still *peer
	group       sync.WaitGroup

	mu        sync.Mutex // guards what follows
	most      use
	asked     int
	slowest   time.Duration // status answer, beyond what the machine took
	slowestAt time.Duration
	machine   time.Duration   // what the machine took at most
	lately    []time.Duration // what it took for the last questions, at most lastQuestions
	refused   int             // questions without an answer
	outside   map[string]int  // connections beyond loopback
}

// The pace of observation: a question costs the peer little, a walk over its directory costs this
// program some.
const (
	askEvery  = 200 * time.Millisecond
	lookEvery = 2 * time.Second
)

// watching observes peers until ctx ends.
func watching(ctx context.Context, peers []*peer, still *peer) (list []*watch) {
	begun := time.Now()
	for _, p := range peers {
		w := &watch{peer: p, still: still, outside: make(map[string]int)}
		w.group.Go(func() { every(ctx, askEvery, func() { w.ask(ctx, begun) }) })
		w.group.Go(func() { every(ctx, lookEvery, func() { w.look(ctx) }) })
		list = append(list, w)
	}
	// One reader of connections for all peers, since the kernel walks over all of its sockets.
	list[0].group.Go(func() {
		every(ctx, askEvery, func() {
			beyond := connectionsBeyond()
			for _, w := range list {
				w.connections(beyond)
			}
		})
	})
	return list
}

func every(ctx context.Context, d time.Duration, fn func()) {
	t := time.NewTicker(d)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			fn()
		}
	}
}

// lastQuestions is how many questions in a row the machine's part is taken from, at its largest: on
// a busy machine two peers that are asked at the same moment do not wait equally long.
const lastQuestions = 5

// processors is GOMAXPROCS of the peers.
const processors = 2

// queued is how long the threads of a process were ready and had no processor so far. Of a process
// with GOMAXPROCS threads at work, each waited for its part of that.
func (p *peer) queued() (sum time.Duration) {
	dir := fmt.Sprintf("/proc/%d/task", p.Pid())
	tasks, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	for _, t := range tasks {
		raw, err := os.ReadFile(filepath.Join(dir, t.Name(), "schedstat"))
		if f := strings.Fields(string(raw)); err == nil && len(f) > 1 {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			sum += time.Duration(n)
		}
	}
	return sum
}

// ask sends a request to both peers at the same moment. The still peer's time, or the time that the
// peer waited for a processor, is not the peer's.
func (w *watch) ask(ctx context.Context, begun time.Time) {
	noise := make(chan time.Duration, 1)
	go func() {
		d, _ := w.still.asks(ctx)
		noise <- d
	}()
	at, queued := time.Since(begun), w.peer.queued()
	d, err := w.peer.asks(ctx)
	base := max(<-noise, min(d, (w.peer.queued()-queued)/processors))
	ending := time.Duration(0)
	if err != nil {
		ending = endWithin // a peer that has done its work closes its API before it ends
	}
	select {
	case <-w.peer.Done:
		return
	case <-time.After(ending):
	}
	if ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	w.machine = max(w.machine, base)
	w.lately = append(w.lately[max(0, len(w.lately)-lastQuestions+1):], base)
	if err != nil {
		w.refused++
	}
	if own := d - slices.Max(w.lately); own > w.slowest {
		w.slowest, w.slowestAt = own, at
	}
}

func (w *watch) look(ctx context.Context) {
	u, err := w.peer.use(ctx)
	if err != nil && u.RSS == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.most.raise(&u)
}

// connections records which of the connections are of the process. Those between two looks are
// missed; addresses of loopback have listeners, which miss nothing.
func (w *watch) connections(beyond map[string]string) {
	dir := fmt.Sprintf("/proc/%d/fd", w.peer.Pid())
	fds, err := os.ReadDir(dir)
	if len(beyond) == 0 || err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, fd := range fds {
		to, _ := os.Readlink(filepath.Join(dir, fd.Name()))
		if addr, ok := beyond[to]; ok {
			w.outside[addr]++
		}
	}
}

// connectionsBeyond are the sockets of this machine that are connected beyond loopback, or try to:
// the remote address in hexadecimal, by the name of the socket in /proc/PID/fd.
func connectionsBeyond() map[string]string {
	beyond := make(map[string]string)
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		raw, _ := os.ReadFile(file)
		for line := range strings.Lines(string(raw)) {
			const listening = "0A"
			if f := strings.Fields(line); len(f) >= 10 && f[3] != listening && !loopbackHex(f[2]) {
				beyond["socket:["+f[9]+"]"] = f[2]
			}
		}
	}
	return beyond
}

// loopbackHex reports whether an address of /proc/net/tcp is of loopback, or none.
func loopbackHex(addr string) bool {
	ip, port, _ := strings.Cut(addr, ":")
	switch {
	case port == "0000" || port == "": // no connection, or the line of titles
		return true
	case len(ip) == 8:
		return strings.HasSuffix(ip, "7F")
	default:
		return ip == "00000000000000000000000001000000" || strings.HasPrefix(ip, "0000000000000000FFFF0000") && strings.HasSuffix(ip, "7F")
	}
}
