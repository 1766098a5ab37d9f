package warc

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

const (
	// maxWindow is the maximum window of a frame, in bytes. Readers need not support more (WARC zstd
	// 1.0, window and dictionary limits).
	maxWindow = 8 << 20
	// ownWindow is the window of written frames, in bytes. An encoder takes somewhat more once a
	// record was longer than a block.
	ownWindow = 1 << 20
	// dictionaryFrame is the type of skippable frame that holds a dictionary: 0x184D2A5D.
	dictionaryFrame = 0xd
)

// errDictionary reports records compressed with a dictionary. A reader that starts at a record does
// not see the one at the start of the file.
var errDictionary = fmt.Errorf("%w: packed with a Zstandard dictionary, which is not supported", ErrFormat)

// frames reads the content of the Zstandard frames of a record. A record may have several, with
// skippable frames between them (WARC zstd 1.0, file format).
type frames struct {
	frame   frame
	decoder *zstd.Decoder
	// within reports that the record ends with the present frame.
	within bool
}

func newFrames(in *countingReader) *frames {
	// The options are valid, so there is no error.
	d, _ := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	return &frames{frame: frame{in: in}, decoder: d}
}

// next starts the next frame of a record; io.EOF means that the file ends before it.
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

// Read implements io.Reader. It enters the next frame only if more is requested than is left in the
// present one.
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

// frame is one frame as stored, block by block (RFC 8878, 3.1.1). It ends where a decoder would
// continue with the next record.
type frame struct {
	in   *countingReader
	left int   // bytes before the next block
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

// block reads the header of the next block.
func (f *frame) block() error {
	const size, rle = 3, 1 // header size; the block type of one repeated byte
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

// unexpected turns io.EOF into io.ErrUnexpectedEOF.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
