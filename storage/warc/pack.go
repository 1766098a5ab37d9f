package warc

import (
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// packer packs one record after the other: begin, then what is written, up to Close.
type packer interface {
	// begin has a record of so many bytes written to dst.
	begin(dst io.Writer, size int64)
	io.WriteCloser
}

// newPackers makes a packer, and one for what is too short to get much shorter.
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

// gzipPacker makes a member of each record. Requests are stored in it as they are: half of such a
// record are digests and identities, which get no shorter, and what is done once for each member
// that is packed takes as long as packing three kilobytes.
type gzipPacker struct{ *gzip.Writer }

func newGzipPacker(level int) gzipPacker {
	z, _ := gzip.NewWriterLevel(nil, level) // the levels are valid, so there is no error
	return gzipPacker{z}
}

func (p gzipPacker) begin(dst io.Writer, _ int64) { p.Reset(dst) }

// zstdPacker makes a frame of each record, with its size and a checksum, both of which the
// specification wants (WARC zstd 1.0, Zstandard frames).
type zstdPacker struct{ *zstd.Encoder }

func newZstdPacker() zstdPacker {
	// The options are valid, so there is no error.
	z, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(true),
		zstd.WithWindowSize(ownWindow), zstd.WithLowerEncoderMem(true))
	return zstdPacker{z}
}

func (p zstdPacker) begin(dst io.Writer, size int64) { p.ResetContentSize(dst, size) }
