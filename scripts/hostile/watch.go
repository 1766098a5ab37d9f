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

// Use is what a peer uses at a moment.
type Use struct {
	RSS        int64 `json:"rss"`  // bytes
	Peak       int64 `json:"peak"` // of RSS since the process began
	Threads    int   `json:"threads"`
	Goroutines int   `json:"goroutines"`
	Files      int   `json:"files"` // descriptors
	Disk       int64 `json:"disk"`  // bytes of the data directory, archives aside
	Archive    int64 `json:"archive"`
	LogLines   int   `json:"log_lines"`
	LogBytes   int64 `json:"log_bytes"`
}

// use looks at a peer from outside; only goroutines are its own word.
func (p *peer) use(ctx context.Context) (u Use, err error) {
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
	u.sizes(p.Dir)
	u.LogLines, u.LogBytes = lines(p.Log())
	if ctx != nil {
		u.Goroutines, err = p.goroutines(ctx)
	}
	return u, err
}

// raise makes each figure the larger of both.
func (u *Use) raise(o *Use) {
	u.RSS, u.Peak, u.Threads, u.Goroutines = max(u.RSS, o.RSS), max(u.Peak, o.Peak), max(u.Threads, o.Threads), max(u.Goroutines, o.Goroutines)
	u.Files, u.Disk = max(u.Files, o.Files), max(u.Disk, o.Disk)
	u.Archive, u.LogLines, u.LogBytes = max(u.Archive, o.Archive), max(u.LogLines, o.LogLines), max(u.LogBytes, o.LogBytes)
}

// sizes adds up a data directory. What goes away meanwhile is not counted.
func (u *Use) sizes(dir string) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // it is gone
		}
		info, err := d.Info()
		if err != nil {
			return nil //nolint:nilerr // it is gone
		}
		rel, _ := filepath.Rel(dir, path)
		switch {
		case strings.HasPrefix(rel, "archive/"):
			u.Archive += info.Size()
		default:
			u.Disk += info.Size()
		}
		return nil
	})
}

// maxLogRead bounds how much of a log is counted by lines; beyond it the bytes tell enough.
const maxLogRead = 16 << 20

func lines(file string) (n int, size int64) {
	f, err := os.Open(file)
	if err != nil {
		return 0, 0
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil {
		size = info.Size()
	}
	buf := make([]byte, 64<<10)
	for read := 0; read < maxLogRead; {
		k, err := f.Read(buf)
		n += bytes.Count(buf[:k], []byte{'\n'})
		read += k
		if err != nil {
			break
		}
	}
	return n, size
}

// watch looks at a peer while it crawls.
type watch struct {
	peer, still *peer
	done        chan struct{}

	mu        sync.Mutex // guards what follows
	most      Use
	asked     int
	slowest   time.Duration // of the answers of status, beyond what the machine took
	slowestAt time.Duration
	machine   time.Duration   // what it took at most
	lately    []time.Duration // what it took for the last questions, at most lastQuestions
	refused   int             // questions that brought no answer
	outside   map[string]int
}

// The pace of looking: each question costs the peer little, a walk over its directory costs this
// program some.
const (
	askEvery  = 200 * time.Millisecond
	lookEvery = 2 * time.Second
)

// watching begins to look, until ctx ends.
func watching(ctx context.Context, p, still *peer) *watch {
	w := &watch{peer: p, still: still, done: make(chan struct{}), outside: make(map[string]int)}
	var group sync.WaitGroup
	begun := time.Now()
	group.Go(func() { every(ctx, askEvery, func() { w.ask(ctx, begun) }) })
	group.Go(func() { every(ctx, lookEvery, func() { w.look(ctx) }) })
	group.Go(func() { every(ctx, askEvery, w.connections) })
	go func() {
		defer close(w.done)
		group.Wait()
	}()
	return w
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

// queued is how long the threads of a process were ready and had no processor so far: others had
// it. Of a process with GOMAXPROCS threads at work, each waited for its part of that.
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

// ask asks both peers at the same moment. What the still peer took, or the machine kept the peer
// waiting for a processor, is not the peer's.
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

// connections notes connections of the process to addresses beyond loopback, made or tried. What
// comes and goes between two looks is missed; for addresses of loopback there are listeners, which
// miss nothing.
func (w *watch) connections() {
	beyond := abroad.now()
	if len(beyond) == 0 {
		return
	}
	own := w.peer.sockets()
	for inode, to := range beyond {
		if own[inode] {
			w.mu.Lock()
			w.outside[to]++
			w.mu.Unlock()
		}
	}
}

// abroad is read once for all peers, as they share the network: the kernel walks over all of its
// sockets for that.
var abroad connectionTable

// connectionTable is which sockets of this machine go beyond loopback.
type connectionTable struct {
	mu     sync.Mutex
	at     time.Time
	beyond map[string]string // remote address by inode
}

// now is what there is now, or was a little while ago.
func (t *connectionTable) now() map[string]string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.at) < askEvery*3/4 {
		return t.beyond
	}
	t.at, t.beyond = time.Now(), make(map[string]string)
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		raw, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for line := range bytes.Lines(raw) {
			f := bytes.Fields(line)
			if len(f) < 10 || string(f[3]) == "0A" || loopbackHex(string(f[2])) {
				continue
			}
			t.beyond[string(f[9])] = string(f[2])
		}
	}
	return t.beyond
}

// sockets are the inodes of the process's sockets.
func (p *peer) sockets() map[string]bool {
	dir := fmt.Sprintf("/proc/%d/fd", p.Pid())
	fds, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	own := make(map[string]bool)
	for _, fd := range fds {
		to, err := os.Readlink(filepath.Join(dir, fd.Name()))
		if inode, ok := strings.CutPrefix(to, "socket:["); err == nil && ok {
			own[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return own
}

// loopbackHex says whether an address of /proc/net/tcp is of loopback, or none.
func loopbackHex(addr string) bool {
	ip, port, _ := strings.Cut(addr, ":")
	switch {
	case port == "0000":
		return true
	case len(ip) == 8:
		return strings.HasSuffix(ip, "7F")
	default:
		return ip == "00000000000000000000000001000000" || strings.HasPrefix(ip, "0000000000000000FFFF0000") && strings.HasSuffix(ip, "7F")
	}
}
