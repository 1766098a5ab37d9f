package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
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
	files, err := harness.Files(p.Pid())
	if err != nil {
		return u, err
	}
	u.Files = len(files)
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
		ctx, cancel := context.WithTimeout(ctx, askFor)
		defer cancel()
		n, err := p.Metric(ctx, "go_goroutines")
		u.Goroutines = int(n)
		return u, err
	}
	return u, nil
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
			abroad := harness.ConnectionsAbroad()
			for _, w := range list {
				w.connections(abroad)
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
	base := max(<-noise, min(d, w.peer.queued()-queued))
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
func (w *watch) connections(abroad map[string]string) {
	if len(abroad) == 0 {
		return
	}
	files, _ := harness.Files(w.peer.Pid())
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range files {
		if addr, ok := abroad[f]; ok {
			w.outside[addr]++
		}
	}
}

// peer is a running process of the product.
type peer struct{ *harness.Peer }

// caFile is the name of the file with the certificate that peers trust.
const caFile = "ca.pem"

// start runs `apoidea run` with the arguments, and returns as soon as it answers.
func start(ctx context.Context, o *options, name string, args ...string) (*peer, error) {
	h, err := harness.Start(ctx, o.work, name, []string{"SSL_CERT_FILE=" + filepath.Join(o.work, caFile), "SSL_CERT_DIR=/nonexistent", fmt.Sprintf("GOMAXPROCS=%d", processors)},
		append([]string{"--dashboard", "off", "--log-level", o.logLevel, "--quiet", "--listen", "/ip4/127.0.0.1/tcp/0"}, args...)...)
	if err != nil {
		return nil, err
	}
	if _, err := h.Ready(ctx, false); err != nil {
		h.Kill()
		return nil, err
	}
	return &peer{h}, nil
}

// secondAfter is when the second Ctrl-C follows: a peer ignores one that comes sooner.
const secondAfter = 400 * time.Millisecond

// interrupt is Ctrl-C; it returns how long the peer took to end, without the time it waited for a
// processor that others had. With twice set a second one follows, from which on time counts: after
// the first the peer hands its records over.
func (p *peer) interrupt(within time.Duration, twice bool) (time.Duration, error) {
	p.Signal(syscall.SIGINT)
	if twice {
		time.Sleep(secondAfter)
		p.Signal(syscall.SIGINT)
	}
	begun, queued := time.Now(), p.queued()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	waited := time.Duration(0)
	for {
		select {
		case <-p.Done:
			took := time.Since(begun)
			return took - min(took, waited), nil
		case <-tick.C:
			waited = max(waited, p.queued()-queued)
		}
		if time.Since(begun) > within {
			return within, fmt.Errorf("the peer has not ended %v after Ctrl-C", within)
		}
	}
}

// queued is how long a thread of the process waited so far for a processor that others had, if
// all of GOMAXPROCS are at work.
func (p *peer) queued() time.Duration { return harness.Queued(p.Pid()) / processors }

// processors is GOMAXPROCS of the peers.
const processors = 2

// askFor bounds the wait for one answer of a peer.
const askFor = 30 * time.Second

// asks returns how long the peer takes to answer a status request.
func (p *peer) asks(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	begun := time.Now()
	_, err := p.Client.Status(ctx, false)
	return time.Since(begun), err
}
