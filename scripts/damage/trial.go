package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// result is what came of a trial.
type result struct {
	name          string
	check, repair string
	asked, may    int
	lost          int
	took          time.Duration
	wrong         []string
}

func (r *result) String() string {
	verdict := "ok"
	if len(r.wrong) > 0 {
		verdict = "WRONG: " + strings.Join(r.wrong, "; ")
	}
	return fmt.Sprintf("%-34s %-9s %-9s %6d %6d %6d  %s (%.1f s)", r.name, r.check, r.repair, r.asked, r.may, r.lost, verdict, r.took.Seconds())
}

func (r *result) fail(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.wrong = append(r.wrong, strings.Join(strings.Fields(text[:min(len(text), 600)]), " "))
}

// run makes a copy, spoils it, and does what a person would do.
func (t *trial) run(ctx context.Context, o *options, b *bases, number int) *result {
	if t.ring {
		return t.runRing(ctx, o, b, number)
	}
	began := time.Now()
	r := &result{name: t.name, check: "-", repair: "-"}
	dir := filepath.Join(o.work, fmt.Sprintf("t%d", number))
	base := b.sound
	if t.killed {
		base = b.killed
	}
	err := os.CopyFS(dir, os.DirFS(base))
	if err == nil {
		err = t.harm(dir)
	}
	if err != nil {
		r.fail("the harm could not be done: %v", err)
		return r
	}
	allowed, err := touched(b.sound, dir)
	if err != nil {
		r.fail("%v", err)
	}
	t.mend(ctx, r, dir)
	before := time.Now()
	r.asked = b.again(ctx, r, dir, b.seed)
	if n := b.again(ctx, r, dir, b.seed); n > 0 {
		r.fail("%d requests when the same command was given once more", n)
	}
	t.judge(ctx, r, b, dir, allowed, before)
	r.took = time.Since(began)
	if len(r.wrong) == 0 {
		_ = os.RemoveAll(dir)
	}
	return r
}

// again crawls on in a directory, and says how many requests that came to.
func (b *bases) again(ctx context.Context, r *result, dir string, args []string) int {
	before := b.requests()
	if out, err := apoidea(ctx, runArgs(dir, append([]string{"--delay", "0"}, args...)...)...); err != nil {
		r.fail("run: %v: %s", err, out)
	}
	return int(b.requests() - before)
}

// mend does check, repair, and check again.
func (t *trial) mend(ctx context.Context, r *result, dir string) {
	if t.refused { // in a copy, as a run may go some way
		copied := dir + "r"
		if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
			r.fail("%v", err)
		}
		defer func() { _ = os.RemoveAll(copied) }()
		if out, err := apoidea(ctx, runArgs(copied)...); err == nil || !strings.Contains(out, "apoidea check") || !strings.Contains(out, "apoidea repair") || strings.Contains(out, "carrier") {
			r.fail("run does not say what helps: %v: %s", err, out)
		}
	}
	out, err := apoidea(ctx, "check", "--quiet", "--data-dir", dir)
	switch {
	case err != nil:
		r.check = "found"
		if t.harmless {
			r.fail("check of what is harmless: %s", out)
		}
	case t.harmless || t.any:
		r.check = "sound"
	default:
		r.check = "MISSED"
		r.fail("check finds nothing")
	}
	if strings.Contains(out, "carrier") || strings.Contains(out, "panic") {
		r.fail("check says %s", out)
	}
	if out, err := apoidea(ctx, "repair", "--quiet", "--data-dir", dir); err != nil || strings.Contains(out, "carrier") {
		r.repair = "FAILED"
		r.fail("repair: %v: %s", err, out)
	} else {
		r.repair = "done"
	}
	if out, err := apoidea(ctx, "check", "--quiet", "--data-dir", dir); err != nil {
		r.fail("check of what was repaired: %s", out)
	}
}

// judge compares what is there in the end with what was there.
func (t *trial) judge(ctx context.Context, r *result, b *bases, dir string, allowed map[string]bool, began time.Time) {
	pages, err := readArchive(dir)
	if err != nil {
		r.fail("the archive in the end: %v", err)
		return
	}
	for url, p := range b.pages {
		if got, ok := pages[url]; !ok || got.digest != p.digest {
			if r.lost++; r.lost <= 3 {
				r.fail("%s is not in the archive as it was", url)
			}
		}
	}
	r.may = len(allowed) + len(b.bare)
	if !t.killed && !t.rollback {
		for url, p := range pages {
			if p.at.After(began) && !allowed[url] && !b.bare[url] {
				r.fail("%s was fetched again and was not damaged", url)
			}
		}
	}
	if r.asked > r.may && !t.killed && !t.rollback {
		r.fail("%d requests, %d were needed", r.asked, r.may)
	}
	urls, err := outcomes(ctx, dir)
	if err != nil {
		r.fail("%v", err)
		return
	}
	for url := range b.pages {
		if o := urls[url]; o != "ok" && o != "duplicate" && o != "noindex" {
			r.fail("%s ended as %q", url, o)
		}
	}
	for url := range b.bare {
		if _, ok := urls[url]; !ok && t.name != "" && !t.killed {
			r.fail("nothing is known of %s any more", url)
		}
	}
	if out, err := apoidea(ctx, "check", "--quiet", "--data-dir", dir); err != nil {
		r.fail("check in the end: %s", out)
	}
	if len(r.wrong) > 4 {
		r.wrong = append(r.wrong[:4], fmt.Sprintf("and %d more", len(r.wrong)-4))
	}
}
