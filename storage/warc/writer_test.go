package warc

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

func list(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// checkIndex holds every index in dir to what the records say, and returns how many lines there
// are.
func checkIndex(t testing.TB, dir string) int {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(strings.NewReplacer(`[`, `[[]`, `*`, `[*]`, `?`, `[?]`).Replace(dir), "*"+indexSuffix))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, path := range paths {
		index, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		own := slices.Collect(strings.Lines(string(index)))
		if !slices.IsSorted(own) {
			t.Errorf("%s is not sorted", path)
		}
		lines = append(lines, own...)
	}
	for _, line := range lines {
		parts := strings.SplitN(line, " ", 3)
		var entry struct{ URL, Mime, Status, Digest, Length, Offset, Filename string }
		if err := json.Unmarshal([]byte(parts[2]), &entry); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		data, err := os.ReadFile(filepath.Join(dir, entry.Filename))
		if err != nil {
			t.Fatal(err)
		}
		var offset, length int
		fmt.Sscan(entry.Offset, &offset)
		fmt.Sscan(entry.Length, &length)
		r := NewReader(bytes.NewReader(data[offset:offset+length]), true)
		rec, err := r.Next()
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if err := rec.Skip(); err != nil || rec.Length != int64(length) {
			t.Fatalf("%s: record of %d bytes, %v", line, rec.Length, err)
		}
		if rec.TargetURI != entry.URL || SURT(entry.URL) != parts[0] || rec.Date.Format("20060102150405") != parts[1] ||
			rec.Get("WARC-Payload-Digest") != entry.Digest || (entry.Mime == MIMERevisit) != (rec.Type == TypeRevisit) {
			t.Errorf("%s is not of %+v", line, rec)
		}
	}
	return len(lines)
}

func TestRotation(t *testing.T) {
	for _, c := range []Compression{Gzip, None} {
		t.Run(string(c), func(t *testing.T) {
			dir := t.TempDir()
			config := testConfig(c)
			config.MaxSize = 8000
			w := mustOpen(t, dir, config)
			var xs []*Exchange
			for n := range 40 {
				xs = append(xs, page(n, 1000))
			}
			refs := appendAll(t, w, c, xs...)
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			files, err := Files(dir, true)
			if err != nil || len(files) < 4 {
				t.Fatalf("%d files, %v", len(files), err)
			}
			responses := 0
			for _, path := range files {
				recs := readAll(t, path)
				if recs[0].Type != TypeWarcinfo || recs[0].Get("WARC-Filename") != filepath.Base(path) {
					t.Errorf("%s begins with %+v", path, recs[0].Record)
				}
				for _, rec := range recs {
					if rec.Type == TypeResponse {
						if ref := refs[responses]; ref.File != filepath.Base(path) || ref.Offset != rec.Offset || ref.RecordID.String() != rec.ID {
							t.Errorf("record %d is %+v, said to be at %+v", responses, rec.Record, ref)
						}
						responses++
					}
				}
				if info, err := os.Stat(path); err != nil || info.Size() > config.MaxSize {
					t.Errorf("%s: %d bytes, %v", path, info.Size(), err)
				}
			}
			if n := checkIndex(t, dir); responses != 40 || n != 40 {
				t.Errorf("%d responses, %d index lines; want 40", responses, n)
			}
			for _, name := range list(t, dir) {
				if strings.HasSuffix(name, openSuffix) || strings.HasSuffix(name, tempSuffix) {
					t.Errorf("%s is left", name)
				}
			}
		})
	}
}

func TestNothingWrittenLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	w := mustOpen(t, dir, testConfig(Gzip))
	if err := errors.Join(w.Sync(), w.Close(), w.Close()); err != nil || len(list(t, dir)) != 0 {
		t.Errorf("%v, files %v", err, list(t, dir))
	}
	if _, err := w.Append(&Members{}); !errors.Is(err, ErrClosed) {
		t.Errorf("append after close: %v", err)
	}
}

// TestCrash leaves a file cut at many places and around each end of a record, as a crash may, and
// opens the archive again.
func TestCrash(t *testing.T) {
	for _, c := range []Compression{Gzip, None} {
		t.Run(string(c), func(t *testing.T) {
			from := t.TempDir()
			w := mustOpen(t, from, testConfig(c))
			appendAll(t, w, c, page(1, 300), page(2, 300))
			if err := w.Sync(); err != nil {
				t.Fatal(err)
			}
			files, err := Files(from, true)
			if err != nil || len(files) != 1 || !strings.HasSuffix(files[0], openSuffix) {
				t.Fatalf("%v, %v", files, err)
			}
			data, err := os.ReadFile(files[0])
			if err != nil {
				t.Fatal(err)
			}
			var ends, responses []int64
			r := NewReader(bytes.NewReader(data), true)
			for {
				rec, err := r.Next()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil || rec.Skip() != nil {
					t.Fatal(err)
				}
				ends = append(ends, rec.Offset+rec.Length)
				if rec.Type == TypeResponse {
					responses = append(responses, rec.Offset+rec.Length)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			for cut := range len(data) + 1 {
				near := func(end int64) bool { return cut >= int(end)-2 && cut <= int(end)+2 }
				if cut%53 != 0 && !slices.ContainsFunc(ends, near) {
					continue
				}
				checkRecovery(t, c, filepath.Base(files[0]), data[:cut], ends, responses)
			}
			// After a power cut the tail may hold anything.
			checkRecovery(t, c, filepath.Base(files[0]), append(slices.Clone(data), make([]byte, 5000)...), ends, responses)
		})
	}
}

func checkRecovery(t *testing.T, c Compression, name string, data []byte, ends, responses []int64) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
		t.Fatal(err)
	}
	config := testConfig(c)
	found := 0
	config.Found = func(e Entry, at Ref) {
		if found++; e.URL == "" || e.RecordID == "" || !strings.HasPrefix(e.Digest, "sha256:") {
			t.Errorf("%d bytes: found %+v", len(data), e)
		}
	}
	w, err := Open(dir, config)
	if err != nil {
		t.Fatalf("%d bytes: %v", len(data), err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	once := found
	if w, err = Open(dir, config); err != nil || w.Close() != nil || found != once {
		t.Errorf("%d bytes: opened again it finds %d responses, %v", len(data), found-once, err)
	}
	var wantEnd int64
	for _, end := range ends {
		if end <= int64(len(data)) {
			wantEnd = end
		}
	}
	want := 0
	for _, end := range responses {
		if end <= int64(len(data)) {
			want++
		}
	}
	if found != want {
		t.Errorf("%d bytes: found %d responses, want %d", len(data), found, want)
	}
	if got := checkIndex(t, dir); got != want {
		t.Fatalf("%d bytes: %d exchanges indexed, want %d", len(data), got, want)
	}
	if want == 0 {
		if left := list(t, dir); len(left) != 0 {
			t.Fatalf("%d bytes: %v left of a file without an exchange", len(data), left)
		}
		return
	}
	path := filepath.Join(dir, strings.TrimSuffix(name, openSuffix))
	readAll(t, path)
	if info, err := os.Stat(path); err != nil || info.Size() != wantEnd {
		t.Fatalf("%d bytes: %d kept, %v; want %d", len(data), info.Size(), err, wantEnd)
	}
}

func TestOpenAgainGoesOn(t *testing.T) {
	dir := t.TempDir()
	other := testConfig(Gzip)
	other.Peer = "peer2"
	neighbour := mustOpen(t, dir, other)
	appendAll(t, neighbour, Gzip, page(9, 10))
	if err := neighbour.Sync(); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		w := mustOpen(t, dir, testConfig(Gzip))
		appendAll(t, w, Gzip, page(n, 100))
		if err := w.Sync(); err != nil {
			t.Fatal(err)
		}
		// Not closed: the process was killed.
	}
	if err := mustOpen(t, dir, testConfig(Gzip)).Close(); err != nil {
		t.Fatal(err)
	}
	files, err := Files(dir, false)
	if err != nil || len(files) != 3 || checkIndex(t, dir) != 3 {
		t.Errorf("%v, %v", files, err)
	}
	if open, err := Files(dir, true); err != nil || len(open) != 4 {
		t.Errorf("the file of a living neighbour is gone: %v, %v", open, err)
	}
	if err := neighbour.Close(); err != nil || checkIndex(t, dir) != 4 {
		t.Errorf("the neighbour: %v", err)
	}
}

// smallDisk is a file on a disk that takes only so many bytes.
type smallDisk struct {
	file
	left *atomic.Int64
}

func (s smallDisk) Write(p []byte) (int, error) {
	left := s.left.Add(-int64(len(p)))
	if left >= 0 {
		return s.file.Write(p)
	}
	n, err := s.file.Write(p[:max(0, int64(len(p))+left)])
	s.left.Store(0)
	if err == nil {
		err = syscall.ENOSPC
	}
	return n, err
}

func TestFullDiskLeavesWholeRecords(t *testing.T) {
	for _, room := range []int64{0, 100, 600, 2_000, 5_000, 50_000, 1_200_000, 2_500_000} {
		for _, syncEach := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d bytes, sync each %v", room, syncEach), func(t *testing.T) { testFullDisk(t, room, syncEach) })
		}
	}
}

func testFullDisk(t *testing.T, room int64, syncEach bool) {
	dir := t.TempDir()
	config := testConfig(None)
	var left atomic.Int64
	left.Store(room)
	config.create = func(path string) (file, error) {
		f, err := createFile(path)
		if err != nil || strings.Contains(path, indexSuffix) {
			return f, err
		}
		return smallDisk{f, &left}, nil
	}
	w := mustOpen(t, dir, config)
	e := NewEncoder(None)
	synced := 0
	var err error
	for n := 0; err == nil; n++ {
		m, eerr := e.Exchange(page(n, 20_000))
		if eerr != nil {
			t.Fatal(eerr)
		}
		if _, err = w.Append(m); err == nil && syncEach {
			if err = w.Sync(); err == nil {
				synced = n + 1
			}
		}
	}
	if !errors.Is(err, ErrFailed) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v, want ErrFailed for ENOSPC", err)
	}
	if err := w.Sync(); !errors.Is(err, ErrFailed) {
		t.Errorf("the next Sync: %v", err)
	}
	if err := w.Close(); !errors.Is(err, ErrFailed) {
		t.Errorf("Close: %v", err)
	}
	files, err := Files(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	responses := 0
	for _, path := range files {
		for _, rec := range readAll(t, path) {
			if rec.Type == TypeResponse {
				responses++
			}
		}
	}
	if responses < synced {
		t.Errorf("%d exchanges were synced, %d are left", synced, responses)
	}
	if fit := int(room / 22_500); responses < fit-1 {
		t.Errorf("%d exchanges are left of about %d that fitted", responses, fit)
	}
	if n := checkIndex(t, dir); n != responses {
		t.Errorf("%d index lines for %d exchanges", n, responses)
	}
}

// directory is one that cannot be synced, for a reason.
type directory struct{ err error }

func (d directory) Sync() error { return d.err }

func (directory) Close() error { return nil }

// TestDirectoryThatIsNotSynced: what the disk says of a directory's fsync is not dropped, unless it
// is that there is no such thing.
func TestDirectoryThatIsNotSynced(t *testing.T) {
	for _, row := range []struct{ err, want error }{
		{nil, nil},
		{&os.PathError{Op: "sync", Path: "archive", Err: syscall.EIO}, syscall.EIO},
		{&os.PathError{Op: "sync", Path: "archive", Err: syscall.ENOSPC}, syscall.ENOSPC},
		{&os.PathError{Op: "sync", Path: "archive", Err: syscall.EINVAL}, nil},
		{&os.PathError{Op: "sync", Path: "archive", Err: syscall.ENOTSUP}, nil},
	} {
		if err := syncAndClose(directory{row.err}); !errors.Is(err, row.want) {
			t.Errorf("%v: got %v, want %v", row.err, err, row.want)
		}
	}
}

// countingSyncs counts fsyncs.
type countingSyncs struct {
	file
	syncs *atomic.Int64
}

func (c countingSyncs) Sync() error {
	c.syncs.Add(1)
	return c.file.Sync()
}

// watchedSyncs tells of each fsync before it is made.
type watchedSyncs struct {
	file
	name  string
	watch func(name string)
}

func (f watchedSyncs) Sync() error {
	f.watch(f.name)
	return f.file.Sync()
}

// TestRotationWithoutTheMutex: while a full file is synced, indexed and named others append, and
// whoever waits for what lies in it waits for its fsync.
func TestRotationWithoutTheMutex(t *testing.T) {
	dir := t.TempDir()
	config := testConfig(None)
	config.MaxSize = 8000
	var w *Writer
	var waiting sync.WaitGroup
	var early atomic.Bool // a Sync returned before the fsync of what it is for
	rotations := 0
	config.create = func(path string) (file, error) {
		f, err := createFile(path)
		return watchedSyncs{f, filepath.Base(path), func(name string) {
			if rotations > 0 || w.closed {
				return
			}
			rotations++
			if !w.mu.TryLock() {
				t.Errorf("the mutex is held over the fsync of %s", name)
				return
			}
			w.mu.Unlock()
			appendAll(t, w, None, page(100, 1000))
			var returned atomic.Bool
			waiting.Go(func() {
				if err := w.Sync(); err != nil {
					t.Error(err)
				}
				returned.Store(true)
			})
			for range 1000 {
				runtime.Gosched()
				early.Store(early.Load() || returned.Load())
			}
		}}, err
	}
	w = mustOpen(t, dir, config)
	for n := range 12 {
		appendAll(t, w, None, page(n, 1000))
	}
	waiting.Wait()
	if err := errors.Join(w.Sync(), w.Close()); err != nil {
		t.Fatal(err)
	}
	if rotations == 0 || early.Load() {
		t.Errorf("%d rotations, synced too early: %v", rotations, early.Load())
	}
	if n := checkIndex(t, dir); n != 13 {
		t.Errorf("%d index lines, want 13", n)
	}
}

// brokenSyncs is a file whose fsync fails.
type brokenSyncs struct{ file }

func (brokenSyncs) Sync() error { return syscall.EIO }

// TestRotationThatFails: what lies in a full file that could not be synced is never said to be on
// disk.
func TestRotationThatFails(t *testing.T) {
	config := testConfig(None)
	config.MaxSize = 8000
	files := 0
	config.create = func(path string) (file, error) {
		f, err := createFile(path)
		if files++; files == 1 {
			return brokenSyncs{f}, err
		}
		return f, err
	}
	w := mustOpen(t, t.TempDir(), config)
	e := NewEncoder(None)
	var err error
	for n := 0; err == nil && n < 12; n++ {
		m, eerr := e.Exchange(page(n, 1000))
		if eerr != nil {
			t.Fatal(eerr)
		}
		_, err = w.Append(m)
	}
	for what, err := range map[string]error{"Append": err, "Sync": w.Sync(), "Close": w.Close()} {
		if !errors.Is(err, ErrFailed) || !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestManyAppendersShareSyncs(t *testing.T) {
	dir := t.TempDir()
	config := testConfig(Gzip)
	config.MaxSize = 50_000
	var syncs atomic.Int64
	config.create = func(path string) (file, error) {
		f, err := createFile(path)
		return countingSyncs{f, &syncs}, err
	}
	w := mustOpen(t, dir, config)
	const goroutines, each = 16, 20
	e := NewEncoder(Gzip)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range each {
				m, err := e.Exchange(page(g*each+i, 2000))
				if err == nil {
					_, err = w.Append(m)
				}
				if err == nil {
					e.Recycle(m)
					err = w.Sync()
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if n := checkIndex(t, dir); n != goroutines*each {
		t.Errorf("%d exchanges indexed, want %d", n, goroutines*each)
	}
	if n := syncs.Load(); n >= goroutines*each {
		t.Errorf("%d syncs for %d exchanges: none was shared", n, goroutines*each)
	}
}

// TestSyncWithNothingNew is that a Sync costs nothing when all is on disk.
func TestSyncWithNothingNew(t *testing.T) {
	config := testConfig(Gzip)
	var syncs atomic.Int64
	config.create = func(path string) (file, error) {
		f, err := createFile(path)
		return countingSyncs{f, &syncs}, err
	}
	w := mustOpen(t, t.TempDir(), config)
	defer w.Close()
	appendAll(t, w, Gzip, page(1, 100))
	for range 5 {
		if err := w.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	if n := syncs.Load(); n != 1 {
		t.Errorf("%d syncs, want 1", n)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for name, c := range map[string]Config{
		"Compression": {Compression: "zip"},
		"MaxSize":     {MaxSize: -1},
		"Prefix":      {Prefix: "../x"},
		"Peer":        {Peer: "a/b"},
	} {
		if _, err := Open(t.TempDir(), c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// BenchmarkEncode packs pages in each way, and says how many bytes of an archive a page takes. The
// pages are the HTML files below the directory WARC_PAGES, or made up.
func BenchmarkEncode(b *testing.B) {
	pages, size := htmlPages(b, os.Getenv("WARC_PAGES"))
	for _, c := range Compressions() {
		b.Run(c, func(b *testing.B) {
			e := NewEncoder(Compression(c))
			stored := 0
			b.SetBytes(size / int64(len(pages)))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				m, err := e.Exchange(pages[i%len(pages)])
				if err != nil {
					b.Fatal(err)
				}
				stored += m.Len()
				e.Recycle(m)
			}
			b.ReportMetric(float64(stored)/float64(b.N), "stored-B/op")
		})
	}
}

// htmlPages returns exchanges of HTML pages with their links, and how many bytes their bodies have.
func htmlPages(b *testing.B, dir string) (pages []*Exchange, size int64) {
	b.Helper()
	bodies := madeUpPages(200)
	if dir != "" {
		bodies = nil
		err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".html" || len(bodies) == 2000 {
				return err
			}
			raw, err := os.ReadFile(path)
			bodies = append(bodies, raw)
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	link := regexp.MustCompile(`href="([^"#]+)"`)
	for n, body := range bodies {
		x := page(n, len(body))
		x.Body, x.PayloadDigest, x.Outlinks = body, sha256.Sum256(body), nil
		for _, found := range link.FindAllSubmatch(body, -1) {
			if url := "http://www.example.com:8080/dir/" + string(found[1]); !slices.Contains(x.Outlinks, url) {
				x.Outlinks = append(x.Outlinks, url)
			}
		}
		pages, size = append(pages, x), size+int64(len(body))
	}
	return pages, size
}

// madeUpPages are of words as frequent as those of a language, in markup that all pages share.
func madeUpPages(n int) (bodies [][]byte) {
	r := rand.New(rand.NewPCG(1, 2))
	words := make([]string, 20_000)
	for i := range words {
		for range 1 + r.IntN(4) {
			words[i] += string("bcdfghlmnprstvw"[r.IntN(15)]) + string("aeiou"[r.IntN(5)])
		}
	}
	zipf := rand.NewZipf(r, 1.2, 3, uint64(len(words)-1))
	for range n {
		body := []byte("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>A page</title><link rel=\"stylesheet\" href=\"style.css\"></head>\n<body>")
		for size := 4_000 + r.IntN(60_000); len(body) < size; {
			body = fmt.Appendf(body, "<p class=\"text\"><a class=\"reference internal\" href=\"%s/%s-%d.html\">", words[zipf.Uint64()], words[zipf.Uint64()], r.IntN(500))
			for i := range 40 {
				body = append(append(body, words[zipf.Uint64()]...), ' ')
				if i == 3 {
					body = append(body, "</a>"...)
				}
			}
			body = append(body, "</p>\n"...)
		}
		bodies = append(bodies, body)
	}
	return bodies
}

func BenchmarkAppend(b *testing.B) {
	w := mustOpen(b, b.TempDir(), testConfig(Gzip))
	defer w.Close()
	m, err := NewEncoder(Gzip).Exchange(page(1, 38_000))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.Append(m); err != nil {
			b.Fatal(err)
		}
	}
}
