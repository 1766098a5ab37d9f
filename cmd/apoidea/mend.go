package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/apoidea/apoidea/cmd/apoidea/words"
	"github.com/apoidea/apoidea/node"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/datadir"
	"github.com/apoidea/apoidea/node/mend"
)

type mendOptions struct {
	*globals
	asked  mend.Options
	dryRun bool
}

// errDamage is returned by a check that found corruption.
var errDamage = errors.New("corruption found")

func newCheck(g *globals) *cobra.Command {
	o := mendOptions{globals: g}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check the data directory for corruption",
		Long: `Check the data of a stopped peer: the database files, the consistency of the records, and the archive against its indexes and the records. Each
finding has a description and its effect on the crawl. A note is a normal result of a crash. Nothing is changed.

A WARC file that was moved to other storage is not corruption if its index remains as FILE.cdxj.moved. Its pages are not crawled again.

--read-data reads every block and WARC record and verifies the digests. Without it, only the indexes are read.

The exit code is 1 if corruption was found.`,
		Example: `  apoidea check
  apoidea check --read-data --json --data-dir /srv/crawl`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.check(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&o.asked.ReadData, "read-data", false, "read every database block and archive record")
	return cmd
}

func newRepair(g *globals) *cobra.Command {
	o := mendOptions{globals: g}
	cmd := &cobra.Command{
		Use:   "repair",
		Short: "Repair the data directory and report what was lost",
		Long: `Repair the data of a stopped peer. All data is read, as by check --read-data. Readable records are copied to a new database. Archive files
are rewritten without unreadable records, with their indexes. Missing outcomes are restored from the archive. Lost URLs are listed, and the next run
crawls them again. Corrupt files are moved to damaged-TIME in the data directory; remove it yourself.

Back up the data directory first if possible. A repair needs free space for a copy of the database and of the corrupt archive files.`,
		Example: `  apoidea repair --dry-run
  apoidea repair --data-dir /srv/crawl`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.repair(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "report what would be done and change nothing")
	return cmd
}

// options returns the options, with progress for people.
func (o *mendOptions) options(errOut io.Writer) mend.Options {
	m := o.asked
	if !o.quiet && !o.json {
		m.Progress = func(doing string) { fmt.Fprintf(errOut, "%s\n", doing) }
	}
	return m
}

// idle returns an error if a peer is running: its writes would look like corruption.
func (o *mendOptions) idle(ctx context.Context, command string) error {
	if control.Answers(ctx, o.addr()) {
		return fmt.Errorf("%s: a peer is running in %s: stop it first (Ctrl-C, or apoidea leave --data-dir %s)", command, o.dataDir, o.dataDir)
	}
	return nil
}

func (o *mendOptions) check(ctx context.Context, out, errOut io.Writer) error {
	if err := o.idle(ctx, "check"); err != nil {
		return err
	}
	r, err := mend.Check(ctx, o.dataDir, o.options(errOut))
	if err != nil {
		return inUse("check", o.dataDir, err)
	}
	if o.json {
		if err := words.JSON(out, r); err != nil {
			return err
		}
	} else if err := o.printFindings(out, r); err != nil {
		return err
	}
	if !r.OK {
		return fmt.Errorf("check: %w; to repair: apoidea repair --data-dir %s", errDamage, o.dataDir)
	}
	return nil
}

// inUse explains the error of a directory that another process uses.
func inUse(command, dir string, err error) error {
	if node.InUse(err) {
		return fmt.Errorf("%s: %s is in use by another process: stop its peer first", command, dir)
	}
	return err
}

func (o *mendOptions) printFindings(out io.Writer, r *mend.Report) error {
	for i := range r.Findings {
		f := &r.Findings[i]
		if o.quiet && f.Note {
			continue
		}
		verdict := "corrupt"
		if f.Note {
			verdict = "note"
		}
		if _, err := fmt.Fprintf(out, "%-8s %s\n%-8s %s\n", verdict, words.Singular(f.String()), "", f.Means); err != nil {
			return err
		}
	}
	if o.quiet || !r.OK {
		return nil
	}
	how := "only the indexes were read; --read-data reads the data"
	if r.ReadData {
		how = "all data was read"
	}
	_, err := fmt.Fprintf(out, "ok: %s in the archive, %s with an outcome; %s\n", words.Counted(r.Exchanges, "exchange"), words.Counted(r.URLs, "URL"), how)
	return err
}

func (o *mendOptions) repair(ctx context.Context, out, errOut io.Writer) error {
	if err := o.idle(ctx, "repair"); err != nil {
		return err
	}
	datadir.Private()
	m, err := mend.Repair(ctx, o.dataDir, o.options(errOut), o.dryRun)
	if err != nil {
		return inUse("repair", o.dataDir, err)
	}
	if o.json {
		return words.JSON(out, m)
	}
	return o.printMended(out, m)
}

// lossesShown is how many lost pages are named to people.
const lossesShown = 20

func (o *mendOptions) printMended(out io.Writer, m *mend.Mended) error {
	if err := o.printFindings(out, m.Before); err != nil {
		return err
	}
	say := func(format string, args ...any) { fmt.Fprintln(out, words.Singular(fmt.Sprintf(format, args...))) }
	for _, line := range m.Done {
		say("%s", line)
	}
	if m.Rebuilt {
		say("%d records recovered, %d unreadable, %d outcomes restored from the archive", m.Records, m.Unreadable, m.Restored)
	}
	sayURLs(say, "lost, will be crawled again by the next run", m.Again, m.AgainTotal)
	sayURLs(say, "lost, owned by another peer (to crawl it again: apoidea crawl --again)", m.Elsewhere, m.ElsewhereTotal)
	if m.FoundTotal > 0 {
		say("%d URLs linked from archived pages were lost and are pending again", m.FoundTotal)
	}
	if m.Nameless > 0 {
		say("%d pending URLs are lost and unknown; crawling a page that links to them restores them", m.Nameless)
	}
	switch {
	case m.DryRun:
		say("dry run: nothing was changed")
	case m.Aside != "":
		say("corrupt files moved to %s; remove it when no longer needed", m.Aside)
	case len(m.Done) == 0:
		say("nothing to repair")
	}
	return nil
}

func sayURLs(say func(string, ...any), what string, urls []string, total int64) {
	for i, url := range urls {
		if i == lossesShown {
			say("and %d more (--json names them)", total-lossesShown)
			return
		}
		say("%s: %s", what, url)
	}
}

// damageHint adds the remedy to an error of corruption, and joins those of a full disk into one.
func damageHint(dir string, err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("the disk of %s is full: free some space and repeat the command, which continues; a larger --disk-reserve stops the peer earlier", dir)
	}
	if node.Damaged(err) {
		return fmt.Errorf("%w; details: apoidea check --data-dir %s; to repair: apoidea repair --data-dir %s", err, dir, dir)
	}
	return err
}
