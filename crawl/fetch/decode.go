package fetch

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// Bounds against bodies that unpack to very much more than was sent.
const (
	// maxCodings is how many codings of one body are removed. Two are met, by mistake of the
	// server.
	maxCodings = 3
	// maxRatio is how many times larger than what was sent a body may unpack to, once it is over
	// ratioFree. Text packs 3 to 20 times, a page of repeated markup 100 times; gzip can 1,030 and
	// zstd any number of times.
	maxRatio  = 200
	ratioFree = 1 << 20
	// zstdWindow is the largest window that a zstd body may ask for (RFC 9659).
	zstdWindow = 8 << 20
)

// decode reads the body from src, whose length on the wire is length or -1 if unknown, and removes
// its content codings.
func (x *exchange) decode(src io.Reader, length int64, resp *Response) error {
	limit := x.limit()
	codings := contentCodings(resp.Header["Content-Encoding"])
	if len(codings) == 0 {
		if length > limit && !x.req.Cut {
			return fmt.Errorf("body of %d bytes, at most %d: %w", length, limit, ErrTooLarge)
		}
		return x.setBody(resp, src, nil, length)
	}
	resp.ContentEncoding = strings.Join(codings, ", ")
	if wide(codings) {
		return x.decodeWide(src, length, codings, resp)
	}
	return x.unpack(&counter{r: src, limit: limit}, codings, resp)
}

// unpack removes the codings of a body while it comes.
func (x *exchange) unpack(packed *counter, codings []string, resp *Response) error {
	r, release, err := unpack(packed, codings)
	if err != nil {
		return err
	}
	defer release()
	return x.setBody(resp, r, packed, -1)
}

// wide says whether a coding has a window of megabytes, whose size the sender chooses.
func wide(codings []string) bool {
	return slices.Contains(codings, "br") || slices.Contains(codings, "zstd")
}

// wideSlots bounds the decoders of wide codings at work: a window takes up to 16 MiB, however small
// the body. They do not work while a body is still on its way, so that a server which drips holds
// no window.
var wideSlots = make(chan struct{}, 2)

// decodeWide removes the codings of a body when all of it is here.
func (x *exchange) decodeWide(src io.Reader, length int64, codings []string, resp *Response) error {
	limit := x.limit()
	k := x.newSink(nil, length, limit)
	defer k.drop()
	if err := k.fill(src, nil, limit); err != nil {
		return err
	}
	over, err := k.end(limit)
	if err != nil {
		return err
	}
	select {
	case wideSlots <- struct{}{}:
	case <-x.ctx.Done():
		return x.ctx.Err()
	}
	x.unslot = sync.OnceFunc(func() { <-wideSlots })
	defer x.unslot()
	x.base += int64(cap(k.buf))
	packed := &counter{r: k.reader(), limit: limit}
	if over {
		packed.r = io.MultiReader(packed.r, cutOff{limit})
	}
	return x.unpack(packed, codings, resp)
}

// cutOff is the end of a packed body of which only the beginning was taken.
type cutOff struct{ limit int64 }

// Read implements io.Reader.
func (c cutOff) Read([]byte) (int, error) { return 0, tooLargePacked(c.limit) }

func tooLargePacked(limit int64) error {
	return fmt.Errorf("packed body of more than %d bytes: %w", limit, ErrTooLarge)
}

// setBody reads the body from r and stores it. packed counts what it is unpacked from, nil if it is
// not; length is how long it will be, -1 if unknown.
func (x *exchange) setBody(resp *Response, r io.Reader, packed *counter, length int64) error {
	limit := x.limit()
	k := x.newSink(resp.scratch.body, length, limit)
	err := k.fill(r, packed, limit)
	if err == nil && k.size > limit && !x.req.Cut {
		err = fmt.Errorf("body of more than %d bytes: %w", limit, ErrTooLarge)
	}
	if err == nil {
		resp.Truncated, err = k.end(limit)
	}
	resp.scratch.body = k.buf // also when it failed: the buffer has grown
	if err != nil {
		k.drop()
		return err
	}
	if k.file != nil {
		resp.Spilled = k.file
		return nil
	}
	resp.Body = k.buf
	return nil
}

// counter counts and bounds what is read of a packed body.
type counter struct {
	r        io.Reader
	n, limit int64
}

// Read fails once the packed body is over the limit of the unpacked one.
func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	if c.n > c.limit {
		return n, tooLargePacked(c.limit)
	}
	return n, err
}

// contentCodings lists the codings in the order in which they were applied, "identity" and its kin
// left out. If one is not known, or there are too many, it lists none: the body then is taken as it
// comes, which is right for the servers that write "utf-8" there.
func contentCodings(values []string) []string {
	if len(values) == 0 {
		return nil
	}
	var codings []string
	for _, v := range values {
		for c := range strings.SplitSeq(v, ",") {
			switch c = strings.ToLower(strings.Trim(c, " \t")); c {
			case "", "identity", "none":
			case "x-gzip":
				codings = append(codings, "gzip")
			case "gzip", "br", "zstd", "deflate":
				codings = append(codings, c)
			default:
				return nil
			}
			if len(codings) > maxCodings {
				return nil
			}
		}
	}
	return codings
}

// unpack removes the codings, the one applied last first. release gives the decoders back.
func unpack(r io.Reader, codings []string) (_ io.Reader, release func(), err error) {
	var used []func()
	release = func() {
		for _, f := range used {
			f()
		}
	}
	for _, c := range slices.Backward(codings) {
		var done func()
		if r, done, err = decoders[c](r); err != nil {
			release()
			return nil, nil, fmt.Errorf("%s: %w", c, err)
		}
		used = append(used, done)
	}
	return r, release, nil
}

// decoders make a reader for each coding, out of a pool, and say how to give it back. An empty body
// is one of no bytes in any coding.
var decoders = map[string]func(io.Reader) (io.Reader, func(), error){
	"gzip":    gunzip,
	"br":      unbrotli,
	"zstd":    unzstd,
	"deflate": inflate,
}

var gzips = sync.Pool{New: func() any { return &gzipReader{z: new(gzip.Reader)} }}

// gzipReader reads gzip members and passes over what stands behind the last one.
type gzipReader struct {
	z    *gzip.Reader
	some bool
}

// Read ends where something follows that is no member.
func (g *gzipReader) Read(p []byte) (int, error) {
	n, err := g.z.Read(p)
	g.some = g.some || n > 0
	if g.some && errors.Is(err, gzip.ErrHeader) {
		err = io.EOF
	}
	return n, err
}

func gunzip(r io.Reader) (io.Reader, func(), error) {
	g := gzips.Get().(*gzipReader)
	g.some = false
	release := func() { gzips.Put(g) }
	if err := g.z.Reset(r); err != nil {
		release()
		return empty(err)
	}
	return g, release, nil
}

// empty makes an empty body of one that ended before it began.
func empty(err error) (io.Reader, func(), error) {
	if errors.Is(err, io.EOF) {
		return strings.NewReader(""), func() {}, nil
	}
	return nil, nil, err
}

var brotlis = sync.Pool{New: func() any { return brotli.NewReader(nil) }}

func unbrotli(r io.Reader) (io.Reader, func(), error) {
	br := bufio.NewReaderSize(r, 512)
	if _, err := br.Peek(1); err != nil {
		return empty(err)
	}
	b := brotlis.Get().(*brotli.Reader)
	if err := b.Reset(br); err != nil {
		return nil, nil, err
	}
	return b, func() { brotlis.Put(b) }, nil
}

var zstds = sync.Pool{New: func() any {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(zstdWindow))
	if err != nil {
		panic(err) // the options are ours
	}
	return d
}}

func unzstd(r io.Reader) (io.Reader, func(), error) {
	d := zstds.Get().(*zstd.Decoder)
	release := func() {
		_ = d.Reset(nil) // lets go of the source
		zstds.Put(d)
	}
	if err := d.Reset(r); err != nil {
		release()
		return nil, nil, err
	}
	return d, release, nil
}

var flates = sync.Pool{New: func() any { return flate.NewReader(nil) }}

// inflate reads what is called deflate: by the standard the zlib format, by many servers the bare
// stream. A zlib header begins with a byte whose low half is 8, and its two bytes are a multiple
// of 31.
func inflate(r io.Reader) (io.Reader, func(), error) {
	br := bufio.NewReader(r)
	head, err := br.Peek(2)
	if len(head) == 0 {
		return empty(err)
	}
	if len(head) == 2 && head[0]&15 == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		z, err := zlib.NewReader(br)
		return z, func() {}, err
	}
	fr := flates.Get().(io.ReadCloser)
	if err := fr.(flate.Resetter).Reset(br, nil); err != nil {
		return nil, nil, err
	}
	return fr, func() { flates.Put(fr) }, nil
}
