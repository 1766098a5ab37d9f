package export

import (
	"archive/zip"
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/html/charset"

	"github.com/apoidea/apoidea/node/ops/export/text"
	"github.com/apoidea/apoidea/storage/warc"
)

// Names in a WACZ file (WACZ 1.1.1, section 5).
const (
	waczVersion     = "1.1.1"
	waczArchive     = "archive/"
	waczIndex       = "indexes/index.cdx" // in CDXJ format; pywb requires this name
	waczPages       = "pages/pages.jsonl"
	waczPackage     = "datapackage.json"
	waczPackageHash = "datapackage-digest.json"

	pagesName = "pages.jsonl"
	indexName = "index.cdxj"
)

// keepCopy copies the records of a file, lists its pages and indexes the copy.
type keepCopy struct {
	keepIndex
	file  *os.File
	out   *bufio.Writer
	title string // of the current record
}

// copyInto creates the copy of a file.
func (e *exporter) copyInto(s *source) (*keepCopy, error) {
	s.copied = e.copyName(s.file.Name)
	f, err := os.Create(filepath.Join(e.work.dir, s.copied))
	if err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	e.copies = append(e.copies, s)
	k := &keepCopy{keepIndex: keepIndex{e: e, s: s}, file: f, out: bufio.NewWriterSize(f, bufferSize)}
	k.look = func(head []byte, body io.Reader) { k.title = pageTitle(head, body) }
	return k, nil
}

// copyName returns the name of a file in the WACZ: unique over all peers, and with the suffix of
// gzip if recompressed.
func (e *exporter) copyName(name string) string {
	base, _, _ := warc.CutName(name)
	name = base + warc.Gzip.Suffix()
	taken := make(map[string]bool)
	for _, s := range e.copies {
		taken[s.copied] = true
	}
	for i := 2; taken[name]; i++ {
		name = strconv.Itoa(i) + "-" + strings.TrimLeft(name, "0123456789-")
	}
	return name
}

func (k *keepCopy) keep(rec *warc.Record, raw *spool) error {
	if k.entry != nil {
		if err := errors.Join(k.add(k.s.copied, k.s.size, raw.len()), k.page(rec)); err != nil {
			return err
		}
	}
	if err := raw.copyTo(k.out); err != nil {
		return err
	}
	k.s.size += raw.len()
	k.e.work.records++
	return nil
}

// waczPage is a line of the page list.
type waczPage struct {
	ID    string    `json:"id"`
	URL   string    `json:"url"`
	TS    time.Time `json:"ts"`
	Title string    `json:"title,omitempty"`
}

// page adds a record to the page list if it is an HTML page.
func (k *keepCopy) page(rec *warc.Record) error {
	if rec.Type != warc.TypeResponse || !strings.HasPrefix(k.entry.Status, "2") || k.entry.MIME != "text/html" && k.entry.MIME != "application/xhtml+xml" {
		return nil
	}
	p := &waczPage{ID: strings.TrimPrefix(k.entry.RecordID, "urn:uuid:"), URL: k.entry.URL, TS: k.entry.Date.UTC(), Title: k.title}
	if first := k.e.main; first == nil || p.TS.Before(first.TS) {
		k.e.main = p
	}
	raw, err := json.Marshal(p)
	if err != nil {
		return err
	}
	_, err = k.e.work.pages.Write(append(raw, '\n'))
	return err
}

// titleWithin limits the search for the title of a page, in bytes.
const titleWithin = 64 << 10

// pageTitle returns the text of the first title element of a page; empty without one.
func pageTitle(head []byte, body io.Reader) string {
	contentType := ""
	if resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(head)), nil); err == nil {
		contentType = resp.Header.Get("Content-Type")
		_ = resp.Body.Close()
	}
	decoded, err := charset.NewReader(io.LimitReader(body, titleWithin), contentType)
	if err != nil {
		return ""
	}
	doc, _ := io.ReadAll(decoded)
	return text.Title(doc)
}

// close writes and closes the copy.
func (k *keepCopy) close() error {
	if err := errors.Join(k.out.Flush(), k.file.Close()); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

// resource is a file of the package.
type resource struct {
	Name  string `json:"name"`
	Path  string `json:"path"`
	Hash  string `json:"hash"`
	Bytes int64  `json:"bytes"`
}

// pack writes the WACZ: a zip without compression, for random access to records.
func (e *exporter) pack(ctx context.Context, out *bufio.Writer) error {
	if err := e.waczFiles(ctx); err != nil {
		return err
	}
	z := zip.NewWriter(out)
	var resources []resource
	add := func(path, file string) error {
		r, err := addFile(ctx, z, path, filepath.Join(e.work.dir, file), e.began)
		resources = append(resources, r)
		return err
	}
	for _, s := range e.copies {
		if s.size > 0 {
			if err := add(waczArchive+s.copied, s.copied); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(add(waczIndex, indexName), add(waczPages, pagesName+".all")); err != nil {
		return err
	}
	fields := map[string]any{
		"profile": "data-package", "wacz_version": waczVersion, "software": e.Software, "created": e.began.UTC().Format(time.RFC3339), "resources": resources,
	}
	if first := e.main; first != nil {
		fields["mainPageUrl"], fields["mainPageDate"], fields["title"] = first.URL, first.TS, cmp.Or(first.Title, first.URL)
	}
	description, err := json.MarshalIndent(fields, "", "  ")
	if err != nil {
		return err
	}
	digest, err := json.MarshalIndent(map[string]string{"path": waczPackage, "hash": fmt.Sprintf("sha256:%x", sha256.Sum256(description))}, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(addBytes(z, waczPackage, description, e.began), addBytes(z, waczPackageHash, digest, e.began), z.Close())
}

// waczFiles writes the index, and the page list after its header.
func (e *exporter) waczFiles(ctx context.Context) error {
	if err := writeFile(filepath.Join(e.work.dir, indexName), func(w *bufio.Writer) error { return e.writeSorted(ctx, w) }); err != nil {
		return err
	}
	return writeFile(filepath.Join(e.work.dir, pagesName+".all"), func(w *bufio.Writer) error {
		if _, err := w.WriteString(`{"format":"json-pages-1.0","id":"pages","title":"All pages"}` + "\n"); err != nil {
			return err
		}
		_, err := io.Copy(w, io.NewSectionReader(e.work.pages, 0, math.MaxInt64))
		return err
	})
}

func writeFile(path string, write func(w *bufio.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, bufferSize)
	return errors.Join(write(w), w.Flush(), f.Close())
}

// addFile stores a file with its checksum and size in the local header, for streaming readers.
func addFile(ctx context.Context, z *zip.Writer, path, file string, at time.Time) (resource, error) {
	f, err := os.Open(file)
	if err != nil {
		return resource{}, err
	}
	defer f.Close()
	sum, crc := sha256.New(), crc32.NewIEEE()
	n, err := io.Copy(io.MultiWriter(sum, crc), f)
	if err != nil {
		return resource{}, err
	}
	r := resource{Name: filepath.Base(path), Path: path, Hash: fmt.Sprintf("sha256:%x", sum.Sum(nil)), Bytes: n}
	w, err := z.CreateRaw(stored(path, n, crc.Sum32(), at))
	if err != nil {
		return r, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return r, err
	}
	if _, err := io.Copy(w, f); err != nil {
		return r, err
	}
	return r, ctx.Err()
}

func addBytes(z *zip.Writer, path string, raw []byte, at time.Time) error {
	w, err := z.CreateRaw(stored(path, int64(len(raw)), crc32.ChecksumIEEE(raw), at))
	if err != nil {
		return err
	}
	_, err = w.Write(raw)
	return err
}

func stored(path string, size int64, crc uint32, at time.Time) *zip.FileHeader {
	h := &zip.FileHeader{
		Name: path, Method: zip.Store, CRC32: crc,
		CompressedSize64: uint64(size), UncompressedSize64: uint64(size), // sizes are not negative
	}
	h.SetModTime(at.UTC()) //nolint:staticcheck // CreateRaw uses no other field
	return h
}
