package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/apoidea/apoidea/cmd/apoidea/words"
	"github.com/apoidea/apoidea/node/control"
)

func newJobs(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:     "jobs",
		Short:   "List the jobs of the ring",
		Example: "  apoidea jobs\n  apoidea jobs --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := g.client()
			defer c.Close()
			jobs, err := c.Jobs(cmd.Context())
			if err != nil {
				return err
			}
			if g.json {
				return words.JSON(cmd.OutOrStdout(), jobs)
			}
			rows := [][]string{{"ID", "STATE", "POSTED", "SEEN", "DONE", "PENDING", "LEASED", "SEEDS"}}
			for _, j := range jobs {
				rows = append(rows, []string{
					j.ID, j.State, posted(&j), words.Number(j.Accepted), words.Number(j.Done), words.Number(j.Pending), words.Number(j.Leased),
					seedsText(j.Spec.URLs),
				})
			}
			return words.Table(cmd.OutOrStdout(), rows)
		},
	}
}

func seedsText(urls []string) string {
	if len(urls) <= 2 {
		return strings.Join(urls, " ")
	}
	return fmt.Sprintf("%s and %d more", urls[0], len(urls)-1)
}

func newJob(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "job",
		Short: "Show, pause, resume or cancel a job",
		Long:  "A job is named by its ID or an unambiguous beginning of it.",
	}
	show := &cobra.Command{
		Use: "show ID", Short: "Show a job and what became of its URLs", Example: "  apoidea job show 3f2a", Args: exactly("the ID of a job"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := g.client()
			defer c.Close()
			job, err := c.Job(cmd.Context(), args[0])
			return g.printJob(cmd.OutOrStdout(), job, err)
		},
	}
	cmd.AddCommand(show)
	for action, text := range map[string]string{
		"pause":  "Hand out no more URLs of a job; what is out with workers is finished",
		"resume": "Go on with a paused job",
		"cancel": "End a job for good: its pending URLs are dropped",
	} {
		cmd.AddCommand(&cobra.Command{
			Use: action + " ID", Short: text, Example: "  apoidea job " + action + " 3f2a", Args: exactly("the ID of a job"),
			RunE: func(cmd *cobra.Command, args []string) error {
				c := g.client()
				defer c.Close()
				job, err := c.SetJob(cmd.Context(), args[0], action)
				return g.printJob(cmd.OutOrStdout(), job, err)
			},
		})
	}
	return cmd
}

func (g *globals) printJob(out io.Writer, job *control.Job, err error) error {
	if err != nil {
		return err
	}
	if g.json {
		return words.JSON(out, job)
	}
	return printJob(out, job)
}

// posted is when a job was posted, by the clock of whoever did.
func posted(j *control.Job) string {
	if j.Created.IsZero() {
		return "unknown"
	}
	return j.Created.Local().Format(time.DateTime)
}

func printJob(out io.Writer, j *control.Job) error {
	rows := [][]string{
		{"job", j.ID},
		{"state", j.State},
		{"posted", posted(j)},
		{"owner", j.Owner},
		{"seeds", seedsText(j.Spec.URLs)},
		{"URLs seen", words.Number(j.Accepted)},
		{"done", words.Number(j.Done)},
		{"pending", words.Number(j.Pending)},
		{"leased", words.Number(j.Leased)},
		{"bytes", words.Bytes(j.Bytes)},
	}
	if len(j.Spec.Scope) > 0 {
		rows = append(rows, []string{"scope", strings.Join(j.Spec.Scope, " ")})
	}
	if j.Spec.MaxDepth != nil {
		rows = append(rows, []string{"max depth", fmt.Sprint(*j.Spec.MaxDepth)})
	}
	if j.Spec.MaxPages > 0 {
		rows = append(rows, []string{"max pages", fmt.Sprint(j.Spec.MaxPages)})
	}
	if j.Waiting > 0 {
		rows = append(rows, []string{"waiting for another try", fmt.Sprintf("%d, the next in %s", j.Waiting, words.Seconds(j.NextRetryS))})
	}
	if j.PutOff > 0 {
		rows = append(rows, []string{"put off", putOffText(j.PutOff, j.PutOffHosts, j.PutOffNextS)})
	}
	for _, name := range slices.Sorted(maps.Keys(j.Outcomes)) {
		if j.Outcomes[name] > 0 {
			rows = append(rows, []string{"  " + name, words.Number(j.Outcomes[name])})
		}
	}
	return words.Table(out, rows)
}
