package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// FreeBody is the size up to which a body needs no memory of Request.Room.
const FreeBody = 256 << 10

// Room provides memory or disk for bodies larger than FreeBody. It outlives the exchange, as the
// Response may: its creator releases what it granted.
type Room interface {
	// Grow requests size bytes of memory in all for the body, or fewer than before; false if that is
	// not available.
	Grow(size int64) bool
	// Spill creates a file for a body without memory.
	Spill() (Spilled, error)
	// Wait is Grow for a body that has no disk either: it waits until memory is available, or ctx
	// ends.
	Wait(ctx context.Context, size int64) error
}

// Spilled is a body on disk. It is written first, then read.
type Spilled interface {
	// Write writes all of p, or nothing.
	io.Writer
	// Reader reads the body from its beginning, and fails at its end if it differs from what was
	// written.
	Reader() io.Reader
	Size() int64  // bytes written so far
	Close() error // removes the body from disk
}

// Size returns the length of the body, in memory or on disk.
func (r *Response) Size() int64 {
	if r.Spilled != nil {
		return r.Spilled.Size()
	}
	return int64(len(r.Body))
}

// Load moves a body from disk into memory. The file is removed, also after an error.
func (r *Response) Load() error {
	if r.Spilled == nil {
		return nil
	}
	file := r.Spilled
	r.Spilled = nil
	body := make([]byte, file.Size())
	err := readBack(body, file)
	if err == nil {
		r.Body = body
	}
	return errors.Join(err, file.Close())
}

// readBack reads all of a spilled body into p, which has its length.
func readBack(p []byte, file Spilled) error {
	src := file.Reader()
	for n := 0; ; {
		m, err := src.Read(p[n:])
		switch n += m; {
		case errors.Is(err, io.EOF) && n == len(p):
			return nil
		case err != nil:
			return fmt.Errorf("read body from disk: %w", err)
		case m == 0 && n == len(p):
			return fmt.Errorf("read body from disk: %w", io.ErrShortBuffer)
		}
	}
}

// spillBuffer is the size of the buffer for writing to disk.
const spillBuffer = 64 << 10

// sink receives the bytes of one body: in memory while that is available, beyond that on disk, and
// if that fails in memory after waiting.
type sink struct {
	x    *exchange
	buf  []byte
	file Spilled
	size int64 // of all bytes so far
	most int64 // upper limit of size
}

// newSink returns a sink that uses buf. Length is the expected length of the body, -1 if unknown;
// limit is its size limit.
func (x *exchange) newSink(buf []byte, length, limit int64) *sink {
	k := &sink{x: x, buf: buf[:0], most: limit + 1}
	if length >= 0 {
		k.most = min(length, limit) + 1 // one more byte detects the end without growing
	}
	k.buf = slices.Grow(k.buf, int(min(max(length, readBuffer), FreeBody, limit)+1))
	return k
}

// fill reads src until its end or one byte over limit. Packed counts the bytes before decoding, nil
// if they are not encoded. Cause is the error of src, if it failed; err is a local one, or a size
// limit.
func (k *sink) fill(src io.Reader, packed *source, limit int64) (cause, err error) {
	for {
		if len(k.buf) == cap(k.buf) {
			if err := k.more(); err != nil {
				return nil, err
			}
		}
		free := k.buf[len(k.buf):cap(k.buf)]
		n, err := src.Read(free[:min(int64(len(free)), limit+1-k.size)])
		k.buf = k.buf[:len(k.buf)+n]
		k.size += int64(n)
		if packed != nil {
			packed.keep = packed.keep && n == 0
			if k.size > ratioFree && k.size > maxRatio*packed.n {
				return nil, fmt.Errorf("%d bytes decoded to %d: %w", packed.n, k.size, ErrTooLarge)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil, nil
		case err != nil:
			return err, nil
		case k.size > limit:
			return nil, nil
		}
	}
}

// more extends the buffer.
func (k *sink) more() error {
	if k.file != nil {
		return k.flush()
	}
	want := 2 * int64(cap(k.buf))
	if cap(k.buf) <= FreeBody {
		want = min(want, FreeBody+1) // one more byte detects the end of FreeBody
	}
	want = max(min(want, k.most), k.size+1)
	room := k.x.req.Room
	if k.x.base+want <= FreeBody+1 || room == nil || room.Grow(k.x.base+want) {
		k.resize(want)
		return nil
	}
	if k.spill() == nil {
		return nil
	}
	if err := k.x.waitForRoom(k.x.base + want); err != nil {
		return err
	}
	k.resize(want)
	return nil
}

// resize moves the body to a buffer of want bytes.
func (k *sink) resize(want int64) {
	buf := make([]byte, len(k.buf), want)
	copy(buf, k.buf)
	k.buf = buf
}

// spill moves the body to disk.
func (k *sink) spill() error {
	file, err := k.x.req.Room.Spill()
	if err != nil {
		return err
	}
	if _, err := file.Write(k.buf); err != nil {
		return errors.Join(err, file.Close())
	}
	k.file, k.buf = file, k.buf[:0]
	if cap(k.buf) > FreeBody+1 {
		k.buf = make([]byte, 0, spillBuffer)
	}
	k.x.req.Room.Grow(k.x.base)
	return nil
}

// flush writes the buffer to disk. If the disk accepts no more, the body is moved to memory.
func (k *sink) flush() error {
	if len(k.buf) == 0 {
		return nil
	}
	if _, err := k.file.Write(k.buf); err == nil {
		k.buf = k.buf[:0]
		return nil
	}
	before := k.file.Size()
	want := max(min(k.size+k.size/2, k.most), k.size+1)
	if err := k.x.waitForRoom(k.x.base + want); err != nil {
		return err
	}
	body := make([]byte, k.size, want)
	if err := readBack(body[:before], k.file); err != nil {
		return err
	}
	copy(body[before:], k.buf)
	err := k.file.Close()
	k.file, k.buf = nil, body
	return err
}

// end ends the body at limit, and reports whether it was longer.
func (k *sink) end(limit int64) (over bool, err error) {
	if over = k.size > limit; over {
		k.buf = k.buf[:len(k.buf)-int(k.size-limit)] // the bytes over it are the last ones read
		k.size = limit
	}
	if k.file != nil {
		err = k.flush()
	}
	return over, err
}

// drop removes the file.
func (k *sink) drop() {
	if k.file != nil {
		_ = k.file.Close() // errors do not matter
		k.file = nil
	}
}

// reader returns a reader of the body.
func (k *sink) reader() io.Reader {
	if k.file != nil {
		return k.file.Reader()
	}
	return bytes.NewReader(k.buf)
}

// waitForRoom waits until a body may have size bytes of memory. The timeouts are extended, since
// the site does not cause the wait.
func (x *exchange) waitForRoom(size int64) error {
	if x.unslot != nil { // do not block exchanges whose end frees memory
		x.unslot()
	}
	begin := time.Now()
	err := x.req.Room.Wait(x.ctx, size)
	x.waited.Add(int64(time.Since(begin)))
	if err != nil {
		return fmt.Errorf("wait for memory: %w", err)
	}
	return nil
}
