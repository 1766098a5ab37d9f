package progress

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/node/control"
)

func progressAt(at float64, pages int64, idle bool) control.Progress {
	p := control.Progress{Members: 3, Idle: idle, ElapseS: at}
	p.Pages, p.URLsSeen, p.HostsOwned = pages, 2*pages, 4
	if !idle {
		p.URLsPending = 1
	}
	return p
}

func TestProgressText(t *testing.T) {
	busy := progressAt(2, 10, false)
	busy.Note = "peer x did not answer"
	waits := progressAt(3, 10, false)
	waits.URLsWaiting, waits.NextRetryS = 2, 4.5
	for name, c := range map[string]struct {
		p    control.Progress
		rate string
		want string
	}{
		"at work":   {progressAt(1, 5, false), " (5/s)", "1s: 5 pages (5/s), 0 duplicates, 0 errors; 1 of 10 URLs left"},
		"held up":   {busy, "", "2s: 10 pages, 0 duplicates, 0 errors; 1 of 20 URLs left; peer x did not answer"},
		"waits":     {waits, "", "3s: 10 pages, 0 duplicates, 0 errors; 1 of 20 URLs left; retries: 2, next in 4.5s"},
		"idle ends": {progressAt(4, 10, true), "", "4s: 10 pages, 0 duplicates, 0 errors; 0 of 20 URLs left; done"},
	} {
		if got := progressText(c.p, c.rate); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

func TestPaceIsThatOfLate(t *testing.T) {
	var s pace
	for i, c := range []struct {
		at    float64
		pages int64
		want  string
	}{
		{0, 1000, ""}, // what was there before is not counted
		{0.2, 1010, ""},
		{1, 1100, " (100/s)"},
		{5, 1500, " (100/s)"},
		{9, 1900, " (100/s)"},
		{15, 1900, " (40/s)"}, // since second 5
		{25, 1900, " (0/s)"},
	} {
		p := progressAt(c.at, c.pages, false)
		if got := s.of(&p); got != c.want {
			t.Errorf("step %d: %q, want %q", i, got, c.want)
		}
	}
	if len(s.marks) > 3 {
		t.Errorf("%d marks are kept", len(s.marks))
	}
}

// told is a peer that tells of a crawl.
type told struct {
	control.Backend
	all []control.Progress
}

func (t told) Wait(_ context.Context, _ string, _ time.Duration, fn func(control.Progress) error) error {
	for _, p := range t.all {
		if err := fn(p); err != nil {
			return err
		}
	}
	return nil
}

func TestFollow(t *testing.T) {
	crawl := told{all: []control.Progress{progressAt(0, 0, false), progressAt(0.5, 5, false), progressAt(1.9, 9, false), progressAt(2.1, 12, false), progressAt(2.2, 12, true)}}
	for name, c := range map[string]struct {
		quiet, json    bool
		out, err, want int
	}{
		"plain lines":    {false, false, 0, 3, 0}, // the first, the one after two seconds, the last
		"quiet":          {true, false, 0, 0, 0},
		"JSON":           {false, true, 5, 0, 0},
		"JSON and quiet": {true, true, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			if err := Follow(t.Context(), crawl, "", 0, Screen{Out: &out, Err: &errOut, Quiet: c.quiet, JSON: c.json}); err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(out.String(), "\n"); n != c.out {
				t.Errorf("%d lines of output, want %d: %s", n, c.out, out.String())
			}
			if n := strings.Count(errOut.String(), "\n"); n != c.err {
				t.Errorf("%d lines of progress, want %d: %s", n, c.err, errOut.String())
			}
			for line := range strings.Lines(out.String()) {
				if !json.Valid([]byte(line)) {
					t.Errorf("no JSON: %s", line)
				}
			}
		})
	}
}

func TestBarText(t *testing.T) {
	waits := progressAt(3, 10, false)
	waits.URLsWaiting, waits.URLsPending, waits.NextRetryS, waits.Errors = 2, 2, 4.5, 1
	for want, p := range map[string]control.Progress{
		"5 pages (9/s)":                            progressAt(1, 5, false),
		"5 pages (9/s), done":                      progressAt(1, 5, true),
		"10 pages (9/s), 1 error, 2 retry in 4.5s": waits,
	} {
		if got := barText(p, " (9/s)"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestWaitingIsSaidOnce: while nothing changes but the time that is left, one line a minute says
// so, with the reason.
func TestWaitingIsSaidOnce(t *testing.T) {
	var crawl told
	for at := 0.0; at <= 240; at += 2 {
		p := progressAt(at, 0, false)
		p.URLsPending = 196
		p.Waits = []control.Wait{{Reason: "dns", Hosts: 3, URLs: 196, NextS: 300 - at, Examples: []control.WaitingHost{{Host: "a.test", URLs: 100, Why: "dns: server failure"}}}}
		crawl.all = append(crawl.all, p)
	}
	var errOut bytes.Buffer
	if err := Follow(t.Context(), crawl, "", 0, Screen{Out: &errOut, Err: &errOut}); err != nil {
		t.Fatal(err)
	}
	said := strings.Split(strings.TrimSpace(errOut.String()), "\n")
	if len(said) > 6 {
		t.Errorf("%d lines of four minutes in which nothing happens", len(said))
	}
	if want := "DNS failure: 196 URLs on 3 hosts, next in 5m0s (a.test"; !strings.Contains(said[0], want) {
		t.Errorf("%s, want %s", said[0], want)
	}
}

// TestSecondRunCountsForItself: what earlier runs counted is neither in the progress nor in the sum
// of a later one, and is told apart from it.
func TestSecondRunCountsForItself(t *testing.T) {
	before := control.Counters{Pages: 100, Duplicates: 10, URLsSeen: 130, URLsPending: 15, URLsLeased: 5, Bytes: 1 << 20}
	now := progressAt(1, 140, true)
	now.Duplicates, now.URLsSeen, now.Bytes = 12, 200, 2<<20
	var seen control.Counters
	if err := (counting{told{all: []control.Progress{now}}, before}).Wait(t.Context(), "", 0, func(p control.Progress) error {
		seen = p.Counters
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if seen.Pages != 40 || seen.Duplicates != 2 || seen.URLsSeen != 90 {
		t.Errorf("counted since: %+v", seen)
	}
	ended := Ran{Status: &control.Status{Counters: now.Counters}, Run: seen}
	var b strings.Builder
	if err := ended.Print(&b, "here"); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); !strings.HasPrefix(text, "40 pages, 2 duplicates") || !strings.Contains(text, "all runs: 140 pages, 12 duplicates") {
		t.Errorf("printed:\n%s", text)
	}
	b.Reset()
	ended.Run = ended.Counters
	if err := ended.Print(&b, "here"); err != nil || strings.Contains(b.String(), "all runs") {
		t.Errorf("of a first run: %v\n%s", err, b.String())
	}
	if gone := since(&control.Counters{Pages: 7}, &before); gone.Pages != 0 {
		t.Errorf("a member that went took its counts along: %+v", gone)
	}
}

// TestBar: the line is painted over, not too often, and the end of a crawl is always shown.
func TestBar(t *testing.T) {
	var b bytes.Buffer
	show, done := bar(&b)
	for _, p := range []struct {
		seen, pending int64
		idle          bool
	}{{1000, 250, false}, {1001, 0, false}, {4, 0, true}} {
		at := progressAt(0, p.seen-p.pending, p.idle)
		at.URLsSeen, at.URLsPending = p.seen, p.pending
		if err := show(at); err != nil {
			t.Fatal(err)
		}
	}
	done()
	want := "\r750/1000 URLs " + strings.Repeat("█", 18) + strings.Repeat("░", 6) + " 750 pages\x1b[K\r4/4 URLs " + strings.Repeat("█", 24) + " 4 pages, done\x1b[K\n"
	if got := b.String(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
