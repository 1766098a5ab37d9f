package main

import (
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
	"github.com/apoidea/apoidea/cmd/apoidea/words"
	"github.com/apoidea/apoidea/node"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/export"
)

type exportOptions struct {
	*globals
	// asked is what the flags set; output is where to, and of the file that is indexed.
	asked      export.Options
	output, of string
}

// errIncomplete says that an export was made and lacks something.
var errIncomplete = errors.New("the export is not complete")

func newExport(g *globals) *cobra.Command {
	o := exportOptions{globals: g}
	cmd := &cobra.Command{
		Use:   "export warc|cdxj|links|urls|wacz",
		Short: "Write results: archive, index, link graph or the fate of each URL",
		Long: `Write what was crawled: warc (the records of the archive in one file), cdxj (their sorted index), wacz (both, with a list of pages, in one file
for replay tools), links (CSV: from, to, kind, where kind is link or redirect; --count gives each link once and how often it was met; --json gives
one document a line) or urls (one JSON document a URL, with all that is recorded of it).

--ring takes in the other members of the ring and their workers. What is missing is said on standard error and the exit code is 1: peers that do not
answer, records on peers that are gone or that no archive holds any more, damaged bytes. Reading goes on behind damage, and the URLs that lie in it are named.

warc packs records as FILE is called: .warc.gz (also if it is called otherwise), .warc.zst or .warc. A wacz has gzip.

cdxj is the index of what export warc writes of the same records: export warc -o crawl.warc.gz and export cdxj -o crawl.cdxj belong together. With --of FILE
it is made from a file that was exported before.

With -o the export may be interrupted: what is gathered lies in FILE.part, and the same command goes on with it. FILE appears when it is whole; one
that is there is left alone without --force. A wacz takes its size in free space twice while it is made.

Without a running peer the data directory is read as it lies.`,
		Example: `  apoidea export urls --ring > urls.ndjson
  apoidea export warc -o crawl.warc.gz
  apoidea export cdxj --of crawl.warc.gz -o crawl.cdxj
  apoidea export wacz --ring -o crawl.wacz
  apoidea export links --count -o links.csv`,
		Args:      exactly("one of " + strings.Join(export.Kinds(), ", ")),
		ValidArgs: export.Kinds(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(cmd.ValidArgs, args[0]) {
				return wrongUsage(cmd, fmt.Sprintf("export %q: must be one of %s%s", args[0], strings.Join(cmd.ValidArgs, ", "), words.Nearest(args[0], cmd.ValidArgs)))
			}
			if o.asked.Count && args[0] != export.Links {
				return wrongUsage(cmd, "--count is for export links")
			}
			if o.of != "" && (args[0] != export.CDXJ || o.asked.Ring) {
				return wrongUsage(cmd, "--of is for export cdxj of one file, without --ring")
			}
			if o.of != "" {
				return o.indexFile(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			return o.run(cmd.Context(), args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&o.asked.Ring, "ring", false, "of all members of the ring that answer, and their workers")
	cmd.Flags().BoolVar(&o.asked.Count, "count", false, "of links: each pair once, with how often it was met")
	cmd.Flags().BoolVar(&o.asked.Force, "force", false, "replace FILE, and begin anew where an export was interrupted")
	cmd.Flags().StringVar(&o.of, "of", "", "of cdxj: the WARC `FILE` that was exported, which is read instead of a peer's archive")
	cmd.Flags().StringVarP(&o.output, "output", "o", "-", "FILE to write to; - is standard output, where an export cannot be resumed")
	return cmd
}

func (o *exportOptions) run(ctx context.Context, what string, out, errOut io.Writer) (err error) {
	toFile := o.output != "" && o.output != "-"
	if f, ok := out.(*os.File); ok && !toFile && (what == export.WARC || what == export.WACZ) && term.IsTerminal(int(f.Fd())) {
		return fmt.Errorf("%w: export %s: bytes are nothing for a terminal; name a file with -o", errUsage, what)
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
	if err != nil {
		if toFile && ctx.Err() != nil {
			return fmt.Errorf("%w; the same command goes on with the export", errInterrupted)
		}
		return err
	}
	return o.tell(report, toFile, out, errOut)
}

// lostShown is how many lost records are named to people.
const lostShown = 20

// repairHint names what mends an archive of this machine.
func repairHint(r *export.Report) string {
	if len(r.Damaged) == 0 && r.LostTotal == 0 {
		return ""
	}
	return "; on the peer that holds them, apoidea check says more and apoidea repair has them crawled again"
}

// indexFile makes the index of a file that was exported.
func (o *exportOptions) indexFile(ctx context.Context, out, errOut io.Writer) (err error) {
	toFile := o.output != "" && o.output != "-"
	w := out
	if toFile {
		mode := os.O_WRONLY | os.O_CREATE | os.O_EXCL
		if o.asked.Force {
			mode = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
		}
		f, oerr := os.OpenFile(o.output, mode, 0o644) // a result is for others too
		if errors.Is(oerr, os.ErrExist) {
			return fmt.Errorf("%w: %s is there already; name another file, or --force replaces it", errUsage, o.output)
		}
		if oerr != nil {
			return oerr
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		w = f
	}
	report, err := export.IndexFile(ctx, o.of, w)
	if err != nil {
		return err
	}
	report.Output = o.output
	return o.tell(report, toFile, out, errOut)
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
	fmt.Fprintf(o.hints(errOut), "no peer is running: reading %s as it lies\n", o.dataDir)
	return off, off.Close, nil
}

// progress shows how far an export is: a line that is written over on a terminal, a plain one now
// and then elsewhere.
func (o *exportOptions) progress(errOut io.Writer, toFile bool, done func() error) (show func(export.Progress), end func() error) {
	if o.quiet || o.json || !toFile {
		return nil, done
	}
	if !progress.CanDraw(errOut) {
		last := time.Now()
		return func(p export.Progress) {
			if now := time.Now(); now.Sub(last) >= progress.LineEvery {
				last = now
				fmt.Fprintln(errOut, exportText(p))
			}
		}, done
	}
	width := 0
	return func(p export.Progress) {
			text := exportText(p)
			fmt.Fprintf(errOut, "\r%-*s", width, text)
			width = len(text)
		}, func() error {
			fmt.Fprintf(errOut, "\r%*s\r", width, "")
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

// tell says what came of an export: on standard output if the export itself is not there.
func (o *exportOptions) tell(r *export.Report, toFile bool, out, errOut io.Writer) error {
	if !toFile {
		out = errOut
	}
	for _, m := range r.Missing {
		fmt.Fprintln(errOut, "apoidea: missing:", m)
	}
	for _, d := range r.Damaged {
		fmt.Fprintln(errOut, "apoidea: damaged:", d)
	}
	for i, l := range r.Lost {
		if i == lostShown {
			fmt.Fprintf(errOut, "apoidea: lost: and %d more (--json names them)\n", r.LostTotal-lostShown)
			break
		}
		fmt.Fprintf(errOut, "apoidea: lost: %s: no archive file of peer %s holds its record %s\n", l.URL, l.Peer, l.Record)
	}
	if r.Moved > 0 {
		fmt.Fprintf(o.hints(errOut), "%s left out: their files were moved to other storage\n", words.Counted(r.Moved, "record"))
	}
	if r.What == export.URLs && r.Records == 0 && !o.asked.Ring {
		fmt.Fprintln(o.hints(errOut), "no URL of a host that this peer owns has an outcome; --ring exports those of all members")
	}
	if toFile || o.json {
		text := words.Singular(fmt.Sprintf("%s: %d records, %s, of %s", r.Output, r.Records, words.Bytes(r.Bytes), words.Counted(int64(r.Peers), "peer")))
		if err := o.say(out, r, text); err != nil {
			return err
		}
	}
	if !r.Complete {
		return fmt.Errorf("%w: %s missing, %s left out, %s lost%s", errIncomplete, words.Counted(int64(len(r.Missing)), "source"),
			words.Counted(int64(len(r.Damaged)), "damaged place"), words.Counted(r.LostTotal, "record"), repairHint(r))
	}
	return nil
}
