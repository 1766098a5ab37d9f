package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/apoidea/apoidea/cmd/apoidea/settings"
	"github.com/apoidea/apoidea/node/doctor"
	"github.com/apoidea/apoidea/node/ops/words"
)

type doctorOptions struct {
	*globals
	peer settings.Peer
}

func newDoctor(g *globals) *cobra.Command {
	o := doctorOptions{globals: g}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Diagnose configuration and connectivity problems",
		Long: `Diagnose the configuration that the same flags, environment and file give to run, and the peer that runs in the data directory, if any. The checks:
disk, clock, entry peers with DNS seeds, DNS resolver, contact, reachability of the running peer. Each reports ok, warn or fail, what it found, and a
fix. It contacts only what the configuration names, and changes nothing.

The exit code is 0 if no check failed.`,
		Example: `  apoidea doctor
  apoidea doctor --profile public --contact https://me.example/crawler --dns-seed seeds.example.org
  apoidea doctor --config apoidea.toml --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.examine(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.peer.Add(cmd.Flags())
	return cmd
}

// examination is the document of --json.
type examination struct {
	OK     bool             `json:"ok"`
	Checks []doctor.Finding `json:"checks"`
}

func (o *doctorOptions) examine(ctx context.Context, out, errOut io.Writer) error {
	log, done, err := o.logger(errOut)
	if err != nil {
		return err
	}
	defer done()
	s := doctor.Setup{Built: built(), Log: log}
	if s.Config, err = o.peer.Configure(o.dataDir, o.api, versionString()); err != nil && s.Config.ContactError() == nil {
		return err // an invalid contact is a finding
	}
	s.Config.TokenFile = o.token
	if s.Config.DataDir, err = filepath.Abs(s.Config.DataDir); err != nil {
		return err
	}
	doc := examination{Checks: []doctor.Finding{}}
	failed, err := doctor.Examine(ctx, s, func(f doctor.Finding) error {
		doc.Checks = append(doc.Checks, f)
		if o.json || o.quiet && f.Verdict == doctor.OK {
			return nil
		}
		return printFinding(out, &f)
	})
	if err != nil {
		return err
	}
	if doc.OK = failed == 0; o.json {
		if err := words.JSON(out, doc); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("doctor: %d of %d checks failed", failed, len(doc.Checks))
	}
	return nil
}

func printFinding(out io.Writer, f *doctor.Finding) error {
	if _, err := fmt.Fprintf(out, "%-5s %-15s %s\n", f.Verdict, f.Check, words.Legible(f.Found)); err != nil || f.Cure == "" {
		return err
	}
	_, err := fmt.Fprintf(out, "%-5s %-15s fix: %s\n", "", "", words.Legible(f.Cure))
	return err
}
