package export

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/export/extsort"
	"github.com/apoidea/apoidea/node/ops/export/table"
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

// tables makes the tables of a Parquet export. Rows of URLs come from the indexes of archives, so no
// archive is transferred, and from the URLs without a record. They are sorted by job, subset, SURT
// key and time.
type tables struct {
	e     *exporter
	rows  *extsort.Sorter
	hosts *extsort.Sorter // parts of hosts, since those of a host are not adjacent in rows
	links *table.Writer[table.Link]
	files []tableFile
	line  []byte
}

// tableFile is where archived rows lie.
type tableFile struct{ peer, name string }

func newTables(e *exporter) *tables {
	dir := e.work.dir
	return &tables{
		e: e, rows: extsort.New(dir), hosts: extsort.New(dir), links: table.NewWriter[table.Link](path.Join(e.work.output(), TableLinks), ""),
	}
}

func (t *tables) close() error { return errors.Join(t.rows.Close(), t.hosts.Close()) }

func (t *tables) wants(name string) bool { return slices.Contains(t.e.Tables, name) }

// file reads the index of an archive file, or the file if its index is missing or damaged, and the
// links if they are wanted.
func (t *tables) file(ctx context.Context, s *source) error {
	if t.wants(TableLinks) {
		if err := t.e.records(ctx, s, &keepLinks{e: t.e, sink: t.link}); err != nil {
			return err
		}
		s.offset = 0
	}
	if !t.wants(TableURLs) && !t.wants(TableHosts) {
		return nil
	}
	t.files = append(t.files, tableFile{s.peer, s.file.Name})
	at := len(t.files)
	lines, err := t.index(ctx, s)
	if err != nil {
		return err
	}
	for i := range lines {
		if l := &lines[i]; t.e.selects(l) {
			if err := t.archived(l, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// archived adds the row of a record.
func (t *tables) archived(l *warc.IndexLine, file int) error {
	var u table.URL
	u.SetURL(l.URL, nil)
	u.SetIndexed(l, " ", " ")
	if l.Offset > math.MaxInt32 || l.Length > math.MaxInt32 {
		u.Offset, u.Length = 0, 0 // files of other programs; null says that the place is not known
	}
	u.Job, u.Outcome, u.Via, u.HopPath, u.Seed = l.Job, l.Outcome, l.Via, l.HopPath, l.Seed
	u.Charset, u.Redirect, u.Truncated, u.FetchMs = l.Charset, l.Redirect, l.Truncated, l.FetchMs
	return t.add(&u, file)
}

// unarchived adds the row of a URL without a record.
func (t *tables) unarchived(l *control.URLLine) error {
	var u table.URL
	u.SetURL(l.URL, nil)
	u.Job, u.Outcome, u.Redirect, u.MIME = l.Job, l.Outcome, l.Redirect, l.MIME
	u.Via, u.HopPath, u.Seed = l.Via, l.HopPath, l.Seed
	if at, err := time.Parse(time.RFC3339, l.Fetched); err == nil {
		u.Fetched = at.UnixMilli()
	}
	return t.add(&u, 0)
}

// add adds a row: its sort key, then its values. File is the number of its archive file, 0 without.
func (t *tables) add(u *table.URL, file int) error {
	key := strings.ReplaceAll(warc.SURT(u.URL), "\x00", "%00")
	b := append(t.line[:0], u.Job...)
	b = append(b, 0, u.SubsetOrder())
	b = append(append(b, key...), 0)
	b = binary.BigEndian.AppendUint64(b, uint64(max(u.Fetched, 0))) // not negative
	b = binary.AppendUvarint(b, uint64(file))                      // not negative
	for _, n := range []int32{int32(u.Status), u.Offset, u.Length, u.FetchMs} {
		b = binary.AppendVarint(b, int64(n))
	}
	for _, s := range rowStrings(u) {
		b = append(binary.AppendUvarint(b, uint64(len(*s))), *s...)
	}
	t.line = b
	return t.rows.Add(b)
}

// rowStrings are the text columns that a line of the sorter has.
func rowStrings(u *table.URL) [11]*string {
	return [...]*string{&u.URL, &u.MIME, &u.SHA256, &u.Charset, &u.Redirect, &u.Truncated, &u.Outcome, &u.Via, &u.HopPath, &u.Seed, &u.Languages}
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
	status, offset, length, ms := number(binary.Varint), number(binary.Varint), number(binary.Varint), number(binary.Varint)
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
	u.Status, u.Offset, u.Length, u.FetchMs = int16(status), int32(offset), int32(length), int32(ms) // as written
	if file > 0 && int(file) <= len(t.files) {
		f := t.files[file-1]
		u.File, u.Segment, u.Peer = f.name, f.peer, f.peer
	}
	if u.Via != "" || u.HopPath != "" || u.Seed != "" {
		u.SetHopPath(u.HopPath)
	}
	return u, err
}

// assemble writes the tables.
func (t *tables) assemble(ctx context.Context) error {
	e, dir := t.e, t.e.work.output()
	urls := table.NewWriter[table.URL](dir, "url_surtkey")
	var before table.URL
	var host table.Host
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
		e.work.records++
		e.reportProgress("writing")
		return urls.Write(fmt.Sprintf("crawl=%s/subset=%s", cmpJob(u.Job), u.Subset()), &u)
	})
	hosts := table.NewWriter[table.Host](path.Join(dir, TableHosts), "")
	if t.wants(TableHosts) && err == nil {
		err = errors.Join(t.partOf(&host), t.writeHosts(ctx, hosts))
	}
	err = errors.Join(err, urls.Close(), hosts.Close(), t.links.Close())
	e.report.Tables = map[string]int64{TableURLs: urls.Rows, TableHosts: hosts.Rows, TableLinks: t.links.Rows}
	e.work.count.n = urls.Bytes + hosts.Bytes + t.links.Bytes
	return err
}

// cmpJob is the name of a job's partition.
func cmpJob(job string) string {
	if job == "" {
		return none
	}
	return job
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
	return t.links.Write("", &table.Link{From: l.From, To: l.To, FromHost: link.Host(l.From), ToHost: link.Host(l.To), Kind: l.Kind})
}
