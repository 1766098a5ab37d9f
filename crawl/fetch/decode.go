package fetch

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"
)

// Limits against decompression bombs.
const (
	// maxCodings bounds the codings of one body. Misconfigured servers apply two.
	maxCodings = 3
	// maxRatio bounds the ratio of decoded to encoded bytes of a body, once it is over ratioFree. Text
	// has ratios of 3 to 20, a page of repeated markup 100; gzip can reach 1,030 and zstd has no
	// maximum.
	maxRatio  = 200
	ratioFree = 1 << 20
	// zstdWindow is the largest permitted window of a zstd body (RFC 9659).
	zstdWindow = 8 << 20
)

// maxReplay bounds the first bytes of an encoded body that are kept until some were decoded, so
// that a body in another coding can be stored as sent.
const maxReplay = 64 << 10

// decode reads the body from src, whose length on the wire is length or -1 if unknown, and removes
// its codings: first the transfer codings, then the content codings.
func (x *exchange) decode(src io.Reader, length int64, transfer []string, resp *Response) error {
	s := &source{r: src, length: length, limit: math.MaxInt64}
	codings := append(contentCodings(resp.Header["Content-Encoding"]), transfer...)
	err := x.remove(s, codings, resp)
	if err == nil {
		err = x.judge(s, resp)
	}
	return err
}

// remove reads the body from s and removes its codings. A body that cannot be decoded is stored as
// sent.
func (x *exchange) remove(s *source, codings []string, resp *Response) error {
	limit := x.limit()
	if len(codings) == 0 {
		if s.length > limit && !x.req.Cut {
			return fmt.Errorf("body of %d bytes, at most %d: %w", s.length, limit, ErrTooLarge)
		}
		_, err := x.setBody(resp, s, nil, s.length)
		return err
	}
	// Other codings have a window of megabytes, whose size the sender chooses, or cannot be
	// distinguished from plain text by their first bytes.
	if slices.ContainsFunc(codings, func(c string) bool { return c != "gzip" }) {
		return x.decodeWide(s, codings, resp)
	}
	s.first, s.keep = resp.scratch.packed[:0], true
	r := resp.scratch.coded
	r.Reset(s)
	defer r.Reset(nil)
	if !hasGzipMagic(r) {
		_, err := x.setBody(resp, r, nil, s.length)
		return err
	}
	s.limit = limit
	ok, err := x.unpack(r, s, codings, resp)
	resp.scratch.packed = s.first
	if ok || err != nil {
		return err
	}
	if s.limit = math.MaxInt64; s.n > maxReplay {
		return fmt.Errorf("%w: %d bytes in %s without data", errMalformed, s.n, strings.Join(codings, ", "))
	}
	s.keep = false
	_, err = x.setBody(resp, io.MultiReader(bytes.NewReader(s.first), s), nil, s.length)
	return err
}

// judge decides whether a body whose source failed is stored, truncated. A failure before the first
// byte fails the exchange, unless it is a redirect, whose body is not needed.
func (x *exchange) judge(s *source, resp *Response) error {
	err := s.failure()
	switch {
	case err == nil:
	case s.n == 0 && resp.Location() == "" || x.ctx.Err() != nil || errors.Is(err, errNoise) || errors.Is(err, ErrTooLarge):
		return err
	case isTimeout(err):
		resp.Truncated = TruncatedTime
	case errors.Is(err, errMalformed):
		resp.Truncated = TruncatedUnspecified
	default:
		resp.Truncated = TruncatedDisconnect
	}
	return nil
}

// unpack removes the codings of a body that r reads from packed. It returns false, and stores
// nothing, if the body is not in these codings.
func (x *exchange) unpack(r io.Reader, packed *source, codings []string, resp *Response) (ok bool, err error) {
	r, removed, release := unpack(r, codings)
	defer release()
	cause, err := x.setBody(resp, r, packed, -1)
	if err == nil && packed.failure() != nil {
		err = x.judge(packed, resp)
	}
	text := strings.HasPrefix(http.DetectContentType(packed.first), "text/")
	switch {
	case err != nil:
		return false, err
	case cause == nil:
	case len(resp.Body) == 0 || text:
		if errors.Is(cause, io.ErrUnexpectedEOF) && !text && resp.Truncated == "" {
			resp.Truncated = TruncatedUnspecified
		}
		resp.Body = nil
		return false, nil
	case cause.Error() == excessiveInput || errors.Is(cause, zstd.ErrMagicMismatch): // bytes after the end
	case resp.Truncated == "":
		resp.Truncated = TruncatedUnspecified
	}
	resp.ContentEncoding = strings.Join(removed, ", ")
	return true, nil
}

// excessiveInput is the error text of package brotli for bytes after the end of a stream, which is
// not exported.
const excessiveInput = "brotli: excessive input"

// wideSlots limits the concurrent decoders of wide codings: a window takes up to 16 MiB, however
// small the body. They run only on complete bodies, so that a slow server occupies no window.
var wideSlots = make(chan struct{}, 2)

// decodeWide removes the codings of a complete body.
func (x *exchange) decodeWide(src *source, codings []string, resp *Response) error {
	limit := x.limit()
	k := x.newSink(nil, src.length, limit)
	if _, err := k.fill(src, nil, limit); err != nil {
		return err
	}
	if err := x.judge(src, resp); err != nil { // do not decode for a failed exchange
		return err
	}
	over := k.end(limit)
	select {
	case wideSlots <- struct{}{}:
	case <-x.ctx.Done():
		return x.ctx.Err()
	}
	x.unslot = sync.OnceFunc(func() { <-wideSlots })
	defer x.unslot()
	x.base += int64(cap(k.buf))
	for ; len(codings) > 0; codings = codings[1:] { // a proxy may have repeated a coding that was applied once
		packed := &source{r: bytes.NewReader(k.buf), length: -1, limit: limit, keep: true}
		if over {
			packed.r = io.MultiReader(packed.r, cutOff{limit})
		}
		ok, err := x.unpack(packed, packed, codings, resp)
		if err == nil {
			err = packed.failure()
		}
		if ok || err != nil {
			return err
		}
	}
	if over {
		if !x.req.Cut {
			return tooLargePacked(limit)
		}
		resp.Truncated = TruncatedLength
	}
	resp.Body = k.buf
	return nil
}

// cutOff ends a truncated encoded body.
type cutOff struct{ limit int64 }

// Read implements io.Reader.
func (c cutOff) Read([]byte) (int, error) { return 0, tooLargePacked(c.limit) }

func tooLargePacked(limit int64) error {
	return fmt.Errorf("packed body of more than %d bytes: %w", limit, ErrTooLarge)
}

// setBody reads the body from r and stores it. Packed counts the bytes before decoding, nil if it
// is not encoded; length is the expected length, -1 if unknown. Cause is the error that ended r
// early.
func (x *exchange) setBody(resp *Response, r io.Reader, packed *source, length int64) (cause, err error) {
	limit := x.limit()
	k := x.newSink(resp.scratch.body, length, limit)
	cause, err = k.fill(r, packed, limit)
	if err == nil && k.size() > limit && !x.req.Cut {
		err = fmt.Errorf("body of more than %d bytes: %w", limit, ErrTooLarge)
	}
	resp.scratch.body = k.buf // also after an error: the buffer has grown
	if err != nil {
		return nil, err
	}
	if k.end(limit) {
		resp.Truncated = TruncatedLength
	}
	resp.Body = k.buf
	return cause, nil
}

// source reads a body from the wire. It counts and limits the bytes read.
type source struct {
	r      io.Reader
	length int64 // by the head; -1: unknown
	limit  int64 // of n, in bytes
	n      int64
	err    error  // that ended it, io.EOF included
	first  []byte // first bytes read, if keep is set
	keep   bool
}

// Read returns io.ErrUnexpectedEOF if the body ends before its length, and fails over the limit.
func (s *source) Read(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.r.Read(p)
	s.n += int64(n)
	switch {
	case s.n > s.limit:
		err = tooLargePacked(s.limit)
	case err != nil && s.length >= 0 && s.n >= s.length:
		err = io.EOF // what follows the length is not part of the body
	case errors.Is(err, io.EOF) && s.n < s.length:
		err = io.ErrUnexpectedEOF
	}
	if s.keep && s.n <= maxReplay {
		s.first = append(s.first, p[:n]...)
	}
	s.err = err
	return n, err
}

// failure returns the error that ended the body early, nil if none did.
func (s *source) failure() error {
	if errors.Is(s.err, io.EOF) {
		return nil
	}
	return s.err
}

// contentCodings lists the codings in the order in which they were applied, without "identity" and
// its synonyms. If one is unknown, or there are too many, it lists none: the body is then stored as
// it is, which is right for servers that send "utf-8" there.
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

// unpack removes the codings, the last applied first, and returns those removed, in the order in
// which they were applied. Release returns the decoders to their pools.
func unpack(r io.Reader, codings []string) (_ io.Reader, removed []string, release func()) {
	var used []func()
	for _, c := range slices.Backward(codings) {
		var done func()
		if r, done = decoders[c](bufio.NewReader(r)); done != nil {
			used, removed = append(used, done), append(removed, c)
		}
	}
	slices.Reverse(removed)
	return r, removed, func() {
		for _, f := range used {
			f()
		}
	}
}

// decoders return a pooled reader for each coding, and a function that releases it; nil if the body
// is not in that coding, and is passed through. An empty body decodes to no bytes in any coding.
var decoders = map[string]func(*bufio.Reader) (io.Reader, func()){
	"gzip":    gunzip,
	"br":      unbrotli,
	"zstd":    unzstd,
	"deflate": inflate,
}

// failed is a reader that returns an error.
type failed struct{ error }

func (f failed) Read([]byte) (int, error) { return 0, f.error }

var flates = sync.Pool{New: func() any { return flate.NewReader(nil) }}

// deflated returns a reader of a bare deflate stream.
func deflated(r *bufio.Reader) (io.ReadCloser, func()) {
	z := flates.Get().(io.ReadCloser)
	_ = z.(flate.Resetter).Reset(r, nil) // without a dictionary it does not fail
	return z, func() { flates.Put(z) }
}

// gzipReader reads gzip members (RFC 1952) and ignores their trailers: the data are used despite a
// wrong or missing checksum. Bytes after the last member are skipped.
type gzipReader struct {
	r *bufio.Reader
	z io.ReadCloser
}

// Read ends at the first bytes that are not a member.
func (g *gzipReader) Read(p []byte) (int, error) {
	n, err := g.z.Read(p)
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	if _, err := g.r.Discard(8); err != nil || !hasGzipMagic(g.r) || skipGzipHeader(g.r) != nil {
		return n, io.EOF
	}
	return n, g.z.(flate.Resetter).Reset(g.r, nil)
}

func hasGzipMagic(r *bufio.Reader) bool {
	magic, _ := r.Peek(3)
	return string(magic) == "\x1f\x8b\x08"
}

func gunzip(r *bufio.Reader) (io.Reader, func()) {
	if !hasGzipMagic(r) {
		return r, nil
	}
	if err := skipGzipHeader(r); err != nil {
		return failed{err}, func() {}
	}
	z, release := deflated(r)
	return &gzipReader{r, z}, release
}

// skipGzipHeader skips the header of a member (RFC 1952, 2.3).
func skipGzipHeader(r *bufio.Reader) (err error) {
	const crc, extra, name, comment = 2, 4, 8, 16
	head := make([]byte, 10)
	if _, err = io.ReadFull(r, head); err == nil && head[3]&extra != 0 {
		size := make([]byte, 2)
		if _, err = io.ReadFull(r, size); err == nil {
			_, err = r.Discard(int(size[0]) | int(size[1])<<8)
		}
	}
	for _, text := range []byte{name, comment} {
		for b := byte(1); err == nil && head[3]&text != 0 && b != 0; {
			b, err = r.ReadByte()
		}
	}
	if err == nil && head[3]&crc != 0 {
		_, err = r.Discard(2)
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

var brotlis = sync.Pool{New: func() any { return brotli.NewReader(nil) }}

func unbrotli(r *bufio.Reader) (io.Reader, func()) {
	if _, err := r.Peek(1); err != nil {
		return r, nil
	}
	b := brotlis.Get().(*brotli.Reader)
	_ = b.Reset(r) // does not fail
	return b, func() { brotlis.Put(b) }
}

var zstds = sync.Pool{New: func() any {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(zstdWindow), zstd.IgnoreChecksum(true))
	if err != nil {
		panic(err) // fixed options
	}
	return d
}}

// unzstd appends a substitute for a missing checksum; after a frame that has one it is skipped like
// other bytes after the last frame.
func unzstd(r *bufio.Reader) (io.Reader, func()) {
	if _, err := r.Peek(1); err != nil {
		return r, nil
	}
	d := zstds.Get().(*zstd.Decoder)
	if err := d.Reset(io.MultiReader(r, strings.NewReader("\x00\x00\x00\x00"))); err != nil {
		return failed{err}, func() {}
	}
	return d, func() {
		_ = d.Reset(nil) // releases the source
		zstds.Put(d)
	}
}

// inflate decodes the coding "deflate": by the standard the zlib format, by many servers a raw
// deflate stream. A zlib header begins with a byte whose low half is 8, and its two bytes are a
// multiple of 31. The checksum at its end is ignored.
func inflate(r *bufio.Reader) (io.Reader, func()) {
	head, _ := r.Peek(2)
	if len(head) == 0 {
		return r, nil
	}
	if len(head) == 2 && head[0]&15 == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		if head[1]&0x20 != 0 {
			return failed{errors.New("zlib stream with a preset dictionary")}, func() {}
		}
		_, _ = r.Discard(2)
	}
	return deflated(r)
}
