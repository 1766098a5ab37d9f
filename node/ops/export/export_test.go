package export

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/storage/warc"
)

// ring is a Results of archives in memory that breaks off when a test wants it to.
type ring struct {
	files   map[string]map[string][]byte // by peer and name; a name that ends in .open is being written
	urls    map[string][]string
	holders map[string]int64
	workers []string
	gone    []string // listed by nobody
	// left is how many bytes are given before each call ends with fail; negative: all.
	left int64
	fail error
	read int64
	mu   sync.Mutex // guards left and read: an index is read beside its file
}

func (r *ring) Archives(context.Context, bool) (*control.Archives, error) {
	a := &control.Archives{}
	for _, id := range slices.Sorted(maps.Keys(r.files)) {
		p := control.ArchivePeer{Peer: id, Role: "ring"}
		if slices.Contains(r.workers, id) {
			p.Role = "worker"
		}
		for _, name := range slices.Sorted(maps.Keys(r.files[id])) {
			base, open := strings.CutSuffix(name, ".open")
			if !strings.HasSuffix(base, ".cdxj") {
				p.Files = append(p.Files, control.ArchiveFile{Name: base, Open: open})
			}
		}
		a.Peers = append(a.Peers, p)
	}
	for _, id := range r.gone {
		a.Missing = append(a.Missing, control.Missing{Peer: id, Error: "no answer"})
	}
	return a, nil
}

// take returns what may be given of some bytes.
func (r *ring) take(part []byte) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left >= 0 {
		part = part[:min(int64(len(part)), r.left)]
		r.left -= int64(len(part))
	}
	r.read += int64(len(part))
	return part
}

func (r *ring) ReadArchive(ctx context.Context, peer, name string, offset int64, w io.Writer) error {
	raw, ok := r.files[peer][name]
	if !ok {
		if raw, ok = r.files[peer][name+".open"]; !ok {
			return &control.Error{Kind: control.KindFailed, Text: "no such file"}
		}
	}
	raw = raw[min(offset, int64(len(raw))):]
	for len(raw) > 0 {
		part := r.take(raw[:min(len(raw), 997)])
		if len(part) == 0 {
			return r.fail
		}
		if _, err := w.Write(part); err != nil {
			return err
		}
		raw = raw[len(part):]
	}
	return ctx.Err()
}

func (r *ring) URLs(_ context.Context, peer, after string) (*control.URLPage, error) {
	all := r.urls[peer]
	i := 0
	if after != "" {
		i = slices.Index(all, after) + 1
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left == 0 {
		return nil, r.fail
	}
	r.left--
	page := &control.URLPage{}
	for id, n := range r.holders {
		for range n * int64(1-min(len(after), 1)) {
			page.URLs = append(page.URLs, control.URLLine{Record: "r", Holder: id})
		}
	}
	for ; i < len(all) && len(page.URLs) < 2; i++ {
		page.URLs, page.After = append(page.URLs, control.URLLine{URL: all[i], Outcome: "ok"}), all[i]
	}
	if i == len(all) {
		page.After = ""
	}
	return page, nil
}

// archive makes the bytes of an archive file with n pages, each with a link to the next and one to
// all.
func archive(t *testing.T, c warc.Compression, host string, n int) []byte {
	t.Helper()
	enc := warc.NewEncoder(c)
	dir := t.TempDir()
	w, err := warc.Open(dir, warc.Config{Compression: c})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		body := bytes.Repeat(fmt.Appendf(nil, "%s %d ", host, i), 300)
		m, err := enc.Exchange(&warc.Exchange{
			URL: fmt.Sprintf("http://%s/%d", host, n-i), Date: time.UnixMilli(1_700_000_000_000), Request: []byte("GET / HTTP/1.1\r\n\r\n"),
			ResponseHead: []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"), Body: body, PayloadDigest: sha256.Sum256(body),
			Outlinks: []string{fmt.Sprintf("http://%s/%d", host, i), "http://all.example/a,b"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Append(m); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	paths, err := warc.Files(dir, false)
	if err != nil || len(paths) != 1 {
		t.Fatalf("files %v, %v", paths, err)
	}
	raw, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func index(t *testing.T, raw []byte, name string) []byte {
	t.Helper()
	lines, err := warc.Index(bytes.NewReader(raw), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	sorted := bytes.SplitAfter(lines, []byte("\n"))
	slices.SortFunc(sorted, bytes.Compare)
	return bytes.Join(sorted, nil)
}

// world is three peers: two finished files and an open one that ends within a record.
func world(t *testing.T) *ring { return packedWorld(t, warc.Gzip, warc.Gzip, warc.Gzip) }

// packedWorld is a world whose files are packed in these ways.
func packedWorld(t *testing.T, one, two, three warc.Compression) *ring {
	a, b, c := archive(t, one, "a.example", 7), archive(t, two, "b.example", 5), archive(t, three, "c.example", 4)
	first, second := "1"+one.Suffix(), "2"+two.Suffix()
	return &ring{
		files: map[string]map[string][]byte{
			"p1": {first: a, "1.cdxj": index(t, a, first)},
			"p2": {second: b, "2.cdxj": index(t, b, second), "3" + three.Suffix() + ".open": c[:len(c)-20]},
			"p3": {},
		},
		urls:    map[string][]string{"p1": {"u1", "u2", "u3", "u4", "u5"}, "p2": {"v1", "v2"}, "p3": {"w1"}},
		workers: []string{"p3"},
		left:    -1,
	}
}

func records(t *testing.T, raw []byte) (n int) {
	t.Helper()
	r := warc.NewReader(bytes.NewReader(raw), true)
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return n
		}
		if err == nil {
			n++
			err = rec.Skip()
		}
		if err != nil {
			t.Fatalf("record %d: %v", n, err)
		}
	}
}

// checks say of each kind what the world comes to.
func checks(t *testing.T, what string, raw []byte) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
	switch what {
	case WARC: // a warcinfo a file, three for each page; of the last page of the open one the metadata is cut short
		if n := records(t, raw); n != 3+3*16-1 {
			t.Errorf("%d records", n)
		}
	case CDXJ:
		if len(lines) != 16 || !slices.IsSorted(lines) {
			t.Errorf("%d lines, sorted %v", len(lines), slices.IsSorted(lines))
		}
	case Links:
		if len(lines) != 1+2*15 || lines[0] != "from,to,kind" || lines[2] != `http://a.example/7,"http://all.example/a,b",link` {
			t.Errorf("%d lines: %q", len(lines), lines[:3])
		}
	case URLs:
		if len(lines) != 7 || !strings.Contains(lines[6], `"v2"`) {
			t.Errorf("lines %q", lines)
		}
	case TextLines:
		if len(lines) != 16 || !strings.HasPrefix(lines[0], `{"url":"http://a.example/7",`) || !strings.HasPrefix(lines[15], `{"url":"http://c.example/1",`) {
			t.Errorf("%d lines: %.80q", len(lines), lines)
		}
	case WET: // a warcinfo, and a page a record
		if n := records(t, raw); n != 1+16 {
			t.Errorf("%d records", n)
		}
	case WACZ:
		checkWACZ(t, raw, 16)
	}
}

// checkWACZ reads a WACZ as its specification has it.
func checkWACZ(t *testing.T, raw []byte, pages int) {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string][]byte)
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if files[f.Name], err = io.ReadAll(r); err != nil || f.Method != zip.Store {
			t.Errorf("%s: method %d, %v", f.Name, f.Method, err)
		}
		if f.Modified.Year() < 2000 {
			t.Errorf("%s: dated %s", f.Name, f.Modified)
		}
	}
	var pack struct {
		Profile   string
		Version   string `json:"wacz_version"`
		Main      string `json:"mainPageUrl"`
		Title     string
		Resources []resource
	}
	if err := json.Unmarshal(files[waczPackage], &pack); err != nil || pack.Profile != "data-package" || pack.Version == "" || len(pack.Resources) != len(files)-2 {
		t.Errorf("package %+v, %v; %d files", pack, err, len(files))
	}
	for _, r := range pack.Resources {
		if got := fmt.Sprintf("sha256:%x", sha256.Sum256(files[r.Path])); got != r.Hash || r.Bytes != int64(len(files[r.Path])) {
			t.Errorf("%s: %d bytes, %s", r.Path, r.Bytes, r.Hash)
		}
	}
	if !strings.Contains(string(files[waczPackageHash]), fmt.Sprintf("sha256:%x", sha256.Sum256(files[waczPackage]))) {
		t.Error("the package's digest is another")
	}
	if n := bytes.Count(files[waczPages], []byte("\n")); n != 1+pages {
		t.Errorf("%d pages", n-1)
	}
	if pack.Title == "" || !strings.Contains(string(files[waczPages]), fmt.Sprintf("%q", pack.Main)) {
		t.Errorf("main page %q with title %q", pack.Main, pack.Title)
	}
	lines := strings.Split(strings.TrimSuffix(string(files[waczIndex]), "\n"), "\n")
	if len(lines) != pages || !slices.IsSorted(lines) {
		t.Errorf("%d lines of index", len(lines))
	}
	for _, line := range lines { // each leads to its record
		var e struct{ URL, Filename, Offset, Length string }
		if err := json.Unmarshal([]byte(line[strings.IndexByte(line, '{'):]), &e); err != nil {
			t.Fatal(err)
		}
		var offset, length int
		fmt.Sscan(e.Offset+" "+e.Length, &offset, &length)
		rec, err := warc.NewReader(bytes.NewReader(files[waczArchive+e.Filename][offset:offset+length]), true).Next()
		if err != nil || rec.TargetURI != e.URL || rec.Skip() != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// inTwoWorlds runs a test of each kind of export, of archives that are packed alike, and of others.
// streamed are the kinds that write one file or a stream.
func streamed() []string {
	return slices.DeleteFunc(Kinds(), func(what string) bool { return what == Parquet })
}

func inTwoWorlds(t *testing.T, test func(t *testing.T, what string, world func(t *testing.T) *ring)) {
	t.Helper()
	for _, what := range streamed() {
		t.Run(what, func(t *testing.T) { test(t, what, world) })
		t.Run(what+" of all", func(t *testing.T) {
			test(t, what, func(t *testing.T) *ring { return packedWorld(t, warc.Zstd, warc.Gzip, warc.Zstd) })
		})
	}
}

// TestPackedAsNamed: whatever the archives are packed in, all records of the output are packed as
// its name says, and the index of that name leads to them.
func TestPackedAsNamed(t *testing.T) {
	src := packedWorld(t, warc.Gzip, warc.Zstd, warc.None)
	for _, c := range warc.Compressions() {
		o := Options{What: WARC, Output: filepath.Join(t.TempDir(), "x"+warc.Compression(c).Suffix())}
		if r, err := Run(t.Context(), src, o); err != nil || !r.Complete {
			t.Fatalf("%s: %+v, %v", c, r, err)
		}
		raw, err := os.ReadFile(o.Output)
		if err != nil {
			t.Fatal(err)
		}
		checks(t, WARC, raw)
		var made bytes.Buffer
		if _, err := Run(t.Context(), src, Options{What: CDXJ, Of: filepath.Base(o.Output), Stream: &made}); err != nil {
			t.Fatal(err)
		}
		leads(t, made.Bytes(), filepath.Base(o.Output), raw)
	}
}

// leads checks that each line of an index leads to its record in a file, and returns their number.
func leads(t *testing.T, index []byte, name string, raw []byte) (n int) {
	t.Helper()
	for line := range strings.Lines(string(index)) {
		var e struct{ URL, Filename, Offset, Length string }
		if err := json.Unmarshal([]byte(line[strings.IndexByte(line, '{'):]), &e); err != nil {
			t.Fatal(err)
		}
		var offset, length int
		fmt.Sscan(e.Offset+" "+e.Length, &offset, &length)
		rec, err := warc.NewReader(bytes.NewReader(raw[offset:offset+length]), true).Next()
		if err != nil || rec.TargetURI != e.URL || rec.Skip() != nil || e.Filename != name {
			t.Errorf("%s: %v", line, err)
		}
		n++
	}
	return n
}

// TestKinds: each kind comes whole, to a stream and to a file.
func TestKinds(t *testing.T) {
	inTwoWorlds(t, func(t *testing.T, what string, world func(t *testing.T) *ring) {
		var b bytes.Buffer
		o := Options{What: what}
		o.Stream = &b
		r, err := Run(t.Context(), world(t), o)
		if err != nil || !r.Complete || r.Bytes != int64(b.Len()) || r.Peers != 3 {
			t.Fatalf("report %+v, %v", r, err)
		}
		checks(t, what, b.Bytes())
		o = Options{What: what}
		o.Output = filepath.Join(t.TempDir(), "out")
		if r, err = Run(t.Context(), world(t), o); err != nil || !r.Complete {
			t.Fatalf("to a file: %+v, %v", r, err)
		}
		raw, err := os.ReadFile(o.Output)
		if err != nil {
			t.Fatal(err)
		}
		checks(t, what, raw)
		if _, err := os.Stat(partOf(o.Output)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the directory is still there: %v", err)
		}
		if _, err := Run(t.Context(), world(t), o); control.KindOf(err) != control.KindUsage {
			t.Errorf("replaced what was there: %v", err)
		}
	})
}

// TestLinksHaveRedirects checks that redirects are edges, in each form of the export.
func TestLinksHaveRedirects(t *testing.T) {
	dir := t.TempDir()
	w, err := warc.Open(dir, warc.Config{Compression: warc.Gzip})
	if err != nil {
		t.Fatal(err)
	}
	enc := warc.NewEncoder(warc.Gzip)
	for _, x := range []struct{ url, head string }{
		{"http://a.example/", "HTTP/1.1 200 OK\r\nLocation: /no\r\n\r\n"},
		{"http://a.example/old", "HTTP/1.1 301 Moved\r\nLocation: ../new?x=a,b\r\n\r\n"},
		{"http://a.example/old", "HTTP/1.1 302 Found\r\nlocation: http://A.example/new?x=a,b\r\n\r\n"},
		{"http://a.example/same", "HTTP/1.1 304 Not Modified\r\nLocation: /no\r\n\r\n"},
		{"http://a.example/bad", "HTTP/1.1 302 Found\r\nLocation: mailto:a@b\r\n\r\n"},
	} {
		m, err := enc.Exchange(&warc.Exchange{URL: x.url, Date: time.UnixMilli(1_700_000_000_000), ResponseHead: []byte(x.head), PayloadDigest: sha256.Sum256(nil), Outlinks: map[bool][]string{true: {"http://a.example/old"}}[x.url == "http://a.example/"]})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Append(m); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	paths, err := warc.Files(dir, false)
	if err != nil || len(paths) != 1 {
		t.Fatalf("files %v, %v", paths, err)
	}
	raw, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	src := &ring{files: map[string]map[string][]byte{"p1": {"1.warc.gz": raw}}, left: -1}
	const csvEdge, edge = `http://a.example/old,"http://a.example/new?x=a,b",`, `{"from":"http://a.example/old","to":"http://a.example/new?x=a,b","kind":"redirect"`
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"CSV":  {Options{}, "from,to,kind\nhttp://a.example/,http://a.example/old,link\n" + csvEdge + "redirect\n" + csvEdge + "redirect\n"},
		"JSON": {Options{JSON: true}, `{"from":"http://a.example/","to":"http://a.example/old","kind":"link"}` + "\n" + edge + "}\n" + edge + "}\n"},
	} {
		var b bytes.Buffer
		c.o.What, c.o.Stream = Links, &b
		if r, err := Run(t.Context(), src, c.o); err != nil || !r.Complete || b.String() != c.want {
			t.Errorf("%s: %+v, %v:\n%s\nwant\n%s", name, r, err, b.String(), c.want)
		}
	}
}

// TestFailedExportLeavesNothing: neither an output nor a working directory remain.
func TestFailedExportLeavesNothing(t *testing.T) {
	gone := &control.Error{Kind: control.KindNoPeer, Text: "the peer went away"}
	for _, what := range Kinds() {
		t.Run(what, func(t *testing.T) {
			src, dir := world(t), t.TempDir()
			src.left, src.fail = 1, gone
			o := Options{What: what}
			o.Output = filepath.Join(dir, "out")
			if _, err := Run(t.Context(), src, o); !errors.Is(err, gone) {
				t.Fatalf("error %v, want %v", err, gone)
			}
			if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
				t.Errorf("left %v, %v", left, err)
			}
		})
	}
}

// TestInterrupted: a canceled export ends before the end of a file, and leaves nothing, also if the
// source does not notice.
func TestInterrupted(t *testing.T) {
	for _, what := range Kinds() {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		src := deaf{world(t), cancel}
		if r, err := Run(ctx, src, Options{What: what, Output: filepath.Join(dir, "out")}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %+v, %v", what, r, err)
		}
		if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
			t.Errorf("%s left %v, %v", what, left, err)
		}
	}
}

// deaf is a source that ignores the end of a context, which comes with the first answer.
type deaf struct {
	*ring
	cancel func()
}

func (d deaf) ReadArchive(ctx context.Context, peer, name string, offset int64, w io.Writer) error {
	d.cancel()
	return d.ring.ReadArchive(context.WithoutCancel(ctx), peer, name, offset, w)
}

func (d deaf) URLs(ctx context.Context, peer, after string) (*control.URLPage, error) {
	d.cancel()
	return d.ring.URLs(context.WithoutCancel(ctx), peer, after)
}

// TestWhatIsMissing: peers that do not answer, files that are cut short, records that are damaged,
// and holders that are gone.
func TestWhatIsMissing(t *testing.T) {
	src := world(t)
	src.gone = []string{"p4"}
	src.holders = map[string]int64{"p4": 9, "p5": 2}
	bad := src.files["p1"]["1.warc.gz"]
	first := damageSecond(t, bad)
	src.files["p2"]["2.warc.gz"] = src.files["p2"]["2.warc.gz"][:2000]
	var b bytes.Buffer
	r, err := Run(t.Context(), src, Options{What: WARC, Ring: true, Stream: &b})
	if err != nil || r.Complete {
		t.Fatalf("%+v, %v", r, err)
	}
	want := []control.Missing{{Peer: "p4", Records: 18}, {Peer: "p5", Records: 4}} // asked of two peers
	for i, m := range r.Missing {
		m.Error = ""
		if i >= len(want) || m != want[i] {
			t.Errorf("missing %v", r.Missing)
			break
		}
	}
	if len(r.Missing) != len(want) {
		t.Errorf("missing %v", r.Missing)
	}
	if len(r.Damaged) != 2 || r.Damaged[0].Peer != "p1" || r.Damaged[0].Offset != first {
		t.Errorf("damaged %v", r.Damaged)
	}
	if cut := r.Damaged[1]; cut.File != "2.warc.gz" || cut.Bytes != 0 || cut.Lost != 3 || cut.URLs[0] != "http://b.example/1" {
		t.Errorf("cut %v", cut)
	}
	records(t, b.Bytes()) // whatever came is whole
}

// damageSecond stores another body under the digest of the second record of an uncompressed copy,
// in place.
func damageSecond(t *testing.T, raw []byte) int64 {
	t.Helper()
	r := warc.NewReader(bytes.NewReader(raw), true)
	for range 2 {
		rec, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if err := rec.Skip(); err != nil {
			t.Fatal(err)
		}
		if rec.Type == warc.TypeResponse {
			forge(t, raw[rec.Offset:rec.Offset+rec.Length])
			return rec.Offset
		}
	}
	t.Fatal("no response")
	return 0
}

// TestExistingPart: the directory of a killed export is replaced; one in use, and one that is not
// of an export, are kept.
func TestExistingPart(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	part := partOf(out)
	other := filepath.Join(part, "notes.txt")
	if err := errors.Join(os.Mkdir(part, 0o755), os.WriteFile(other, []byte("mine"), 0o600)); err != nil {
		t.Fatal(err)
	}
	run := func(refused bool) {
		t.Helper()
		if _, err := Run(t.Context(), world(t), Options{What: CDXJ, Output: out, Force: true}); (control.KindOf(err) == control.KindUsage) != refused || !refused && err != nil {
			t.Errorf("error %v, want refused %v", err, refused)
		}
	}
	run(true)
	if raw, err := os.ReadFile(other); string(raw) != "mine" {
		t.Fatalf("a file of the user: %q, %v", raw, err)
	}
	killed, err := takeLock(part)
	if err != nil {
		t.Fatal(err)
	}
	run(true)
	if err := killed.Close(); err != nil {
		t.Fatal(err)
	}
	run(false)
	if _, err := os.Stat(part); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s remains: %v", part, err)
	}
}

// forge replaces a gzip member by one of the same length whose block is another.
func forge(t *testing.T, member []byte) {
	t.Helper()
	zr, err := gzip.NewReader(bytes.NewReader(member))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(zr)
	if err != nil {
		t.Fatal(err)
	}
	plain = bytes.Replace(plain, []byte("a.example 0 "), []byte("A.example 0 "), 1)
	var b bytes.Buffer
	zw, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	zw.Write(plain)
	zw.Close()
	// Room is filled with a comment in the member's head.
	room := len(member) - b.Len()
	if room < 1 {
		t.Fatalf("the forged member is %d bytes longer", -room)
	}
	b.Reset()
	zw.Reset(&b)
	zw.Comment = strings.Repeat("x", room-1)
	zw.Write(plain)
	zw.Close()
	if copy(member, b.Bytes()) != b.Len() || b.Len() != len(member) {
		t.Fatalf("forged %d bytes of %d", b.Len(), len(member))
	}
}
