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

// errDamage ends a check that found something.
var errDamage = errors.New("something is damaged")

func newCheck(g *globals) *cobra.Command {
	o := mendOptions{globals: g}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Say what is damaged in the data directory, and what it means",
		Long: `Look at the data of a peer that does not run: the files of the database, the records in it against each other, the archive against its indexes and
against the records. Each finding says what was found and what it means for the crawl. A note is what a crash leaves as well. Nothing is changed.

A WARC file that was moved to other storage is no damage if its index stays behind as FILE.cdxj.moved. Its pages are not crawled again.

With --read-data every block and every WARC record is read and its digests are computed; without it, what leads to them.

The exit code is 1 if something is damaged.`,
		Example: `  apoidea check
  apoidea check --read-data --json --data-dir /srv/crawl`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.check(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&o.asked.ReadData, "read-data", false, "read every block of the database and every record of the archive")
	return cmd
}

func newRepair(g *globals) *cobra.Command {
	o := mendOptions{globals: g}
	cmd := &cobra.Command{
		Use:   "repair",
		Short: "Mend what check finds, and say what is lost",
		Long: `Mend the data of a peer that does not run. Everything is read, as check --read-data does. What can be read of the records goes into a new database; files of
the archive are written anew without what cannot be read, with their indexes; outcomes that the records have forgotten come from the archive. What is lost
is named, and waits to be crawled again by the next run. What was damaged is moved to damaged-TIME in the data directory, for you to remove.

Take a copy of the data directory first if you have the room. A repair needs as much free space as the database and the damaged files of the archive take.`,
		Example: `  apoidea repair --dry-run
  apoidea repair --data-dir /srv/crawl`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.repair(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "say what would be done, and change nothing")
	return cmd
}

// options tell people what is being looked at.
func (o *mendOptions) options(errOut io.Writer) mend.Options {
	m := o.asked
	if !o.quiet && !o.json {
		m.Progress = func(doing string) { fmt.Fprintf(errOut, "looking at: %s\n", doing) }
	}
	return m
}

// idle refuses to look where a peer runs: what it writes meanwhile would look like damage.
func (o *mendOptions) idle(ctx context.Context, command string) error {
	if control.Answers(ctx, o.addr()) {
		return fmt.Errorf("%s: a peer runs in %s: stop it first (Ctrl-C, or apoidea leave --data-dir %s)", command, o.dataDir, o.dataDir)
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
		return fmt.Errorf("check: %w: apoidea repair --data-dir %s mends what can be mended", errDamage, o.dataDir)
	}
	return nil
}

// inUse says what to do about a directory that another process has.
func inUse(command, dir string, err error) error {
	if node.InUse(err) {
		return fmt.Errorf("%s: another process has %s open: stop the peer that runs there first", command, dir)
	}
	return err
}

func (o *mendOptions) printFindings(out io.Writer, r *mend.Report) error {
	for i := range r.Findings {
		f := &r.Findings[i]
		if o.quiet && f.Note {
			continue
		}
		verdict := "damaged"
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
	how := "what leads to them was looked at; --read-data reads them"
	if r.ReadData {
		how = "all of them were read"
	}
	_, err := fmt.Fprintf(out, "sound: %s in the archive, %s with an outcome; %s\n", words.Counted(r.Exchanges, "exchange"), words.Counted(r.URLs, "URL"), how)
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
		say("%d records brought over, %d could not be read, %d outcomes taken from the archive", m.Records, m.Unreadable, m.Restored)
	}
	sayURLs(say, "lost, crawled again by the next run", m.Again, m.AgainTotal)
	sayURLs(say, "lost, and another peer's to crawl again (apoidea crawl --again posts them)", m.Elsewhere, m.ElsewhereTotal)
	if m.FoundTotal > 0 {
		say("%d URLs to which archived pages lead were forgotten and wait again", m.FoundTotal)
	}
	if m.Nameless > 0 {
		say("%d URLs waited and are lost with their addresses: they come back where a page that links to them is crawled", m.Nameless)
	}
	switch {
	case m.DryRun:
		say("nothing was changed")
	case m.Aside != "":
		say("what was damaged lies in %s: remove it when you need it no more", m.Aside)
	case len(m.Done) == 0:
		say("nothing had to be mended")
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

// damageHint adds to an error of damage what helps. Of a full disk, which each part of a peer that
// writes has an error for, it makes one.
func damageHint(dir string, err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("the disk of %s is full: free some space, and the same command goes on where it was; --disk-reserve has a peer stop before that", dir)
	}
	if node.Damaged(err) {
		return fmt.Errorf("%w; apoidea check --data-dir %s says what is damaged, apoidea repair --data-dir %s mends what can be mended", err, dir, dir)
	}
	return err
}
