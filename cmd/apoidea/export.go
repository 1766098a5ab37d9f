package main

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

func newExport(g *globals) *cobra.Command {
	var ring bool
	var output string
	cmd := &cobra.Command{
		Use:   "export warc|cdxj|links|urls",
		Short: "Write results: archive, index, link graph or the fate of each URL",
		Long: `Write what was crawled: warc (the records of the archive in one file), cdxj (their sorted index), links (page and outlink, one pair a
line, tab between) or urls (one JSON document a URL). --ring adds what the other members of the ring answer; what could not be had is
said on standard error and the exit code is 1.`,
		Example:   "  apoidea export urls --ring > urls.ndjson\n  apoidea export warc -o crawl.warc.gz",
		Args:      exactly("one of warc, cdxj, links and urls"),
		ValidArgs: []string{"warc", "cdxj", "links", "urls"},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if !slices.Contains(cmd.ValidArgs, args[0]) {
				return wrongUsage(cmd, fmt.Sprintf("export %q: must be one of %s%s", args[0], strings.Join(cmd.ValidArgs, ", "), nearest(args[0], cmd.ValidArgs)))
			}
			c := g.client()
			defer c.Close()
			w := bufio.NewWriterSize(cmd.OutOrStdout(), 1<<16)
			if output != "" && output != "-" {
				f, err := os.Create(output)
				if err != nil {
					return fmt.Errorf("export: %w", err)
				}
				defer f.Close()
				w.Reset(f)
			}
			if err := c.Export(cmd.Context(), args[0], ring, w); err != nil {
				_ = w.Flush()
				return err
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&ring, "ring", false, "of all members of the ring that answer")
	cmd.Flags().StringVarP(&output, "output", "o", "-", "file to write to")
	return cmd
}
