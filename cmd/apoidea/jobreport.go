package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/export/jobreport"
	"github.com/apoidea/apoidea/node/ops/words"
)

func newJobReport(g *globals) *cobra.Command {
	o := exportOptions{globals: g}
	cmd := &cobra.Command{
		Use:   "report ID",
		Short: "Show what a job crawled and what it left out",
		Long: `Report what a job crawled and what it left out: outcomes of seeds, hosts, statuses, MIME types, the largest URLs, what was left out by which rule, errors, pages with
dead links, copies, the rate over time, and the peers with records. The report is text, with --json a document; lists have 50 entries, in text 10, and exact totals.

It reads the outcomes of all members of the ring, and no archives; without a running peer those in the data directory. During a crawl it is a sample. Peers that do
not respond are named with the number of records that they hold, and the exit code is 1.`,
		Example: "  apoidea job report 3f2a\n  apoidea job report 3f2a --json > report.json\n  apoidea job report 3f2a -o report",
		Args:    exactly("the ID of a job"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "" {
				return wrongUsage(cmd, "the ID of a job is empty")
			}
			return o.report(cmd.Context(), args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVarP(&o.output, "output", "o", "", "new directory for report.html, without external resources, and report.json")
	return cmd
}

// report makes the report of a job.
func (o *exportOptions) report(ctx context.Context, id string, out, errOut io.Writer) (err error) {
	results, done, err := o.results(ctx, errOut)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	var posted *control.Job
	if ring, ok := results.(*control.Client); ok {
		if posted, err = ring.Job(ctx, id); control.KindOf(err) == control.KindUsage {
			return errors.New(err.Error()) // an unknown job is a result, not wrong usage
		} else if err != nil {
			return err
		}
	}
	r, err := jobreport.Make(ctx, results, id, posted)
	if err != nil {
		return err
	}
	switch {
	case o.output != "":
		if err = r.Write(o.output); err == nil {
			err = o.say(out, r, fmt.Sprintf("%s: %s, %s", filepath.Join(o.output, jobreport.Page), words.Counted(r.URLs, "URL"), words.Bytes(r.Bytes)))
		}
	case o.json:
		err = words.JSON(out, r)
	default:
		err = r.Text(out)
	}
	if err != nil || r.Complete {
		return err
	}
	for _, m := range r.Missing {
		fmt.Fprintln(errOut, "apoidea: missing:", words.Legible(m.String()))
	}
	return fmt.Errorf("report incomplete: %s", words.Counted(int64(len(r.Missing)), "missing source"))
}
