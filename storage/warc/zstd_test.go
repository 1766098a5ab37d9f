package warc

import (
	"bytes"
	"errors"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// zstdPage is a page as frames, and as it is.
func zstdPage(t testing.TB, size int) (packed, plain []byte) {
	t.Helper()
	m, err := NewEncoder(Zstd).Exchange(page(1, size))
	if err != nil {
		t.Fatal(err)
	}
	if plain, err = zstdDecoder(t).DecodeAll(m.data, nil); err != nil {
		t.Fatal(err)
	}
	return m.data, plain
}

func zstdDecoder(t testing.TB) *zstd.Decoder {
	t.Helper()
	d, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func zstdEncoder(t testing.TB, options ...zstd.EOption) *zstd.Encoder {
	t.Helper()
	e, err := zstd.NewWriter(nil, options...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestFrames: each record is one frame that says its size, has a checksum, and asks for no larger
// window than readers must have.
func TestFrames(t *testing.T) {
	for _, size := range []int{0, 900, 120_000, 3_000_000} {
		rest, _ := zstdPage(t, size)
		n := 0
		for r := NewReader(bytes.NewReader(rest), true); ; n++ {
			rec, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err == nil {
				err = rec.Skip()
			}
			if err != nil {
				t.Fatal(err)
			}
			var h zstd.Header
			one := rest[rec.Offset : rec.Offset+rec.Length]
			if err := h.Decode(one); err != nil || !h.HasFCS || !h.HasCheckSum || h.WindowSize > maxWindow || h.SingleSegment && h.FrameContentSize > maxWindow {
				t.Errorf("%d bytes, record %d: %+v, %v", size, n, h, err)
			}
			if plain, err := zstdDecoder(t).DecodeAll(one, nil); err != nil || uint64(len(plain)) != h.FrameContentSize {
				t.Errorf("%d bytes, record %d: %d bytes of %d, %v", size, n, len(plain), h.FrameContentSize, err)
			}
		}
		if n != 3 {
			t.Errorf("%d bytes: %d records", size, n)
		}
	}
}

const (
	extension = "\x50\x2a\x4d\x18\x05\x00\x00\x00extra"
	wide      = "\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00" // a window of 2 GiB
	wideOne   = "\x28\xb5\x2f\xfd\xa0\x00\x00\x00\x7f\x01\x00\x00"
)

// TestForeignFrames: files of others are read as the specification has them, or refused for what it
// says.
func TestForeignFrames(t *testing.T) {
	packed, plain := zstdPage(t, 9_000)
	e := zstdEncoder(t)
	first := bytes.Index(plain[1:], []byte("WARC/1.1")) + 1
	parts := slices.Concat(e.EncodeAll(plain[:5], nil), []byte(extension), e.EncodeAll(nil, nil), e.EncodeAll(plain[5:first-2], nil), e.EncodeAll(plain[first-2:first], nil))
	streamed := &bytes.Buffer{} // without its size, in blocks
	e.Reset(streamed)
	for part := range slices.Chunk(plain[:first], 700) {
		_, _ = e.Write(part)
		_ = e.Flush()
	}
	_ = e.Close()
	dict := slices.Concat([]byte("\x5d\x2a\x4d\x18\x04\x00\x00\x00"), []byte("\x37\xa4\x30\xec"), packed)
	withDict := zstdEncoder(t, zstd.WithEncoderDictRaw(77, plain[:600])).EncodeAll(plain[:first], nil)
	for _, row := range []struct {
		name    string
		data    []byte
		records int
		want    error
	}{
		{"sound", packed, 3, io.EOF},
		{"a record of several frames", slices.Concat(parts, packed), 4, io.EOF},
		{"blocks", slices.Concat(streamed.Bytes(), packed), 4, io.EOF},
		{"extension frames", slices.Concat(packed, []byte(extension+extension), packed, []byte(extension)), 6, io.EOF},
		{"cut extension frame", slices.Concat(packed, []byte(extension[:10])), 3, ErrTruncated},
		{"two records in a frame", e.EncodeAll(plain, nil), 0, ErrFormat},
		{"a dictionary", dict, 0, errDictionary},
		{"a dictionary elsewhere", withDict, 0, errDictionary},
		{"window", []byte(wide), 0, ErrFormat},
		{"window of the whole", []byte(wideOne), 0, ErrFormat},
		{"checksum", slices.Concat(packed[:len(packed)-1], []byte{packed[len(packed)-1] ^ 1}), 2, ErrFormat},
		{"cut", packed[:len(packed)-1], 2, ErrTruncated},
	} {
		r := NewReader(bytes.NewReader(row.data), true)
		n := 0
		var err error
		for {
			var rec *Record
			if rec, err = r.Next(); err == nil {
				err = rec.Skip()
			}
			if err != nil {
				break
			}
			n++
		}
		if !errors.Is(err, row.want) || n != row.records {
			t.Errorf("%s: %d records, then %v; want %d, %v", row.name, n, err, row.records, row.want)
		}
	}
	_, lost := sifted(t, "a.warc.zst", dict, nil)
	if len(lost) != 1 || !strings.Contains(lost[0].String(), "dictionary") {
		t.Errorf("with a dictionary, lost %v", lost)
	}
}

// TestFramesInBoundedMemory: no frame makes a reader take memory that its bytes do not hold.
func TestFramesInBoundedMemory(t *testing.T) {
	// Half a window of a single segment is asked for, and nothing of it comes.
	for _, frame := range []string{wide, wideOne, "\x28\xb5\x2f\xfd\xa0\x00\x00\x80\x00\x01\x00\x00", "\x28\xb5\x2f\xfd\x00\x68\x01\x00\x00"} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := NewReader(strings.NewReader(frame), true).Next(); !IsDamage(err) {
			t.Errorf("%q: %v", frame, err)
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 3*maxWindow {
			t.Errorf("%q: %d bytes allocated", frame, n)
		}
	}
}

// TestOtherCompression: a peer that is started with another compression finishes what it left open,
// writes on in the new one, and both are read.
func TestOtherCompression(t *testing.T) {
	dir := t.TempDir()
	for n, c := range []Compression{Gzip, Zstd, None, Zstd, Gzip} {
		w := mustOpen(t, dir, testConfig(c))
		appendAll(t, w, c, page(n, 1000))
		if err := w.Sync(); err != nil {
			t.Fatal(err)
		}
		// Not closed: the process was killed, in the middle of a record.
		files, err := Files(dir, true)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(files, func(path string) bool { return strings.HasSuffix(path, c.Suffix()+openSuffix) })
		f, err := os.OpenFile(files[i], os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		half, _ := zstdPage(t, 500)
		_, err = f.Write(half[:100])
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if err := mustOpen(t, dir, testConfig(Zstd)).Close(); err != nil {
		t.Fatal(err)
	}
	files, err := Files(dir, true)
	if err != nil || len(files) != 5 || checkIndex(t, dir) != 5 {
		t.Fatalf("%v, %v", files, err)
	}
	if problems, n := checked(t, dir); len(problems) > 0 || n != 5 {
		t.Errorf("%v, %d exchanges", problems, n)
	}
}
