package warc

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// mimeRevisit is the MIME type of a revisit in an index.
	mimeRevisit = "warc/revisit"
	// maxIndexLine is the maximum length of a line that is read, in bytes.
	maxIndexLine = 1 << 20
)

// appendIndex appends the CDXJ line of an exchange up to the value of offset, which is only known
// when the member is appended to a file: a SURT key, a 14-digit time, then a JSON object. length is
// that of the member, in bytes.
func appendIndex(dst []byte, x *Exchange, date time.Time, length int) []byte {
	mime := mimeRevisit
	if x.RevisitOf == nil {
		mime = mimeOf(x.ResponseHead)
	}
	return appendEntry(dst, x.URL, date, mime, statusOf(x.ResponseHead), "sha256:"+hex.EncodeToString(x.PayloadDigest[:]), length)
}

func appendEntry(dst []byte, url string, date time.Time, mime, status, digest string, length int) []byte {
	dst = append(dst, SURT(url)...)
	dst = append(dst, ' ')
	dst = date.AppendFormat(dst, "20060102150405")
	dst = append(dst, ` {"url": `...)
	dst = appendJSON(dst, url)
	dst = append(dst, `, "mime": `...)
	dst = appendJSON(dst, mime)
	dst = append(dst, `, "status": `...)
	dst = appendJSON(dst, status)
	dst = append(dst, `, "digest": `...)
	dst = appendJSON(dst, digest)
	dst = append(dst, `, "length": "`...)
	dst = strconv.AppendInt(dst, int64(length), 10)
	return append(dst, `", "offset": "`...)
}

// appendPlace completes the line that appendIndex began.
func appendPlace(dst []byte, offset int64, file string) []byte {
	dst = strconv.AppendInt(dst, offset, 10)
	dst = append(dst, `", "filename": `...)
	dst = appendJSON(dst, file)
	return append(dst, "}\n"...)
}

// appendJSON appends s as a JSON string, with a fast path for plain ones, which are nearly all.
func appendJSON(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(s) // strings cannot fail
			return append(dst, quoted...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

// writeIndex writes the sorted lines to the index at path. It writes a temporary file and renames
// it, so that the index is complete or absent.
func writeIndex(path string, lines []byte) error {
	tmp := path + tempSuffix
	file, err := os.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, werr := file.Write(sortIndex(lines))
	if err := errors.Join(werr, file.Sync(), file.Close()); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return os.Rename(tmp, path)
}

// sortIndex returns the lines of an index in their order.
func sortIndex(lines []byte) []byte {
	sorted := bytes.SplitAfter(lines, []byte("\n"))
	slices.SortFunc(sorted, bytes.Compare)
	return bytes.Join(sorted, nil)
}

// indexFile reads a WARC file and returns its index, unsorted, with name as the file name in its
// lines. found is that of Index.
func indexFile(path, name string, found func(e Entry, at Ref)) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return Index(file, name, found)
}

// Index reads a WARC stream and returns its index, unsorted, with name as the file name in its
// lines. After an error, such as ErrTruncated for a file that is being written, it returns the
// lines of the records before. found, if not nil, is called with each complete response.
func Index(r io.Reader, name string, found func(e Entry, at Ref)) ([]byte, error) {
	var lines []byte
	records := NewReader(r, false)
	for {
		rec, err := records.Next()
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err == nil && (rec.Type == TypeResponse || rec.Type == TypeRevisit) {
			var e Entry
			if e, err = rec.Entry(); err == nil {
				lines = e.AppendLine(lines, name, rec.Offset, rec.Length)
				if found != nil && rec.Type == TypeResponse && rec.Get("WARC-Truncated") == "" {
					found(e, Ref{File: name, Offset: rec.Offset})
				}
			}
		}
		if err != nil {
			return lines, fmt.Errorf("%s: %w", name, err)
		}
	}
}

// Entry is the index entry of a response or revisit.
type Entry struct {
	URL, Digest  string    // of the page, and of its body as sha256: and hex
	Date         time.Time // of the record
	MIME, Status string    // MIME has no parameters; "warc/revisit" for a revisit
	RecordID     string    // without angle brackets
}

// Entry returns the index entry of a response or revisit. It reads the record to its end.
func (r *Record) Entry() (Entry, error) { return r.EntryAnd(nil) }

// EntryAnd is Entry, but calls look, unless nil, first; it may read from the body of a response.
func (r *Record) EntryAnd(look func(head []byte, body io.Reader)) (Entry, error) {
	head, err := r.HTTPHead()
	if err != nil {
		return Entry{}, err
	}
	e := Entry{URL: r.TargetURI, Digest: r.Get("WARC-Payload-Digest"), Date: r.Date, MIME: mimeRevisit, Status: statusOf(head), RecordID: r.ID}
	if r.Type == TypeResponse {
		e.MIME = mimeOf(head)
		if look != nil {
			look(head, r)
		}
	}
	return e, r.Skip()
}

// AppendLine appends the entry's line, with its newline, for a record of length bytes at an offset
// of a file.
func (e *Entry) AppendLine(dst []byte, file string, offset, length int64) []byte {
	dst = appendEntry(dst, e.URL, e.Date, e.MIME, e.Status, e.Digest, int(length))
	return appendPlace(dst, offset, file)
}

// IndexLine is a parsed line of an index.
type IndexLine struct {
	URL, Digest    string    // as in Entry
	Date           time.Time // to the second
	MIME, Status   string    // as in Entry
	Offset, Length int64     // bytes in File, as stored
	File           string    // name without directory
}

// ParseIndex reads an index. It returns the valid lines, and an error if there are others.
func ParseIndex(r io.Reader) (lines []IndexLine, err error) {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, maxIndexLine)
	bad := 0
	for scanner.Scan() {
		if l, ok := parseLine(scanner.Bytes()); ok {
			lines = append(lines, l)
		} else {
			bad++
		}
	}
	if err := scanner.Err(); err != nil {
		return lines, fmt.Errorf("index: %w", err)
	}
	if bad > 0 {
		return lines, fmt.Errorf("index: %w: %d invalid lines", ErrFormat, bad)
	}
	return lines, nil
}

func parseLine(raw []byte) (IndexLine, bool) {
	surt, rest, _ := bytes.Cut(raw, []byte(" "))
	at, object, _ := bytes.Cut(rest, []byte(" "))
	var l struct{ URL, MIME, Status, Digest, Length, Offset, Filename string }
	if json.Unmarshal(object, &l) != nil || SURT(l.URL) != string(surt) {
		return IndexLine{}, false
	}
	date, err1 := time.Parse("20060102150405", string(at))
	offset, err2 := strconv.ParseInt(l.Offset, 10, 64)
	length, err3 := strconv.ParseInt(l.Length, 10, 64)
	if errors.Join(err1, err2, err3) != nil || offset < 0 || length <= 0 || offset > math.MaxInt64-length {
		return IndexLine{}, false
	}
	return IndexLine{URL: l.URL, Digest: l.Digest, Date: date, MIME: l.MIME, Status: l.Status, Offset: offset, Length: length, File: l.Filename}, true
}

// Extents returns the extents of the records of an index, in order; nil if the lines are
// inconsistent, as records would overlap.
func Extents(lines []IndexLine) []Extent {
	list := make([]Extent, len(lines))
	for i := range lines {
		list[i] = Extent{lines[i].Offset, lines[i].Length}
	}
	slices.SortFunc(list, func(a, b Extent) int { return cmp.Compare(a.Offset, b.Offset) })
	for i := 1; i < len(list); i++ {
		if list[i-1].Offset+list[i-1].Length > list[i].Offset {
			return nil
		}
	}
	return list
}

// SURT returns the sort key of a URL in an index: the host starts with its top-level domain, so
// that a domain with all its hosts is one range. http://www.Example.com:8080/a?y=2&x=1 becomes
// com,example:8080)/a?x=1&y=2. By convention it drops scheme, a leading www, letter case and the
// order of the query. URLs other than http and https are their own keys.
func SURT(url string) string {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok || (scheme != "http" && scheme != "https") {
		return url
	}
	rest = strings.ToLower(rest)
	rest, _, _ = strings.Cut(rest, "#")
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	authority, path := rest[:end], rest[end:]
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		authority = authority[at+1:]
	}
	path, query, hasQuery := strings.Cut(path, "?")
	if path == "" {
		path = "/"
	}
	var b strings.Builder
	b.Grow(len(rest) + 2)
	writeHost(&b, authority)
	b.WriteString(")" + path)
	if hasQuery && query != "" {
		params := strings.Split(query, "&")
		slices.Sort(params)
		b.WriteString("?" + strings.Join(params, "&"))
	}
	return b.String()
}

// writeHost writes the labels of a host in reverse, then its port. An IPv6 address is unchanged.
func writeHost(b *strings.Builder, authority string) {
	host, port := authority, ""
	if i := strings.LastIndexByte(authority, ':'); i > strings.LastIndexByte(authority, ']') {
		host, port = authority[:i], authority[i:]
	}
	host = withoutWWW(host)
	if strings.HasPrefix(host, "[") {
		b.WriteString(host + port)
		return
	}
	for {
		i := strings.LastIndexByte(host, '.')
		b.WriteString(host[i+1:])
		if i < 0 {
			break
		}
		b.WriteByte(',')
		host = host[:i]
	}
	b.WriteString(port)
}

// withoutWWW drops a first label of www and digits.
func withoutWWW(host string) string {
	rest, ok := strings.CutPrefix(host, "www")
	if !ok {
		return host
	}
	rest = strings.TrimLeft(rest, "0123456789")
	if rest, ok = strings.CutPrefix(rest, "."); ok && rest != "" {
		return rest
	}
	return host
}

const (
	indexSuffix = ".cdxj"
	openSuffix  = ".open"
	tempSuffix  = ".tmp"
	timeInName  = "20060102150405"
)

// form has the file name suffix and the magic bytes of a compression.
type form struct {
	compression   Compression
	suffix, magic string
}

var forms = []form{
	{Gzip, ".warc.gz", "\x1f\x8b\x08"},
	{Zstd, ".warc.zst", "\x28\xb5\x2f\xfd"},
	{None, ".warc", "WARC/1."},
}

// form returns that of None for an unknown compression.
func (c Compression) form() form {
	for _, f := range forms {
		if f.compression == c {
			return f
		}
	}
	return forms[len(forms)-1]
}

// Suffix returns the suffix of the names of files with that compression.
func (c Compression) Suffix() string { return c.form().suffix }

// CutName removes the suffix from the name of an archive file, finished or open, and returns its
// compression. ok is false for other names.
func CutName(name string) (base string, c Compression, ok bool) {
	name = strings.TrimSuffix(name, openSuffix)
	for _, f := range forms {
		if base, ok := strings.CutSuffix(name, f.suffix); ok {
			return base, f.compression, true
		}
	}
	return name, "", false
}

// IndexName returns the name of the index of an archive file.
func IndexName(name string) string {
	base, _, _ := CutName(name)
	return base + indexSuffix
}
