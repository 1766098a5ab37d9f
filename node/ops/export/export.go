package export

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/export/extsort"
	"github.com/apoidea/apoidea/storage/warc"
)

// The kinds of export.
const (
	WARC  = "warc"
	CDXJ  = "cdxj"
	Links = "links"
	URLs  = "urls"
	// CrawlLog has the lines of Heritrix' crawl.log.
	CrawlLog = "crawllog"
	WACZ     = "wacz"
	// Parquet is a directory of tables.
	Parquet = "parquet"
	// TextLines and WET are the text of pages, as lines of JSON and as WARC conversion records.
	TextLines = "text"
	WET       = "wet"
	// Changes has what visits after the first fetch found.
	Changes = "changes"
)

// Kinds lists them.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds)) }

// Options configure an export.
type Options struct {
	What string // one of Kinds
	// Ring includes all members of the ring and their workers; otherwise only this peer.
	Ring bool
	// Filter selects what is exported.
	Filter Filter
	// JSON, of links, writes one document per line instead of CSV.
	JSON bool
	// Tables are those of a Parquet export; empty means the first of Tables.
	Tables []string
	// NoMainText leaves the main text out of a TextLines export, which takes most of its time.
	NoMainText bool
	// All includes the visits that found no change in Changes.
	All bool
	// Output is the file to create, a directory for Parquet. If empty, Stream is written.
	Output string
	Stream io.Writer // used without an Output
	// Force replaces an existing Output.
	Force bool
	// Of is, for cdxj, the name of the WARC file in the lines: that of export warc with the same
	// records.
	Of string
	// Software is the name of the program, for WACZ and WET.
	Software string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Progress, if not nil, is called periodically.
	Progress func(Progress)
}

// Progress is the progress of an export.
type Progress struct {
	Files      int    `json:"files"`       // archive files read to their end
	FilesTotal int    `json:"files_total"` // archive files to be read
	Records    int64  `json:"records"`     // written so far
	BytesRead  int64  `json:"bytes_read"`  // of archive files
	Doing      string `json:"doing"`       // the current step, for people
}

// Report is the result of an export.
type Report struct {
	What   string `json:"what"`             // one of Kinds
	Output string `json:"output,omitempty"` // created file; empty for a stream
	// Filter is that of the export; the other fields count only what it selects.
	Filter *Filter `json:"filter,omitempty"`
	// Bytes of the output.
	Bytes int64 `json:"bytes"`
	// Records written: of the archive, lines of an index, links, or URLs.
	Records int64 `json:"records"`
	// Tables are the rows of each table of a Parquet export; Records are those of the first.
	Tables map[string]int64 `json:"tables,omitempty"`
	Peers  int              `json:"peers"` // peers that responded
	Files  int              `json:"files"` // archive files to read
	// Complete reports that nothing is missing or corrupt.
	Complete bool              `json:"complete"`
	Missing  []control.Missing `json:"missing"` // peers and files that could not be read
	Damaged  []Damage          `json:"damaged"` // skipped parts of files
	// Lost are the first of LostTotal records that have an outcome and are in no archive file, without
	// those in Damaged.
	Lost      []Lost `json:"lost,omitempty"`
	LostTotal int64  `json:"lost_total,omitempty"` // number of lost records
	Moved     int64  `json:"moved,omitempty"`      // records in files that were moved to other storage
	// Revisits are the records without a body that a text export leaves out.
	Revisits int64 `json:"revisits,omitempty"`
	// Skipped are the first of SkippedTotal pages without a text, or without a main text.
	Skipped      []Skipped `json:"skipped,omitempty"`
	SkippedTotal int64     `json:"skipped_total,omitempty"`
	ElapsedS     float64   `json:"elapsed_s"` // duration in seconds
}

// Damage is a skipped part of an archive file: a record with a wrong digest, or bytes without a
// readable record.
type Damage struct {
	Peer   string `json:"peer"`   // ID of the peer that has the file
	File   string `json:"file"`   // name without directory
	Offset int64  `json:"offset"` // start in bytes
	// Bytes is the length of the part; 0: to the end of the file.
	Bytes int64  `json:"bytes,omitempty"`
	Error string `json:"error"` // the reason
	// URLs are the first URLs with records in the part.
	URLs []string `json:"urls,omitempty"`
	Lost int      `json:"lost,omitempty"` // known number of records in the part
}

// namedAtOnce limits the URLs of one Damage.
const namedAtOnce = 1000

// name sets the URLs of a part.
func (d *Damage) name(lines []warc.IndexLine) {
	for i := range lines {
		l := &lines[i]
		if l.Offset+l.Length <= d.Offset || d.Bytes > 0 && l.Offset >= d.Offset+d.Bytes {
			continue
		}
		if d.Lost++; len(d.URLs) < namedAtOnce {
			d.URLs = append(d.URLs, l.URL)
		}
	}
}

// String returns one line with the position and the URLs of the part.
func (d Damage) String() string {
	stretch := fmt.Sprintf("%d bytes at %d", d.Bytes, d.Offset)
	if d.Bytes == 0 {
		stretch = fmt.Sprintf("everything from byte %d", d.Offset)
	}
	text := fmt.Sprintf("%s: skipped %s: %s", d.File, stretch, d.Error)
	if d.Peer != "" {
		text = "peer " + d.Peer + ", " + text
	}
	return text + urlsText(d.URLs, d.Lost)
}

// urlsShown limits the URLs in a line for people.
const urlsShown = 10

func urlsText(urls []string, n int) string {
	if n == 0 {
		return ""
	}
	text := "; lost: " + strings.Join(urls[:min(len(urls), urlsShown)], " ")
	if n > urlsShown {
		text += fmt.Sprintf(" and %d more", n-urlsShown)
	}
	return text
}

// Run performs an export. The report lists what is missing from it. If nothing matches the filter
// there is no output, and the error is ErrEmpty; of pages without a change, changes are empty.
func Run(ctx context.Context, src control.Results, o Options) (*Report, error) {
	if !slices.Contains(Kinds(), o.What) {
		return nil, control.Usage(fmt.Sprintf("export %q: must be one of %s", o.What, strings.Join(Kinds(), ", ")))
	}
	if err := o.Filter.Check(); err != nil {
		return nil, err
	}
	if err := o.checkTables(); err != nil {
		return nil, err
	}
	if o.NoMainText && o.What != TextLines {
		return nil, control.Usage("--no-main-text is for export " + TextLines)
	}
	if o.All && o.What != Changes {
		return nil, control.Usage("--all is for export " + Changes)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Of = cmp.Or(o.Of, DefaultOf)
	w, err := openWork(&o)
	if err != nil {
		return nil, err
	}
	e := &exporter{Options: o, src: src, work: w, began: o.Now(), held: make(map[string]int64), report: &Report{What: o.What, Output: o.Output}}
	if e.all = o.Filter.Empty(); !e.all {
		e.report.Filter = &o.Filter
	}
	switch o.What {
	case Parquet:
		e.tables = newTables(e)
	case CrawlLog:
		e.log = &crawlLog{rows: extsort.New(w.dir)}
	}
	err = e.run(ctx)
	if e.tables != nil {
		err = errors.Join(err, e.tables.close())
	}
	return e.report, errors.Join(err, w.close())
}

// exporter is a running export.
type exporter struct {
	Options
	src    control.Results
	work   *work
	report *Report
	moved  []*source // indexes of files moved to other storage
	began  time.Time
	told   time.Time // time of the last progress report
	done   Progress

	all     bool  // the filter is empty
	matched int64 // records and URLs that the filter selected

	held    map[string]int64 // expected records by the peer that holds them
	indexed int64            // size of the WARC file of a CDXJ
	copies  []*source        // files in a WACZ
	tables  *tables          // of Parquet
	log     *crawlLog        // of CrawlLog
	main    *waczPage        // the earliest page
}

func (e *exporter) run(ctx context.Context) error {
	e.reportProgress("listing")
	found, err := e.src.Archives(ctx, e.Ring)
	if err != nil {
		return err
	}
	e.report.Peers = len(found.Peers)
	e.report.Missing = append([]control.Missing{}, found.Missing...)
	if err := e.expect(ctx, found); err != nil {
		return err
	}
	if err := e.gather(ctx, found); err != nil {
		return err
	}
	if e.Ring && !e.outcomes() {
		e.holders(found)
	}
	r := e.report
	r.Damaged = append([]Damage{}, e.work.damaged...)
	if err := e.lost(ctx); err != nil {
		return err
	}
	if !e.all && (e.matched == 0 || e.work.records == 0 && e.What != Changes) {
		return fmt.Errorf("export %s: %w %s", e.What, ErrEmpty, &e.Filter)
	}
	e.reportProgress("writing")
	if err := e.assemble(ctx); err != nil {
		return err
	}
	if err := e.work.publish(); err != nil {
		return err
	}
	r.Bytes, r.Records = e.work.count.N, e.work.records
	r.Complete = len(r.Missing)+len(r.Damaged) == 0 && r.LostTotal == 0
	r.ElapsedS = e.Now().Sub(e.began).Seconds()
	return nil
}

// outcomes reports whether the export is made of the outcomes of URLs alone.
func (e *exporter) outcomes() bool { return e.What == URLs || e.What == CrawlLog }

// gather reads all sources.
func (e *exporter) gather(ctx context.Context, found *control.Archives) error {
	if e.outcomes() {
		for _, p := range found.Peers {
			if p.Role == "worker" {
				continue
			}
			if err := e.urls(ctx, p.Peer); err != nil {
				return err
			}
		}
		return nil
	}
	if e.What == Links && !e.JSON {
		if _, err := e.work.out.WriteString("from,to,kind\n"); err != nil {
			return err
		}
	}
	for _, p := range found.Peers {
		e.done.FilesTotal += len(p.Files)
	}
	e.report.Files = e.done.FilesTotal
	for _, p := range found.Peers {
		for i := range p.Files {
			if err := e.file(ctx, &source{peer: p.Peer, file: p.Files[i]}); err != nil {
				return err
			}
			e.done.Files++
			e.reportProgress("reading")
		}
	}
	return nil
}

// file reads one archive file.
func (e *exporter) file(ctx context.Context, s *source) error {
	if strings.HasSuffix(s.file.Name, warc.MovedIndex) {
		e.report.Files--
		if e.What == Parquet || e.What == Changes {
			return kinds[e.What].file(ctx, e, s)
		}
		e.moved = append(e.moved, s)
		return nil
	}
	return kinds[e.What].file(ctx, e, s)
}

// holders reports missing peers that hold records of this ring's URLs.
func (e *exporter) holders(found *control.Archives) {
	there := make(map[string]bool)
	for _, p := range found.Peers {
		there[p.Peer] = true
	}
	for i := range e.report.Missing {
		m := &e.report.Missing[i]
		if m.File == "" && !there[m.Peer] {
			m.Records = e.held[m.Peer]
			there[m.Peer] = true
		}
	}
	ids := make([]string, 0, len(e.held))
	for id := range e.held {
		if !there[id] {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		e.report.Missing = append(e.report.Missing, control.Missing{Peer: id, Records: e.held[id], Error: "is not in the ring"})
	}
}

// writeSorted writes the sorted lines.
func (e *exporter) writeSorted(ctx context.Context, w *bufio.Writer) error {
	return e.work.lines.Each(ctx, func(line []byte) error {
		_, err := w.Write(line)
		return err
	})
}

// missing records a peer or file that could not be read.
func (e *exporter) missing(peer, file string, err error) {
	e.report.Missing = append(e.report.Missing, control.Missing{Peer: peer, File: file, Error: err.Error()})
}

// fatal returns errors that abort an export instead of making it incomplete: an interruption, or
// the loss of the local peer.
func fatal(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		return nil
	case control.KindOf(err) == control.KindNoPeer:
		return err
	default:
		return nil
	}
}

// tellEvery is the interval of progress reports.
const tellEvery = 200 * time.Millisecond

func (e *exporter) reportProgress(doing string) {
	now := e.Now()
	if e.Progress == nil || doing == e.done.Doing && now.Sub(e.told) < tellEvery {
		return
	}
	e.told, e.done.Doing, e.done.Records = now, doing, e.work.records
	e.Progress(e.done)
}

// assemble writes the output of kinds that are not written during reading.
func (e *exporter) assemble(ctx context.Context) error {
	write := kinds[e.What].assemble
	if write == nil {
		return nil
	}
	return write(ctx, e, e.work.out)
}

// kind describes one kind of export: what it reads from each archive file, and how the output is
// assembled at the end, if it is not written during reading.
type kind struct {
	file     func(ctx context.Context, e *exporter, s *source) error
	assemble func(ctx context.Context, e *exporter, w *bufio.Writer) error // nil: written during reading
}

// kinds are all kinds of export. URLs are not read from archives.
var kinds = map[string]kind{
	URLs:     {},
	CrawlLog: {assemble: func(ctx context.Context, e *exporter, _ *bufio.Writer) error { return e.log.assemble(ctx, e) }},
	WARC:     {file: func(ctx context.Context, e *exporter, s *source) error { return e.records(ctx, s, keepRecord{e}) }},
	CDXJ: {
		file: func(ctx context.Context, e *exporter, s *source) error {
			k := &keepIndex{e: e, s: s}
			return errors.Join(e.records(ctx, s, k), k.flush())
		},
		assemble: func(ctx context.Context, e *exporter, w *bufio.Writer) error {
			return e.writeSorted(ctx, w)
		},
	},
	Links: {file: func(ctx context.Context, e *exporter, s *source) error { return e.records(ctx, s, &keepLinks{e: e}) }},
	Parquet: {
		file:     func(ctx context.Context, e *exporter, s *source) error { return e.tables.file(ctx, s) },
		assemble: func(ctx context.Context, e *exporter, _ *bufio.Writer) error { return e.tables.assemble(ctx) },
	},
	Changes: {
		file:     func(ctx context.Context, e *exporter, s *source) error { return e.index(ctx, s, e.change) },
		assemble: func(ctx context.Context, e *exporter, w *bufio.Writer) error { return e.writeSorted(ctx, w) },
	},
	TextLines: {file: textFile},
	WET: {
		file: textFile,
		assemble: func(_ context.Context, e *exporter, _ *bufio.Writer) error {
			if e.work.records > 0 {
				return nil
			}
			return e.warcinfo()
		},
	},
	WACZ: {
		file: func(ctx context.Context, e *exporter, s *source) error {
			k, err := e.copyInto(s)
			if err != nil {
				return err
			}
			return errors.Join(e.records(ctx, s, k), k.flush(), k.close())
		},
		assemble: func(ctx context.Context, e *exporter, w *bufio.Writer) error { return e.pack(ctx, w) },
	},
}
