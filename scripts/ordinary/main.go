// Command ordinary tries what ordinary sites and users do: redirects of seeds, bodies that end
// early, cookie walls, exports, interrupted commands. Each case has a server of raw bytes on
// loopback or real apoidea processes. scripts/ordinary.sh builds and calls it.
//
//	ordinary --work DIR [--quick] [--jobs N] [CASE]...
//
// It prints one line per case and exits with 1 if any is WRONG.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/apoidea/apoidea/scripts/harness"
)

// scenario is one circumstance and what is expected of the product in it.
type scenario struct {
	name, words string
	slow        bool // left out with --quick
	run         func(t *trial)
}

var scenarios = slices.Concat(seedCases, siteCases, resultCases, hourCases, commandCases)

// options are the values of the command line.
type options struct {
	work        string
	quick, keep bool
	jobs        int
	limit       time.Duration
}

func main() {
	o := options{keep: os.Getenv("KEEP") == "1"}
	flag.BoolVar(&o.quick, "quick", false, "only the fast cases")
	flag.IntVar(&o.jobs, "jobs", 4, "cases at once")
	flag.DurationVar(&o.limit, "limit", 4*time.Minute, "time for one case")
	flag.Usage = harness.Usage(func(line func(name, words string)) {
		for _, s := range scenarios {
			words := s.words
			if s.slow {
				words += " (not with --quick)"
			}
			line(s.name, words)
		}
	})
	harness.Main(&o.work, func(ctx context.Context, names []string) (bool, error) {
		chosen, err := harness.Choose(scenarios, names, func(s scenario) string { return s.name }, func(s scenario) bool { return !o.quick || !s.slow })
		return err == nil && runAll(ctx, &o, chosen), err
	})
}

// runAll runs several cases at once and prints each when it ends.
func runAll(ctx context.Context, o *options, chosen []scenario) bool {
	begin := time.Now()
	var (
		group   sync.WaitGroup
		printed sync.Mutex // guards what follows, and standard output
		count   = make(map[string]int)
	)
	free := make(chan struct{}, max(o.jobs, 1))
	for _, s := range chosen {
		free <- struct{}{}
		group.Go(func() {
			defer func() { <-free }()
			if ctx.Err() != nil {
				return
			}
			t := runOne(ctx, o, s)
			printed.Lock()
			defer printed.Unlock()
			count[t.word()]++
			fmt.Println(t.line())
		})
	}
	group.Wait()
	fmt.Printf("%d ok, %d WRONG, %d skipped in %.0f s\n", count["ok"], count["WRONG"], count["skip"], time.Since(begin).Seconds())
	return count["WRONG"] == 0 && ctx.Err() == nil
}

func runOne(ctx context.Context, o *options, s scenario) *trial {
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	t := &trial{Context: ctx, options: o, scenario: s, dir: filepath.Join(o.work, s.name), begin: time.Now()}
	defer t.group.Wait()
	defer cancel()
	err := harness.Try(func() {
		harness.Check(os.MkdirAll(t.dir, 0o755))
		s.run(t)
	})
	if err != nil {
		t.Blame("%v", err)
	}
	t.took = time.Since(t.begin)
	if len(t.Wrong) == 0 && !o.keep {
		if err := os.RemoveAll(t.dir); err != nil {
			t.Blame("%v", err)
		}
	}
	return t
}

// trial is one run of a case.
type trial struct {
	context.Context //nolint:containedctx // its life is one call
	*options
	scenario
	dir     string
	group   sync.WaitGroup // servers, which end with the context
	skipped string
	begin   time.Time
	took    time.Duration
	harness.Verdict
}

func (t *trial) word() string {
	switch {
	case len(t.Wrong) > 0:
		return "WRONG"
	case t.skipped != "":
		return "skip"
	}
	return "ok"
}

func (t *trial) line() string {
	parts := make([]string, 0, 4)
	if len(t.Wrong) > 0 {
		parts = append(parts, "WRONG: "+strings.Join(t.Wrong, "; "))
	}
	if len(t.Notes) > 0 {
		parts = append(parts, "as expected: "+strings.Join(t.Notes, "; "))
	}
	if t.skipped != "" {
		parts = append(parts, "skipped: "+t.skipped)
	}
	text := strings.ReplaceAll(strings.Join(parts, " | "), "\n", `\n`)
	return fmt.Sprintf("%-5s %-18s %s (%.1f s)", t.word(), t.name, text, t.took.Seconds())
}

// want compares what was seen with what is expected.
func (t *trial) want(what string, seen, expected any) {
	if s, e := fmt.Sprint(seen), fmt.Sprint(expected); s != e {
		t.Blame("%s: %s, expected %s", what, s, e)
	} else {
		t.Say("%s: %s", what, s)
	}
}

// holds reports what was seen and whether it is what is expected.
func (t *trial) holds(ok bool, what string, seen any, expected string) {
	if ok {
		t.Say("%s: %v", what, seen)
	} else {
		t.Blame("%s: %v, expected %s", what, seen, expected)
	}
}

// maxShown bounds the text of a process in a line.
const maxShown = 240

// has expects each part in a text, regardless of case.
func (t *trial) has(what, text string, parts ...string) {
	flat := strings.Join(strings.Fields(text), " ")
	if i := slices.IndexFunc(parts, func(p string) bool { return !strings.Contains(strings.ToLower(flat), strings.ToLower(p)) }); i >= 0 {
		t.Blame("%s: %q, expected %q in it", what, tail(flat), parts[i])
		return
	}
	t.Say("%s: has %q", what, parts)
}

// lacks expects none of the parts in a text.
func (t *trial) lacks(what, text string, parts ...string) {
	for _, p := range parts {
		if i := strings.Index(text, p); i >= 0 {
			t.Blame("%s: %q, expected no %q", what, text[max(i-100, 0):min(i+100, len(text))], p)
			return
		}
	}
	t.Say("%s: has no %q", what, parts)
}

func tail(text string) string {
	if len(text) > maxShown {
		return "..." + text[len(text)-maxShown:]
	}
	return text
}

// skip notes why a part of the case was not tried.
func (t *trial) skip(why string) { t.skipped = strings.TrimPrefix(t.skipped+", "+why, ", ") }
