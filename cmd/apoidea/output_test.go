package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode"

	"github.com/apoidea/apoidea/cmd/apoidea/progress"
	"github.com/apoidea/apoidea/cmd/apoidea/show"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/doctor"
	"github.com/apoidea/apoidea/node/ops/export"
	"github.com/apoidea/apoidea/node/ops/words"
)

// TestTextsOfOthersCommandNoTerminal: what a certificate, an error or another peer says is shown
// with its control characters written out, on the line where it stands.
func TestTextsOfOthersCommandNoTerminal(t *testing.T) {
	const evil = "valid for \x1b]0;title\x07\x1b[31mred\u009b2J\u202e\r\njob x: done\tok\x7f"
	const shown = `valid for \x1b]0;title\a\x1b[31mred\u009b2J\u202e\r\njob x: done\tok\x7f`
	waiting := control.Wait{Reason: "tls", Hosts: 1, URLs: 1, HostsPutOff: 1, Examples: []control.WaitingHost{{Host: "a.example", Why: evil, PutOff: 1}}}
	for name, show := range map[string]func(b *bytes.Buffer) error{
		"a table": func(b *bytes.Buffer) error { return words.Table(b, [][]string{{"job", evil}}) },
		"a finding": func(b *bytes.Buffer) error {
			return printFinding(b, &doctor.Finding{Check: "sites", Found: evil})
		},
		"what waits": func(b *bytes.Buffer) error {
			return show.PutOff(b, &control.Status{Counters: control.Counters{URLsPutOff: 1, HostsPutOff: 1}, Waits: []control.Wait{waiting}})
		},
		"a crawl that fetched nothing": func(b *bytes.Buffer) error {
			why := &control.Why{URL: "http://a.example/", Jobs: []control.WhyLine{{Text: evil, Outcome: "tls"}}}
			err := progress.ExplainNothing(context.Background(), explains{why: why}, "x", b)
			if err == nil {
				return errors.New("no error")
			}
			b.WriteString(words.Error(err) + "\n")
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := show(&b); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(b.String()) {
				if i := strings.IndexFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
					t.Errorf("a sign that is not printed at %d of %q", i, line)
				}
			}
			if !strings.Contains(b.String(), shown) {
				t.Errorf("%q does not tell what was said: %s", b.String(), shown)
			}
		})
	}
	const ours = "links – §4 … “done” 1.5 ms"
	if got := words.Legible(ours); got != ours {
		t.Errorf("%q is changed to %q", ours, got)
	}
}

// explains is a peer that knows why.
type explains struct {
	control.Backend
	why *control.Why
}

func (e explains) Job(context.Context, string) (*control.Job, error) {
	return &control.Job{Spec: control.JobSpec{URLs: []string{e.why.URL}}}, nil
}

func (e explains) Why(context.Context, string) (*control.Why, error) { return e.why, nil }

// TestEmptyExportGivesReason checks that an export of no URLs says why there are none.
func TestEmptyExportGivesReason(t *testing.T) {
	o := exportOptions{globals: new(globals)}
	for records, want := range []bool{true, false} {
		var hints strings.Builder
		if err := o.print(&export.Report{What: export.URLs, Records: int64(records), Complete: true}, false, io.Discard, &hints); err != nil || strings.Contains(hints.String(), "--ring") != want {
			t.Errorf("%d records: %v, %q", records, err, hints.String())
		}
	}
}
