package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// executeExperiment runs a command line behind "experiment".
func executeExperiment(t *testing.T, g *globals, args ...string) (out string, code int, err error) {
	t.Helper()
	var buf, progress bytes.Buffer
	cmd := newExperiment(g)
	groups(cmd)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	cmd.SetOut(&buf)
	cmd.SetErr(&progress)
	err = cmd.ExecuteContext(t.Context())
	return buf.String(), exitCode(err), err
}

func TestExperimentCommandLines(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		args string
		code int
		says string
	}{
		"list":       {"list", 0, "placement-today"},
		"no name":    {"run", 2, "the name of an experiment"},
		"unknown":    {"run plcement -o " + dir, 2, "plcement"},
		"nowhere":    {"run placement", 2, "-o DIR"},
		"no peers":   {"run placement --peers -1 -o " + dir, 2, "peers -1"},
		"no such":    {"run placement --rtt " + filepath.Join(dir, "none.csv") + " -o " + dir, 2, "rtt matrix"},
		"group only": {"", 0, "Available Commands"},
	} {
		t.Run(name, func(t *testing.T) {
			out, code, err := executeExperiment(t, new(globals), strings.Fields(c.args)...)
			if err != nil {
				out += err.Error()
			}
			if code != c.code || !strings.Contains(out, c.says) {
				t.Errorf("exit code %d, want %d, and %q, want %q in it", code, c.code, out, c.says)
			}
		})
	}
}

func TestExperimentWritesItsTable(t *testing.T) {
	dir, rtt := filepath.Join(t.TempDir(), "deep", "out"), filepath.Join(t.TempDir(), "rtt.csv")
	var matrix strings.Builder // a small internet, as one that is made from the seed takes longer than the rest
	for i := range 24 {
		for k := range 24 {
			fmt.Fprintf(&matrix, "%d,", 7*max(i-k, k-i))
		}
		matrix.WriteString("\n")
	}
	if err := os.WriteFile(rtt, []byte(strings.ReplaceAll(matrix.String(), ",\n", "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, err := executeExperiment(t, &globals{json: true}, "run", "placement", "-o", dir, "--rtt", rtt, "--peers", "4", "--sites", "30", "--quick", "--seed", "3")
	if err != nil {
		t.Fatal(err)
	}
	var printed, written []struct {
		Row, Metric, Unit string
		Paper, Here       *float64
	}
	if err := json.Unmarshal([]byte(out), &printed); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "table.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &written); err != nil {
		t.Fatal(err)
	}
	if len(written) == 0 || len(printed) != len(written) {
		t.Errorf("%d rows printed, %d written", len(printed), len(written))
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) < 5 {
		t.Errorf("files %v, %v", entries, err)
	}
}

func TestExperimentBriefPrintsVerdictsAlone(t *testing.T) {
	for _, brief := range []bool{false, true} {
		args := []string{"run", "apoidea-proximity", "-o", t.TempDir(), "--quick"}
		if brief {
			args = append(args, "--brief")
		}
		var out, errOut bytes.Buffer
		cmd := newExperiment(new(globals))
		cmd.SetArgs(args)
		cmd.SetOut(&out)
		cmd.SetErr(&errOut)
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		begins := "row "
		if brief {
			begins = "1 figures of papers: "
		}
		if got := strings.Contains(out.String(), "written to"); got == brief || !strings.HasPrefix(out.String(), begins) || brief && strings.Count(out.String(), "\n") > 10 {
			t.Errorf("brief %v: %q", brief, out.String())
		}
		if strings.Contains(errOut.String(), "expected time") || brief && errOut.Len() > 0 {
			t.Errorf("brief %v: %q", brief, errOut.String())
		}
	}
}

func TestExperimentAnnouncesTimeOfLongRuns(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var errOut bytes.Buffer
	cmd := newExperiment(new(globals))
	cmd.SetArgs([]string{"run", "ipmicra-load", "-o", t.TempDir(), "--brief"})
	cmd.SetErr(&errOut)
	if err := cmd.ExecuteContext(ctx); !errors.Is(err, context.Canceled) || !strings.HasPrefix(errOut.String(), "ipmicra-load: expected time 2m0s ") {
		t.Errorf("%v, %q", err, errOut.String())
	}
}
