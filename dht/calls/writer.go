package calls

import (
	"runtime"
	"sync"
)

const (
	// maxUnsent is how many bytes of frames may wait for one stream before
	// those who append must wait; one more frame may then lie on top.
	maxUnsent            = 256 << 10
	maxUnsentOfStrangers = 64 << 10
	// keepBuffer is the largest buffer that is used again; a rare larger one is
	// left to the garbage collector.
	keepBuffer = 512 << 10
)

// writeBuffers are shared by all streams, so that a quiet one holds none.
var writeBuffers = sync.Pool{New: func() any { return new([]byte) }}

// frameWriter gathers frames of many goroutines and writes them with as few
// system calls as it can: what comes while one write is under way goes out
// together with the next.
type frameWriter struct {
	wake chan struct{} // one slot: there is something to write
	done <-chan struct{}
	most int // bytes that may be unsent

	mu    sync.Mutex    // guards what follows; never held over the network
	buf   *[]byte       // frames not yet handed to the stream; nil if none
	held  int           // bytes in buf of which the owner is told when they are written
	space chan struct{} // not nil while somebody waits for room; closed when there is
}

func newFrameWriter(done <-chan struct{}, most int) *frameWriter {
	return &frameWriter{wake: make(chan struct{}, 1), done: done, most: most}
}

// add calls put with the buffer to append one frame to, of which held bytes are to be told of. It
// waits while too much is unsent and reports false, without having called put, when cancel or the
// stream's end came first.
func (w *frameWriter) add(cancel <-chan struct{}, held int, put func([]byte) []byte) bool {
	w.mu.Lock()
	for w.buf != nil && len(*w.buf) > w.most {
		if w.space == nil {
			w.space = make(chan struct{})
		}
		space := w.space
		w.mu.Unlock()
		select {
		case <-space:
		case <-cancel:
			return false
		case <-w.done:
			return false
		}
		w.mu.Lock()
	}
	first := w.buf == nil
	if first {
		w.buf = writeBuffers.Get().(*[]byte)
	}
	*w.buf = put(*w.buf)
	w.held += held
	w.mu.Unlock()
	if first {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
	return true
}

// run writes until the stream breaks or done is closed; what was added before
// done is still written if the stream takes it. Written is told of what was held for it.
func (w *frameWriter) run(s Stream, written func(held int)) error {
	for {
		select {
		case <-w.wake:
			// Let those who are ready add their frames too: a few hundred
			// nanoseconds that save a packet, a seal and two system calls each.
			runtime.Gosched()
			if err := w.flush(s, written); err != nil {
				return err
			}
		case <-w.done:
			return w.flush(s, written)
		}
	}
}

// unwritten returns what is still held after run has returned.
func (w *frameWriter) unwritten() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	held := w.held
	w.held = 0
	return held
}

// flush writes what was gathered.
func (w *frameWriter) flush(s Stream, written func(held int)) error {
	w.mu.Lock()
	out, held := w.buf, w.held
	w.buf, w.held = nil, 0
	if w.space != nil {
		close(w.space)
		w.space = nil
	}
	w.mu.Unlock()
	if out == nil {
		return nil
	}
	err := writeTimed(s, *out)
	if held > 0 {
		written(held)
	}
	if cap(*out) <= keepBuffer {
		*out = (*out)[:0]
		writeBuffers.Put(out)
	}
	return err
}
