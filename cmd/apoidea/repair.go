package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/apoidea/apoidea/node"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/datadir"
	"github.com/apoidea/apoidea/node/ops/words"
	"github.com/apoidea/apoidea/node/repair"
)

type repairOptions struct {
	*globals
	dryRun bool
}

// errDamage is returned by a check that found corruption.
var errDamage = errors.New("corruption found")

func newCheck(g *globals) *cobra.Command {
	o := repairOptions{globals: g}
	return &cobra.Command{
		Use:   "check",
		Short: "Check the data directory for corruption",
		Long: `Check the data of a stopped peer: read the whole database and verify its checksums, read the whole archive and verify its digests and indexes, and
compare the outcomes of pages with the archive. Each finding has a description and its effect on the crawl. A note is a normal result of a crash. Nothing is
changed.

A WARC file that was moved to other storage is not corruption if its index remains as FILE.cdxj.moved. Its pages are not crawled again.

The exit code is 1 if corruption was found.`,
		Example: `  apoidea check
  apoidea check --json --data-dir /srv/crawl`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.check(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
}

func newRepair(g *globals) *cobra.Command {
	o := repairOptions{globals: g}
	cmd := &cobra.Command{
		Use:   "repair",
		Short: "Repair the data directory and report what was lost",
		Long: `Repair the data of a stopped peer. All data is read, as by check. A corrupt database is replaced by a new one with the same identity and jobs: in a
ring its records come back from other peers at the next start, and a peer that is alone restores the outcomes of archived pages. Archive files are rewritten
without unreadable records, with their indexes. Lost pages are listed, and the next run crawls them again. Corrupt files are moved to damaged-TIME in the data
directory; remove it yourself.

Back up the data directory first if possible. A repair needs free space for a new database and for a copy of the corrupt archive files.`,
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

// progress returns a function that prints what is done, for people.
func (o *repairOptions) progress(errOut io.Writer) func(doing string) {
	if o.quiet || o.json {
		return func(string) {}
	}
	return func(doing string) { fmt.Fprintln(errOut, doing) }
}

// idle returns an error if a peer is running: its writes would look like corruption.
func (o *repairOptions) idle(ctx context.Context, command string) error {
	if control.Answers(ctx, o.addr()) {
		return fmt.Errorf("%s: a peer is running in %s: stop it first (Ctrl-C, or apoidea leave --data-dir %s)", command, o.dataDir, o.dataDir)
	}
	return nil
}

func (o *repairOptions) check(ctx context.Context, out, errOut io.Writer) error {
	if err := o.idle(ctx, "check"); err != nil {
		return err
	}
	r, err := repair.Check(ctx, o.dataDir, o.progress(errOut))
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

func (o *repairOptions) printFindings(out io.Writer, r *repair.Report) error {
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
	_, err := fmt.Fprintf(out, "ok: %s in the archive, %s with an outcome\n", words.Counted(r.Exchanges, "exchange"), words.Counted(r.URLs, "URL"))
	return err
}

func (o *repairOptions) repair(ctx context.Context, out, errOut io.Writer) error {
	if err := o.idle(ctx, "repair"); err != nil {
		return err
	}
	datadir.Private()
	m, err := repair.Run(ctx, o.dataDir, o.progress(errOut), o.dryRun)
	if err != nil {
		return inUse("repair", o.dataDir, err)
	}
	if o.json {
		return words.JSON(out, m)
	}
	return o.printResult(out, m)
}

// lossesShown is how many lost pages are named to people.
const lossesShown = 20

func (o *repairOptions) printResult(out io.Writer, m *repair.Result) error {
	if err := o.printFindings(out, m.Before); err != nil {
		return err
	}
	say := func(format string, args ...any) { fmt.Fprintln(out, words.Singular(fmt.Sprintf(format, args...))) }
	for _, line := range m.Done {
		say("%s", line)
	}
	sayURLs(say, "lost, will be crawled again by the next run", m.Again, m.AgainTotal)
	sayURLs(say, "lost, owned by another peer (to crawl it again: apoidea crawl --again)", m.Elsewhere, m.ElsewhereTotal)
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
