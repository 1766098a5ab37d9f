package calls

import (
	"runtime"
	"sync"
)

const (
	// maxUnsent is the number of unsent bytes of a stream at which add blocks; one more frame may
	// exceed it.
	maxUnsent            = 256 << 10
	maxUnsentOfStrangers = 64 << 10
	// keepBuffer is the capacity of the largest buffer that is reused.
	keepBuffer = 512 << 10
)

// writeBuffers are shared by all streams, so that an idle stream holds none.
var writeBuffers = sync.Pool{New: func() any { return new([]byte) }}

// frameWriter collects frames of many goroutines and writes them in few system calls: frames added
// during one write go out together in the next.
type frameWriter struct {
	wake chan struct{} // capacity 1: there is something to write
	done <-chan struct{}
	most int // maximum unsent bytes

	mu    sync.Mutex    // guards the fields below; never held during network I/O
	buf   *[]byte       // frames not yet handed to the stream; nil if none
	held  int           // bytes in buf to report as written
	space chan struct{} // not nil while callers wait for space; closed when there is some
}

func newFrameWriter(done <-chan struct{}, most int) *frameWriter {
	return &frameWriter{wake: make(chan struct{}, 1), done: done, most: most}
}

// add calls put with the buffer to append one frame, of which held bytes are reported when written.
// It blocks while too much is unsent, and returns false without calling put if cancel or the end of
// the stream comes first.
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

// run writes until the stream breaks or done is closed; frames added before done are still written
// if possible. It calls written with the held bytes of each write.
func (w *frameWriter) run(s Stream, written func(held int)) error {
	for {
		select {
		case <-w.wake:
			// Yield so that ready goroutines add their frames: a few hundred nanoseconds save a packet, an
			// encryption and two system calls each.
			runtime.Gosched()
			if err := w.flush(s, written); err != nil {
				return err
			}
		case <-w.done:
			return w.flush(s, written)
		}
	}
}

// unwritten returns the bytes still held after run has returned.
func (w *frameWriter) unwritten() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	held := w.held
	w.held = 0
	return held
}

// flush writes the collected frames.
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
