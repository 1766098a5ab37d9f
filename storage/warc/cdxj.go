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
	"unicode/utf8"
)

const (
	// MIMERevisit is the MIME type of a revisit in an index.
	MIMERevisit = "warc/revisit"
	// NoDigest is the digest in an index of a record without a payload digest, as pywb writes it.
	NoDigest = "-"
	// maxIndexLine is the maximum length of a line that is read, in bytes.
	maxIndexLine = 1 << 20
)

// entryOf returns the index entry of an exchange.
func entryOf(x *Exchange, date time.Time) Entry {
	e := Entry{
		URL: x.URL, Digest: "sha256:" + hex.EncodeToString(x.PayloadDigest[:]), Date: date, MIME: MIMERevisit,
		Status: statusOf(x.ResponseHead), Provenance: provenanceOf(x.Fields),
	}
	if x.NotModified {
		e.Digest = NoDigest
	}
	e.Details = detailsOf(x.ResponseHead)
	if x.RevisitOf == nil {
		e.MIME, e.Truncated = mimeOf(x.ResponseHead), x.Truncated
	}
	return e
}

// appendStart appends the CDXJ line up to the value of offset, which is only known when the member
// is appended to a file: a SURT key, a 14-digit time, then a JSON object. length is that of the
// member, in bytes.
func (e *Entry) appendStart(dst []byte, length int64) []byte {
	dst = append(dst, SURT(e.URL)...)
	dst = append(dst, ' ')
	dst = e.Date.UTC().AppendFormat(dst, timeInName)
	dst = append(dst, ` {"url": `...)
	dst = appendJSON(dst, e.URL)
	dst = append(dst, `, "mime": `...)
	dst = appendJSON(dst, e.MIME)
	dst = append(dst, `, "status": `...)
	dst = appendJSON(dst, e.Status)
	dst = append(dst, `, "digest": `...)
	dst = appendJSON(dst, e.Digest)
	dst = append(dst, `, "length": "`...)
	dst = strconv.AppendInt(dst, length, 10)
	return append(dst, `", "offset": "`...)
}

// appendPlace appends the offset and the file name after appendStart.
func appendPlace(dst []byte, offset int64, file string) []byte {
	dst = strconv.AppendInt(dst, offset, 10)
	dst = append(dst, `", "filename": `...)
	return appendJSON(dst, file)
}

// appendEnd completes the line after appendPlace.
func (e *Entry) appendEnd(dst []byte) []byte {
	add := func(key, value string) {
		if value != "" {
			dst = append(dst, `, "`...)
			dst = append(dst, key...)
			dst = append(dst, `": `...)
			dst = appendJSON(dst, value)
		}
	}
	add("charset", e.Charset)
	add("redirect", e.Redirect)
	add("truncated", e.Truncated)
	for _, f := range e.fields() {
		add(f.key, *f.value)
	}
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
	var index Indexer
	records := NewReader(r, false)
	for {
		rec, err := records.Next()
		if errors.Is(err, io.EOF) {
			return index.Lines(), nil
		}
		if err == nil {
			var e *Entry
			if e, err = index.Read(rec, nil); err == nil && e != nil {
				index.Add(e, name, rec.Offset, rec.Length)
				if found != nil && rec.Type == TypeResponse && rec.Get("WARC-Truncated") == "" {
					found(*e, Ref{File: name, Offset: rec.Offset})
				}
			}
		}
		if err != nil {
			return index.Lines(), fmt.Errorf("%s: %w", name, err)
		}
	}
}

// Entry is the index entry of a response or revisit.
type Entry struct {
	URL, Digest  string    // of the page, and of its body as sha256: and hex; or NoDigest
	Date         time.Time // of the record
	MIME, Status string    // MIME has no parameters; "warc/revisit" for a revisit
	RecordID     string    // without angle brackets
	Details                // of the head of the response
	Provenance             // of the metadata record
}

// Details are further properties of a response in an index, with the names of Common Crawl.
type Details struct {
	Charset   string // parameter of the Content-Type, in lower case
	Redirect  string // Location of a redirect, as sent
	Truncated string // as in Exchange; empty for a revisit
}

// entry returns the index entry of a response or revisit, and reads the record to its end. It calls
// look, unless nil, before; it may read from the body of a response.
func (r *Record) entry(look func(head []byte, body io.Reader)) (*Entry, error) {
	head, err := r.HTTPHead()
	if err != nil {
		return nil, err
	}
	e := &Entry{URL: r.TargetURI, Digest: r.Get("WARC-Payload-Digest"), Date: r.Date, MIME: MIMERevisit, Status: statusOf(head), RecordID: r.ID, Details: detailsOf(head)}
	if r.Type == TypeRevisit && e.Digest == "" {
		e.Digest = NoDigest
	}
	if r.Type == TypeResponse {
		e.MIME, e.Truncated = mimeOf(head), r.Get("WARC-Truncated")
		if look != nil {
			look(head, r)
		}
	}
	return e, r.Skip()
}

// Indexer makes the index lines of records that are read in their order. The line of an exchange is
// complete when the next exchange is added, because its metadata record follows its response.
type Indexer struct {
	lines  []byte
	last   Entry // added, not yet in lines
	file   string
	offset int64
	length int64 // 0: no entry
}

// Read reads a record to its end. It returns the entry of a response or revisit, nil for other
// records. look, unless nil, receives the head and the body of a response, which it may read.
func (x *Indexer) Read(r *Record, look func(head []byte, body io.Reader)) (*Entry, error) {
	switch {
	case r.Type == TypeResponse || r.Type == TypeRevisit:
		return r.entry(look)
	case r.Type == TypeMetadata && x.length > 0 && r.ConcurrentTo() == x.last.RecordID:
		p, err := r.Provenance()
		if err == nil {
			err = r.Skip()
		}
		if err != nil {
			return nil, err
		}
		x.last.Provenance = p
	}
	return nil, r.Skip()
}

// Add adds the entry of a record of length bytes at an offset of a file.
func (x *Indexer) Add(e *Entry, file string, offset, length int64) {
	x.flush()
	x.last, x.file, x.offset, x.length = *e, file, offset, length
}

func (x *Indexer) flush() {
	if x.length > 0 {
		x.lines = appendPlace(x.last.appendStart(x.lines, x.length), x.offset, x.file)
		x.lines, x.length = x.last.appendEnd(x.lines), 0
	}
}

// Complete returns the complete lines and forgets them. They are valid until the next call of Add.
func (x *Indexer) Complete() []byte {
	lines := x.lines
	x.lines = x.lines[:0]
	return lines
}

// Lines returns all lines, also that of the last exchange.
func (x *Indexer) Lines() []byte {
	x.flush()
	return x.lines
}

// IndexLine is a parsed line of an index.
type IndexLine struct {
	URL, Digest    string    // as in Entry
	Date           time.Time // to the second
	MIME, Status   string    // as in Entry
	Offset, Length int64     // bytes in File, as stored
	File           string    // name without directory
	Key            string    // sort key; in lines of earlier versions not SURT(URL)
	Details                  // empty in lines of earlier versions
	Provenance               // also
}

// ParseIndex reads an index. It returns the valid lines, and an error if there are others.
func ParseIndex(r io.Reader) (lines []IndexLine, err error) {
	err = ScanIndex(r, func(l *IndexLine) error {
		lines = append(lines, *l)
		return nil
	})
	return lines, err
}

// ScanIndex calls each for the valid lines of an index, and returns an error if there are others.
// It ends with the first error of each.
func ScanIndex(r io.Reader, each func(l *IndexLine) error) error {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, maxIndexLine)
	bad := 0
	for scanner.Scan() {
		if l, ok := parseLine(scanner.Text()); !ok {
			bad++
		} else if err := each(&l); err != nil {
			return err
		}
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("index: %w", err)
	}
	if bad > 0 {
		return fmt.Errorf("index: %w: %d invalid lines", ErrFormat, bad)
	}
	return nil
}

// lineObject has the values of the JSON object of a line, by lineKeys.
type lineObject [20]string

var lineKeys = map[string]int{
	"url": 0, "mime": 1, "status": 2, "digest": 3, "length": 4, "offset": 5, "filename": 6, "job": 7, "outcome": 8, "via": 9, "hops": 10, "seed": 11,
	"charset": 12, "redirect": 13, "truncated": 14, "ms": 15, "depth": 16,
	"visit": 17, "change": 18, "before": 19,
}

// unmarshal reads any object; values that are not strings are left out.
func (o *lineObject) unmarshal(s string) error {
	var object map[string]any
	err := json.Unmarshal([]byte(s), &object)
	for key, i := range lineKeys {
		o[i], _ = object[key].(string)
	}
	return err
}

// scan reads an object of the known keys and of strings without escapes, as AppendLine writes
// nearly all. It returns false for others, which encoding/json reads, in four times the time.
func (o *lineObject) scan(s string) bool {
	ascii := true
	for i := range len(s) {
		if s[i] < ' ' || s[i] == '\\' {
			return false
		}
		ascii = ascii && s[i] < utf8.RuneSelf
	}
	if !ascii && !utf8.ValidString(s) {
		return false
	}
	for i, expected := 0, byte('{'); i < len(s); {
		if s[i] != expected {
			return s[i:] == "}" && expected == ','
		}
		key, next, ok := quoted(s, i+1)
		if !ok || next == len(s) || s[next] != ':' {
			return false
		}
		value, next, ok := quoted(s, next+1)
		field, known := lineKeys[key]
		if !ok || !known {
			return false
		}
		o[field], i, expected = value, next, ','
	}
	return false
}

// quoted returns the string in quotes at an index of s, behind spaces, and the index after it.
func quoted(s string, i int) (value string, next int, ok bool) {
	for i < len(s) && s[i] == ' ' {
		i++
	}
	if i == len(s) || s[i] != '"' {
		return "", 0, false
	}
	end := strings.IndexByte(s[i+1:], '"')
	return s[i+1 : i+1+max(end, 0)], i + end + 2, end >= 0
}

// parseLine accepts any key: earlier versions and other programs have others for a URL.
func parseLine(line string) (IndexLine, bool) {
	key, rest, _ := strings.Cut(line, " ")
	at, object, _ := strings.Cut(rest, " ")
	var o lineObject
	if key == "" || !o.scan(object) {
		if key == "" || o.unmarshal(object) != nil {
			return IndexLine{}, false
		}
	}
	date, err1 := time.Parse(timeInName, at)
	length, err2 := strconv.ParseInt(o[4], 10, 64)
	offset, err3 := strconv.ParseInt(o[5], 10, 64)
	if err1 != nil || err2 != nil || err3 != nil || o[0] == "" || offset < 0 || length <= 0 || offset > math.MaxInt64-length {
		return IndexLine{}, false
	}
	return IndexLine{
		URL: o[0], MIME: o[1], Status: o[2], Digest: o[3], Date: date, Offset: offset, Length: length, File: o[6], Key: key,
		Details:    Details{Charset: o[12], Redirect: o[13], Truncated: o[14]},
		Provenance: Provenance{Job: o[7], Outcome: o[8], Via: o[9], HopPath: o[10], Seed: o[11], FetchMs: o[15], Depth: o[16], Visit: o[17], Change: o[18], Before: o[19]},
	}, true
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
