package warc

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

const (
	// maxWindow bounds the memory that a frame can ask for, in bytes. Readers need not support more
	// (WARC zstd 1.0, window and dictionary limits).
	maxWindow = 8 << 20
	// ownWindow is that of the frames that are written, in bytes. An encoder takes somewhat more
	// once a record was longer than a block.
	ownWindow = 1 << 20
	// dictionaryFrame is the kind of skippable frame that holds a dictionary: 0x184D2A5D.
	dictionaryFrame = 0xd
)

// errDictionary says that records are packed with a dictionary. A reader that begins at a record
// does not see the one at the beginning of the file.
var errDictionary = fmt.Errorf("%w: packed with a Zstandard dictionary, which is not supported", ErrFormat)

// frames reads what the Zstandard frames of a record hold. A record may be of several, and frames
// of other kinds may lie between them (WARC zstd 1.0, file format).
type frames struct {
	frame   frame
	decoder *zstd.Decoder
	// within says that the record ends with the present frame.
	within bool
}

func newFrames(in *countingReader) *frames {
	// The options are valid, so there is no error.
	d, _ := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	return &frames{frame: frame{in: in}, decoder: d}
}

// next goes to the next frame of a record; io.EOF says that the file ends before it.
func (f *frames) next() error {
	in := f.frame.in
	for {
		start, err := in.r.Peek(zstd.HeaderMaxSize)
		if err != nil && (len(start) == 0 || !errors.Is(err, io.EOF)) {
			return err
		}
		var h zstd.Header
		err = h.Decode(start)
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF):
			return err
		case err != nil:
			return fmt.Errorf("%w: %w", ErrFormat, err)
		case h.DictionaryID != 0 || h.Skippable && h.SkippableID == dictionaryFrame:
			return errDictionary
		case !h.Skippable:
			f.frame = frame{in: in, left: h.HeaderSize, sum: h.HasCheckSum}
			return f.decoder.Reset(&f.frame)
		}
		if _, err := io.CopyN(io.Discard, in, int64(h.HeaderSize)+int64(h.SkippableSize)); err != nil {
			return unexpected(err)
		}
	}
}

// Read implements io.Reader. It goes into the next frame only when more is asked for than the
// present one has.
func (f *frames) Read(p []byte) (int, error) {
	for {
		n, err := f.decoder.Read(p)
		switch {
		case err == nil || errors.Is(err, io.EOF) && n > 0:
			return n, nil
		case f.frame.err != nil:
			return n, f.frame.err
		case !errors.Is(err, io.EOF):
			return n, fmt.Errorf("%w: %w", ErrFormat, err)
		case f.within:
			return 0, io.EOF
		}
		if err := f.next(); err != nil {
			return 0, err
		}
	}
}

// frame is one frame as it is stored, block by block (RFC 8878, 3.1.1). It ends where a decoder
// alone would go on into the next record.
type frame struct {
	in   *countingReader
	left int   // bytes up to the next block
	sum  bool  // a checksum follows the last block
	last bool  // no block follows
	err  error // of in, which also ended too early
}

// Read implements io.Reader.
func (f *frame) Read(p []byte) (n int, err error) {
	if f.left == 0 && !f.last {
		f.err = f.block()
	}
	if f.err != nil || f.left == 0 {
		return 0, cmp.Or(f.err, io.EOF)
	}
	n, err = f.in.Read(p[:min(len(p), f.left)])
	f.left -= n
	f.err = unexpected(err)
	return n, f.err
}

// block looks at the head of the block that follows.
func (f *frame) block() error {
	const size, rle = 3, 1 // bytes of a head; the type of a block that is one byte, repeated
	head, err := f.in.r.Peek(size)
	if err != nil {
		return unexpected(err)
	}
	bits := int(head[0]) | int(head[1])<<8 | int(head[2])<<16
	f.last, f.left = bits&1 != 0, size+bits>>3
	if bits>>1&3 == rle {
		f.left = size + 1
	}
	if f.last && f.sum {
		f.left += 4
	}
	return nil
}

// unexpected makes the end of a file one that comes too early.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
