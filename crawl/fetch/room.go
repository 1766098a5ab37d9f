package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// FreeBody is the size up to which a body needs no memory of Request.Room.
const FreeBody = 256 << 10

// Memory provides memory for bodies larger than FreeBody. It outlives the exchange, as the Response
// may: its creator releases what it granted.
type Memory interface {
	// Grow requests size bytes of memory in all for the body, or fewer than before; false if that is
	// not available.
	Grow(size int64) bool
	// Wait is Grow, and waits until memory is available or ctx ends.
	Wait(ctx context.Context, size int64) error
}

// sink receives the bytes of one body.
type sink struct {
	x     *exchange
	buf   []byte
	most  int64 // upper limit of its size
	known bool  // most is the length of the body, which is reserved at once
}

// newSink returns a sink that uses buf. Length is the expected length of the body, -1 if unknown;
// limit is its size limit.
func (x *exchange) newSink(buf []byte, length, limit int64) *sink {
	k := &sink{x: x, buf: buf[:0], most: limit + 1, known: length >= 0}
	if k.known {
		k.most = min(length, limit) + 1 // one more byte detects the end without growing
	}
	k.buf = slices.Grow(k.buf, int(min(max(length, readBuffer), FreeBody, limit)+1))
	return k
}

// size returns the number of bytes so far.
func (k *sink) size() int64 { return int64(len(k.buf)) }

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
		n, err := src.Read(free[:min(int64(len(free)), limit+1-k.size())])
		k.buf = k.buf[:len(k.buf)+n]
		if packed != nil {
			packed.keep = packed.keep && n == 0
			if k.size() > ratioFree && k.size() > maxRatio*packed.n {
				return nil, fmt.Errorf("%d bytes decoded to %d: %w", packed.n, k.size(), ErrTooLarge)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil, nil
		case err != nil:
			return err, nil
		case k.size() > limit:
			return nil, nil
		}
	}
}

// more extends the buffer: to the length of the body if it is known, else by half of its size. So a
// body of known length waits once, before its memory is in use.
func (k *sink) more() error {
	want := int64(cap(k.buf)) * 3 / 2
	switch {
	case cap(k.buf) <= FreeBody:
		want = min(want, FreeBody+1) // one more byte detects the end of FreeBody
	case k.known:
		want = k.most
	}
	want = max(min(want, k.most), k.size()+1)
	if all := k.x.base + want; all > FreeBody+1 && k.x.req.Room != nil {
		if err := k.x.reserve(all); err != nil {
			return err
		}
	}
	buf := make([]byte, len(k.buf), want)
	copy(buf, k.buf)
	k.buf = buf
	return nil
}

// end ends the body at limit, and reports whether it was longer.
func (k *sink) end(limit int64) (over bool) {
	if over = k.size() > limit; over {
		k.buf = k.buf[:limit]
	}
	return over
}

// reserve waits until a body may have size bytes of memory. The timeouts are extended, since the
// site does not cause the wait.
func (x *exchange) reserve(size int64) error {
	if x.req.Room.Grow(size) {
		return nil
	}
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
