package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/apoidea/apoidea/cmd/apoidea/settings"
	"github.com/apoidea/apoidea/cmd/apoidea/words"
	"github.com/apoidea/apoidea/node/doctor"
)

type doctorOptions struct {
	*globals
	peer settings.Peer
	// file is the configuration file, fileErr what was wrong with it or the environment: a finding
	// here, and no reason not to look.
	file    string
	fileErr error
}

func newDoctor(g *globals) *cobra.Command {
	o := doctorOptions{globals: g}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Diagnose configuration and connectivity problems",
		Long: `Diagnose the configuration that the same flags, environment and file give to run, and the peer that runs in the data directory, if any. The checks:
data directory, data, disk, descriptors, clock, ports, DNS seed, entry peers, DNS resolver, contact, files, configuration, peer. Each reports ok, warn
or fail, what it found, and a fix. It contacts only what the configuration names, and changes nothing.

The exit code is 0 if no check failed.`,
		Example: `  apoidea doctor
  apoidea doctor --profile public --contact https://me.example/crawler --dns-seed seeds.example.org
  apoidea doctor --config apoidea.toml --json`,
		Args: noArgs,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			o.file, _ = settings.File(cmd, g.config, os.LookupEnv)
			if err := g.fill(cmd); err != nil { // the file or the environment is wrong, not the command
				o.fileErr = errors.New(strings.TrimPrefix(err.Error(), errUsage.Error()+": "))
			}
			return nil
		},
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
	s := doctor.Setup{ConfigFile: o.file, FileError: o.fileErr, Built: built(), Log: log}
	s.Config, s.SettingsError = o.peer.Configure(o.dataDir, o.api, versionString())
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
