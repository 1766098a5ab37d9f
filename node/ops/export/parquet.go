package export

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/export/extsort"
	"github.com/apoidea/apoidea/node/ops/export/table"
	"github.com/apoidea/apoidea/node/services/crawling"
	"github.com/apoidea/apoidea/storage/warc"
)

// The tables of a Parquet export.
const (
	TableURLs  = "urls"
	TableLinks = "links"
	TableHosts = "hosts"
)

// Tables lists them.
func Tables() []string { return []string{TableURLs, TableLinks, TableHosts} }

// checkTables returns a usage error for options that do not fit together.
func (o *Options) checkTables() error {
	switch {
	case o.What != Parquet && len(o.Tables) > 0:
		return control.Usage("--tables is for export " + Parquet)
	case o.What != Parquet:
		return nil
	case o.Output == "":
		return control.Usage("export parquet writes a directory: name it with -o DIR")
	case len(o.Tables) == 0:
		o.Tables = Tables()[:1]
	}
	for _, name := range o.Tables {
		if !slices.Contains(Tables(), name) {
			return control.Usage(fmt.Sprintf("--tables %q: must be some of %s", name, strings.Join(Tables(), ",")))
		}
	}
	return nil
}

// tables makes the tables of a Parquet export. Rows of URLs come from the indexes of archives, so
// no archive is transferred, and from the URLs without a record. They are sorted by job, subset,
// SURT key and time.
type tables struct {
	e     *exporter
	rows  *extsort.Sorter
	hosts *extsort.Sorter // parts of hosts, since those of a host are not adjacent in rows
	// alone has the rows of outcomes without a record, by job and URL, each behind the mark of an
	// archived answer that has the same: owners do not know the records of redirects and errors.
	alone *extsort.Sorter
	links *table.Writer[table.Link]
	files []*source // of the archived rows
	line  []byte
}

func newTables(e *exporter) *tables {
	dir := e.work.dir
	return &tables{
		e: e, rows: extsort.New(dir), hosts: extsort.New(dir), alone: extsort.New(dir), links: table.NewWriter[table.Link](path.Join(e.work.output(), TableLinks), ""),
	}
}

func (t *tables) close() error { return errors.Join(t.rows.Close(), t.hosts.Close(), t.alone.Close()) }

func (t *tables) wants(name string) bool { return slices.Contains(t.e.Tables, name) }

// wantsRows reports whether the rows of URLs are needed.
func (t *tables) wantsRows() bool { return t.wants(TableURLs) || t.wants(TableHosts) }

// file reads the index of an archive file, or the file if its index is missing or damaged, and the
// links if they are wanted.
func (t *tables) file(ctx context.Context, s *source) error {
	moved := strings.HasSuffix(s.file.Name, warc.MovedIndex) // of a file elsewhere, which has no links here
	if t.wants(TableLinks) && !moved {
		if err := t.e.records(ctx, s, &keepLinks{e: t.e, sink: t.link}); err != nil {
			return err
		}
		s.offset = 0
	}
	if !t.wantsRows() {
		return nil
	}
	t.files = append(t.files, s)
	return t.e.index(ctx, s, t.archived)
}

// archived adds the row of a record of the last file, if the filter selects it.
func (t *tables) archived(l *warc.IndexLine) error {
	if unchanged := l.MIME == warc.MIMERevisit && l.Status == "304"; !unchanged && (l.Status < "200" || l.Status > "299") {
		u := table.URL{URL: withoutNUL(l.URL), Job: jobID(l.Job)}
		if err := t.alone.Add(append(aloneKey(&u), markArchived)); err != nil {
			return err
		}
	}
	if !t.e.all {
		if subject := SubjectOfLine(l); !t.e.Filter.Match(&subject) {
			return nil
		}
	}
	t.e.matched++
	f := t.files[len(t.files)-1]
	if strings.HasSuffix(f.file.Name, warc.MovedIndex) {
		f.file.Name = l.File
	}
	u := table.URL{URL: withoutNUL(l.URL), Job: jobID(l.Job), Outcome: l.Outcome, Via: l.Via, HopPath: l.HopPath, Seed: l.Seed, Charset: l.Charset, Truncated: l.Truncated, Change: l.Change}
	u.SetIndexed(l, f.file.Name, f.peer)
	if l.Offset > math.MaxInt32 || l.Length > math.MaxInt32 {
		u.Offset, u.Length = 0, 0 // files of other programs; null means that the place is unknown
	}
	if ms, err := strconv.ParseInt(l.FetchMs, 10, 32); err == nil {
		u.FetchMs = int32(ms)
	}
	if visit, err := strconv.ParseInt(l.Visit, 10, 32); err == nil && visit >= 0 {
		u.Visit = int32(visit)
	}
	if depth, err := strconv.ParseInt(l.Depth, 10, 32); err == nil && depth >= 0 {
		n := int32(depth)
		u.Depth = &n
	}
	if l.Redirect != "" {
		u.Redirect = crawling.Target(l.URL, l.Redirect)
	}
	key := l.Key
	if l.Job == "" { // of an earlier version, whose keys differ, or of another program
		key = warc.SURT(l.URL)
	}
	return t.add(t.rows, nil, &u, key, len(t.files))
}

// Marks behind the key of a line of alone.
const (
	markArchived = iota
	markAlone
)

func aloneKey(u *table.URL) []byte { return []byte(u.Job + "\x00" + u.URL + "\x00") }

// admit adds the rows of outcomes that no record has.
func (t *tables) admit(ctx context.Context) error {
	var archived []byte
	return t.alone.Each(ctx, func(line []byte) error {
		job := bytes.IndexByte(line, 0) + 1
		end := job + bytes.IndexByte(line[job:], 0) + 1
		key, mark, row := line[:end], line[end], line[end+1:]
		switch {
		case mark == markArchived:
			archived = append(archived[:0], key...)
			return nil
		case bytes.Equal(key, archived):
			t.e.work.records--
			return nil
		}
		return t.rows.Add(row)
	})
}

// unarchived adds the row of a URL without a record.
func (t *tables) unarchived(l *control.URLLine) error {
	u := table.URL{
		URL: withoutNUL(l.URL), Job: jobID(l.Job), Outcome: l.Outcome, Redirect: l.Redirect, MIME: l.MIME, Status: int16(l.Status), // three digits
		Via: l.Via, HopPath: l.HopPath, Seed: l.Seed,
	}
	depth := int32(min(l.Depth, math.MaxInt32))
	u.Depth = &depth
	if at, err := time.Parse(time.RFC3339, l.Fetched); err == nil {
		u.Fetched = at.UnixMilli()
	}
	return t.add(t.alone, append(aloneKey(&u), markAlone), &u, warc.SURT(u.URL), 0)
}

// withoutNUL replaces the byte that ends a part of a line. Canonical URLs do not have it, but what
// a peer sends may.
func withoutNUL(s string) string { return strings.ReplaceAll(s, "\x00", "%00") }

// jobID returns an ID that a peer sent, which becomes a name of a directory; empty if it is none.
func jobID(s string) string {
	if len(s) != 32 || strings.Trim(s, "0123456789abcdef") != "" {
		return ""
	}
	return s
}

// add adds a row with its SURT key to a sorter, behind a prefix. File is the number of its archive
// file, 0 without.
func (t *tables) add(to *extsort.Sorter, prefix []byte, u *table.URL, key string, file int) error {
	t.e.work.records++
	key = withoutNUL(key)
	b := append(append(t.line[:0], prefix...), u.Job...)
	b = append(b, 0, u.SubsetOrder())
	b = append(append(b, key...), 0)
	b = binary.BigEndian.AppendUint64(b, uint64(max(u.Fetched, 0))) // not negative
	b = binary.AppendUvarint(b, uint64(file))                       // not negative
	depth := int32(-1)                                              // null
	if u.Depth != nil {
		depth = *u.Depth
	}
	for _, n := range [...]int32{int32(u.Status), u.Offset, u.Length, u.FetchMs, u.Visit, depth} {
		b = binary.AppendVarint(b, int64(n))
	}
	for _, s := range rowStrings(u) {
		b = append(binary.AppendUvarint(b, uint64(len(*s))), *s...)
	}
	t.line = b
	return to.Add(b)
}

// rowStrings are the text columns that a line of the sorter has.
func rowStrings(u *table.URL) [12]*string {
	return [...]*string{&u.URL, &u.MIME, &u.SHA256, &u.Charset, &u.Redirect, &u.Truncated, &u.Outcome, &u.Via, &u.HopPath, &u.Seed, &u.Languages, &u.Change}
}

// row reads a line of the sorter; before is the row before it, if any.
func (t *tables) row(line []byte, before *table.URL) (u table.URL, err error) {
	s := string(line) // one allocation for all columns
	job, s, _ := strings.Cut(s, "\x00")
	key, s, ok := strings.Cut(s[min(1, len(s)):], "\x00")
	if !ok || len(s) < 8 {
		return u, errors.New("row without a key")
	}
	fetched := int64(binary.BigEndian.Uint64([]byte(s[:8]))) // as written
	s = s[8:]
	number := func(read func([]byte) (int64, int)) int64 {
		v, n := read([]byte(s[:min(len(s), binary.MaxVarintLen64)]))
		if n <= 0 {
			err = errors.New("row without a number")
			return 0
		}
		s = s[n:]
		return v
	}
	size := func(b []byte) (int64, int) {
		v, n := binary.Uvarint(b)
		return int64(min(v, math.MaxInt32)), n
	}
	file := number(size)
	status, offset, length := number(binary.Varint), number(binary.Varint), number(binary.Varint)
	ms, visit := number(binary.Varint), number(binary.Varint)
	if depth := int32(number(binary.Varint)); depth >= 0 { // as written
		u.Depth = &depth
	}
	for i, to := range rowStrings(&u) {
		n := int(number(size))
		if err != nil || n > len(s) {
			return u, errors.New("row without a text")
		}
		*to, s = s[:n], s[n:]
		if i == 0 {
			u.SetURL(u.URL, before)
		}
	}
	u.SURT, u.Job, u.Fetched = key, job, fetched
	u.Status, u.Offset, u.Length, u.FetchMs, u.Visit = int16(status), int32(offset), int32(length), int32(ms), int32(visit) // as written
	if file > 0 && int(file) <= len(t.files) {
		f := t.files[file-1]
		u.File, u.Segment, u.Peer = f.file.Name, f.peer, f.peer
	}
	return u, err
}

// assemble writes the tables.
func (t *tables) assemble(ctx context.Context) error {
	e, dir := t.e, t.e.work.output()
	urls := table.NewWriter[table.URL](dir, "url_surtkey")
	var before table.URL
	var host table.Host
	if err := t.admit(ctx); err != nil {
		return err
	}
	err := t.rows.Each(ctx, func(line []byte) error {
		u, err := t.row(line, &before)
		if err != nil {
			return err
		}
		if t.wants(TableHosts) && (u.Host != before.Host || u.Job != before.Job || u.Port != before.Port) {
			if err := t.partOf(&host); err != nil {
				return err
			}
			host = table.Host{Host: u.Host, RegisteredDomain: u.RegisteredName, Job: u.Job}
		}
		host.Add(&u)
		before = u
		if !t.wants(TableURLs) {
			return nil
		}
		if u.Status != 0 && u.File == "" {
			u.Status = 0 // Common Crawl's schema: a status has a record
		}
		e.reportProgress("writing")
		return urls.Write(fmt.Sprintf("crawl=%s/subset=%s", cmp.Or(u.Job, None), u.Subset()), &u)
	})
	hosts := table.NewWriter[table.Host](path.Join(dir, TableHosts), "")
	if t.wants(TableHosts) && err == nil {
		err = errors.Join(t.partOf(&host), t.writeHosts(ctx, hosts))
	}
	err = errors.Join(err, urls.Close(), hosts.Close(), t.links.Close())
	e.report.Tables = map[string]int64{TableURLs: urls.Rows, TableHosts: hosts.Rows, TableLinks: t.links.Rows}
	e.work.count.N = urls.Bytes + hosts.Bytes + t.links.Bytes
	return err
}

// partOf adds a part of a host.
func (t *tables) partOf(h *table.Host) error {
	if h.URLs == 0 {
		return nil
	}
	raw, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return t.hosts.Add(append([]byte(h.Job+"\x00"+h.Host+"\x00"), raw...))
}

// writeHosts merges the parts of hosts.
func (t *tables) writeHosts(ctx context.Context, w *table.Writer[table.Host]) error {
	var sum table.Host
	write := func() error {
		if sum.URLs == 0 {
			return nil
		}
		return w.Write("", &sum)
	}
	err := t.hosts.Each(ctx, func(line []byte) error {
		var part table.Host
		if err := json.Unmarshal(line[strings.LastIndexByte(string(line), 0)+1:], &part); err != nil {
			return err
		}
		if part.Host != sum.Host || part.Job != sum.Job {
			if err := write(); err != nil {
				return err
			}
			sum = table.Host{Host: part.Host, RegisteredDomain: part.RegisteredDomain, Job: part.Job}
		}
		sum.Merge(&part)
		return nil
	})
	return errors.Join(err, write())
}

// link writes a row of the table of links.
func (t *tables) link(l Link) error {
	if !t.wantsRows() {
		t.e.work.records++
	}
	return t.links.Write("", &table.Link{From: l.From, To: l.To, FromHost: link.Host(l.From), ToHost: link.Host(l.To), Kind: l.Kind})
}
