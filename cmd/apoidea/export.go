package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/apoidea/apoidea/cmd/apoidea/progress"
	"github.com/apoidea/apoidea/node"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/export"
	"github.com/apoidea/apoidea/node/ops/words"
)

type exportOptions struct {
	*globals
	// asked is what the flags set; output is where to.
	asked        export.Options
	output       string
	since, until string // of the filter
}

// errIncomplete is returned for an export that lacks data.
var errIncomplete = errors.New("export incomplete")

func newExport(g *globals) *cobra.Command {
	o := exportOptions{globals: g}
	cmd := &cobra.Command{
		Use:   "export " + strings.Join(export.Kinds(), "|"),
		Short: "Export the archive, its index, tables, links or URL outcomes",
		Long: `Export crawl results:

    warc      the records of the archive in one file
    cdxj      the sorted index of these records
    wacz      both and a list of pages, in one file for replay tools
    links     CSV of from, to, kind (link or redirect), one line for each occurrence; with --json one document per line
    urls      one JSON document per URL with all that is recorded of it
    crawllog  the twelve columns of Heritrix' crawl.log, one line per URL, sorted by the end of the fetch
    parquet   tables for DuckDB, Spark or pandas, in a directory: --tables urls,links,hosts
    text      one JSON document per page: URL, time, title, language, text, main text, digest, SimHash, record and job
    changes   one JSON document for each visit after the first fetch that found another body, text or link, sorted by time; with --all every such visit
    wet       the plain text of pages as WARC conversion records, as Common Crawl's WET files

parquet has a row for each record of the archives in DIR/crawl=JOB/subset=warc, non200responses or robotstxt, with the columns of Common Crawl's index and more,
sorted by SURT key. URLs without a record are in subset=unarchived. It reads indexes, not archives, except for the table links.

text and wet have the pages with status 2xx in HTML or plain text. A revisit has no body: it is counted and left out. The main text, without navigation and
the like, takes most of the time: --no-main-text leaves it out.

--ring includes the other members of the ring and their workers. Missing data is reported on standard error, and the exit code is 1: unreachable peers, records
of absent peers or without an archive file, corrupt ranges. The export continues after a corrupt range and lists the URLs in it.

The name of FILE selects the compression of warc: .warc.gz (the default), .warc.zst or .warc, and of wet: .warc.wet.gz and so on. A wacz uses gzip.

cdxj is the index of the same records as export warc: export warc -o crawl.warc.gz and export cdxj -o crawl.cdxj belong together.

Filters select what is exported, for all kinds: --job, --host, --path, --status, --mime, --outcome, --since and --until. All of them must hold; of the values of a
repeated flag one must. In globs, * stands for any characters. The response, request and metadata of an exchange are selected together; warcinfo records are always
kept. A revisit has the type warc/revisit. Without a match there is no output, and the exit code is 1; changes of pages that did not change are empty.

With -o, FILE appears when it is complete; an existing one is kept unless --force is given. An interrupted export leaves nothing. Temporary files are in FILE.part;
a wacz temporarily needs twice its size in free space.

Without a running peer the data directory is read directly.`,
		Example: `  apoidea export urls --ring > urls.ndjson
  apoidea export warc -o crawl.warc.gz
  apoidea export cdxj -o crawl.cdxj
  apoidea export wacz --ring -o crawl.wacz
  apoidea export links -o links.csv
  apoidea export parquet --ring --tables urls,links,hosts -o results
  apoidea export text --ring --no-main-text -o pages.ndjson
  apoidea export wet --mime text/html -o crawl.warc.wet.gz
  apoidea export changes --since 24h > changes.ndjson
  apoidea export urls --status 4xx --status 5xx --since 7d > errors.ndjson
  apoidea export wacz --host '*.example.org' --path '/news/*' --mime text/html -o news.wacz`,
		Args:      exactly("one of " + strings.Join(export.Kinds(), ", ")),
		ValidArgs: export.Kinds(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(cmd.ValidArgs, args[0]) {
				return wrongUsage(cmd, fmt.Sprintf("export %q: must be one of %s%s", args[0], strings.Join(cmd.ValidArgs, ", "), words.Nearest(args[0], cmd.ValidArgs)))
			}
			return o.run(cmd.Context(), args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&o.asked.Ring, "ring", false, "export from all reachable members and their workers")
	cmd.Flags().BoolVar(&o.asked.Force, "force", false, "replace an existing FILE")
	cmd.Flags().StringSliceVar(&o.asked.Tables, "tables", nil, "tables of parquet, separated by commas: "+strings.Join(export.Tables(), ", ")+"; default urls")
	cmd.Flags().BoolVar(&o.asked.All, "all", false, "changes with the visits that found none")
	cmd.Flags().BoolVar(&o.asked.NoMainText, "no-main-text", false, "text without the main text of pages, several times faster")
	filter := &o.asked.Filter
	for _, f := range []struct {
		name, help string
		values     *[]string
	}{
		{"job", "ID of a job, its first digits, or none; repeatable", &filter.Job},
		{"host", "glob of the host, such as *.example.org; repeatable", &filter.Host},
		{"path", "glob of the path, without the query; repeatable", &filter.Path},
		{"status", "HTTP status such as 404 or 4xx, or none; repeatable", &filter.Status},
		{"mime", "glob of the MIME type, such as image/*, or none; repeatable", &filter.MIME},
		{"outcome", "outcome of the URL, such as ok or duplicate, or none; repeatable", &filter.Outcome},
	} {
		cmd.Flags().StringArrayVar(f.values, f.name, nil, f.help)
	}
	cmd.Flags().StringVar(&o.since, "since", "", "earliest fetch: RFC 3339 time, UTC date, or duration before now (7d)")
	cmd.Flags().StringVar(&o.until, "until", "", "end of the fetch times, exclusive; same forms as --since")
	cmd.Flags().StringVarP(&o.output, "output", "o", "-", "output FILE, or directory of parquet; -: standard output")
	return cmd
}

func (o *exportOptions) run(ctx context.Context, what string, out, errOut io.Writer) (err error) {
	toFile := o.output != "" && o.output != "-"
	if f, ok := out.(*os.File); ok && !toFile && (what == export.WARC || what == export.WACZ || what == export.WET) && term.IsTerminal(int(f.Fd())) {
		return fmt.Errorf("%w: export %s: binary output to a terminal; set -o FILE", errUsage, what)
	}
	if err := o.filter(); err != nil {
		return err
	}
	results, done, err := o.results(ctx, errOut)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	opt := o.asked
	opt.JSON = o.json && what == export.Links
	opt.What, opt.Stream, opt.Software = what, out, "apoidea/"+versionString()
	if toFile {
		opt.Output, opt.Of = o.output, export.OfOutput(o.output)
	}
	opt.Progress, done = o.progress(errOut, toFile, done)
	report, err := export.Run(ctx, results, opt)
	if errors.Is(err, export.ErrEmpty) {
		printMissing(report, errOut)
		return o.explainEmpty(ctx, results, err)
	}
	if err != nil {
		if toFile && ctx.Err() != nil {
			return fmt.Errorf("%w; nothing was written", errInterrupted)
		}
		return err
	}
	return o.print(report, toFile, out, errOut)
}

// filter completes the filter and checks it, before anything is read.
func (o *exportOptions) filter() (err error) {
	f, now := &o.asked.Filter, time.Now()
	for _, t := range []struct {
		flag, text string
		to         *time.Time
	}{{"since", o.since, &f.Since}, {"until", o.until, &f.Until}} {
		if t.text == "" {
			continue
		}
		if *t.to, err = export.ParseTime(t.text, now); err != nil {
			return fmt.Errorf("%w: --%s %w", errUsage, t.flag, err)
		}
	}
	return f.Check()
}

// explainEmpty names a job of the filter that the ring does not know.
func (o *exportOptions) explainEmpty(ctx context.Context, results control.Results, err error) error {
	ring, ok := results.(*control.Client)
	if !ok || len(o.asked.Filter.Job) == 0 {
		return err
	}
	jobs, jerr := ring.Jobs(ctx)
	for _, id := range o.asked.Filter.Job {
		known := func(j control.Job) bool { return strings.HasPrefix(j.ID, id) }
		if jerr == nil && id != export.None && !slices.ContainsFunc(jobs, known) {
			return fmt.Errorf("%w: no job has the ID %s (apoidea jobs lists all)", err, id)
		}
	}
	return err
}

// lostShown is how many lost records are named to people.
const lostShown = 20

// repairHint names the commands that repair an archive.
func repairHint(r *export.Report) string {
	if len(r.Damaged) == 0 && r.LostTotal == 0 {
		return ""
	}
	return "; on the peer that holds the records, run apoidea check for details and apoidea repair to crawl them again"
}

// results are those of the running peer, or of the data directory if none runs.
func (o *exportOptions) results(ctx context.Context, errOut io.Writer) (r control.Results, done func() error, err error) {
	if o.api != "" || o.asked.Ring || control.Answers(ctx, o.addr()) {
		c := o.client()
		return c, func() error { c.Close(); return nil }, nil
	}
	off, err := node.OpenOffline(o.dataDir)
	if err != nil {
		return nil, nil, damageHint(o.dataDir, err)
	}
	fmt.Fprintf(o.hints(errOut), "no peer is running: reading %s\n", o.dataDir)
	return off, off.Close, nil
}

// progress shows how far an export is.
func (o *exportOptions) progress(errOut io.Writer, toFile bool, done func() error) (show func(export.Progress), end func() error) {
	if o.quiet || o.json || !toFile {
		return nil, done
	}
	line, erase := progress.Line(errOut)
	return func(p export.Progress) { line(exportText(p)) }, func() error {
		erase()
		return done()
	}
}

func exportText(p export.Progress) string {
	text := words.Singular(fmt.Sprintf("%s: %d records, %s", p.Doing, p.Records, words.Bytes(p.BytesRead)))
	if p.FilesTotal > 0 {
		text += fmt.Sprintf(", %d of %d files", p.Files, p.FilesTotal)
	}
	return text
}

// printMissing names what is missing from an export.
func printMissing(r *export.Report, errOut io.Writer) {
	for _, m := range r.Missing {
		fmt.Fprintln(errOut, "apoidea: missing:", m)
	}
	for _, d := range r.Damaged {
		fmt.Fprintln(errOut, "apoidea: corrupt:", d)
	}
	for i, l := range r.Lost {
		if i == lostShown {
			fmt.Fprintf(errOut, "apoidea: lost: %d more (see --json)\n", r.LostTotal-lostShown)
			break
		}
		fmt.Fprintf(errOut, "apoidea: lost: %s: peer %s has no archive file with record %s\n", l.URL, l.Peer, l.Record)
	}
}

// printSkipped names the pages without a text or main text.
func printSkipped(r *export.Report, errOut io.Writer) {
	for _, s := range r.Skipped[:min(len(r.Skipped), lostShown)] {
		fmt.Fprintf(errOut, "apoidea: no text: %s: %s\n", s.URL, s.Error)
	}
	if n := r.SkippedTotal - lostShown; n > 0 {
		fmt.Fprintf(errOut, "apoidea: no text: %d more (see --json)\n", n)
	}
}

// print reports the result of an export: on standard output if the export itself is not there.
func (o *exportOptions) print(r *export.Report, toFile bool, out, errOut io.Writer) error {
	if !toFile {
		out = errOut
	}
	printMissing(r, errOut)
	printSkipped(r, errOut)
	if r.Moved > 0 {
		fmt.Fprintf(o.hints(errOut), "%s skipped: their files were moved to other storage\n", words.Counted(r.Moved, "record"))
	}
	if r.Revisits > 0 {
		fmt.Fprintf(o.hints(errOut), "%s left out: the bodies are in other records\n", words.Counted(r.Revisits, "revisit"))
	}
	if r.What == export.URLs && r.Records == 0 && !o.asked.Ring {
		fmt.Fprintln(o.hints(errOut), "no URL owned by this peer has an outcome; --ring exports the URLs of all members")
	}
	if toFile || o.json {
		text := words.Singular(fmt.Sprintf("%s: %d %s, %s", r.Output, r.Records, cmp.Or(map[string]string{export.Links: "links", export.URLs: "URLs", export.CrawlLog: "URLs", export.Parquet: "rows", export.TextLines: "pages", export.Changes: "changes"}[r.What], "records"), words.Bytes(r.Bytes)))
		if r.Peers > 0 {
			text += ", of " + words.Counted(int64(r.Peers), "peer")
		}
		if err := o.say(out, r, text); err != nil {
			return err
		}
	}
	if !r.Complete {
		var lacks []string
		for _, l := range []struct {
			n    int64
			what string
		}{{int64(len(r.Missing)), "missing source"}, {int64(len(r.Damaged)), "corrupt range"}, {r.LostTotal, "lost record"}} {
			if l.n > 0 {
				lacks = append(lacks, words.Counted(l.n, l.what))
			}
		}
		return fmt.Errorf("%w: %s%s", errIncomplete, strings.Join(lacks, ", "), repairHint(r))
	}
	return nil
}
