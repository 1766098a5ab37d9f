package warc

import (
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// packer compresses one record after the other: begin, then writes, up to Close.
type packer interface {
	// begin starts a record of size bytes, written to dst.
	begin(dst io.Writer, size int64)
	io.WriteCloser
}

// newPackers returns a packer, and one for records too short to compress.
func newPackers(c Compression) (packs, stores packer) {
	switch c {
	case None:
		return &plainPacker{}, &plainPacker{}
	case Zstd:
		z := newZstdPacker()
		return z, z
	}
	return newGzipPacker(gzip.BestSpeed), newGzipPacker(gzip.NoCompression)
}

type plainPacker struct{ io.Writer }

func (p *plainPacker) begin(dst io.Writer, _ int64) { p.Writer = dst }

// Close implements io.Closer.
func (*plainPacker) Close() error { return nil }

// gzipPacker writes each record as a member. Requests are stored: half of such a record is
// incompressible digests and IDs, and the fixed cost of compressing a member equals three
// kilobytes.
type gzipPacker struct{ *gzip.Writer }

func newGzipPacker(level int) gzipPacker {
	z, _ := gzip.NewWriterLevel(nil, level) // the levels are valid, so there is no error
	return gzipPacker{z}
}

func (p gzipPacker) begin(dst io.Writer, _ int64) { p.Reset(dst) }

// zstdPacker writes each record as a frame, with its size and a checksum, which the specification
// requires (WARC zstd 1.0, Zstandard frames).
type zstdPacker struct{ *zstd.Encoder }

func newZstdPacker() zstdPacker {
	// The options are valid, so there is no error.
	z, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(true),
		zstd.WithWindowSize(ownWindow), zstd.WithLowerEncoderMem(true))
	return zstdPacker{z}
}

func (p zstdPacker) begin(dst io.Writer, size int64) { p.ResetContentSize(dst, size) }
