package main

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/node/lab/experiment/trial"
)

// The size limits of a trace.
const (
	maxPages = 1 << 13
	maxDays  = 30 * 366
)

const (
	day = 86400 // seconds

	usualEvery     = 28  // days between visits of a page, on average
	syntheticEvery = 14  // days
	fewChanges     = 0.2 // of a page in that time: a trace with fewer gets twice the time
)

// page is the history of a page.
type page struct {
	url, host string
	changes   []float64 // days since the start of the trace, ascending
	begin     float64   // day at which its history begins
}

// trace is the history of pages.
type trace struct {
	name  string
	pages []page
	hosts int
	days  float64
	every float64 // mean days between visits of a page
}

// rate returns the true rate of a page in changes a day.
func (t *trace) rate(i int) float64 {
	p := &t.pages[i]
	return float64(len(p.changes)) / (t.days - p.begin)
}

// traces reads the files of --traces, or draws one trace.
func traces(o *trial.Options) ([]*trace, error) {
	if o.Traces == "" {
		return []*trace{synthetic(o)}, nil
	}
	paths, err := filepath.Glob(filepath.Join(o.Traces, "*.csv.gz"))
	if err == nil && len(paths) == 0 {
		err = fmt.Errorf("%w: traces %s: no files *.csv.gz", trial.ErrOptions, o.Traces)
	}
	var all []*trace
	for _, path := range paths {
		t := &trace{name: strings.TrimSuffix(filepath.Base(path), ".csv.gz")}
		changes, err := webgen.ReadChanges(path)
		if err == nil {
			err = t.read(changes)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: traces %s: %w", trial.ErrOptions, path, err)
		}
		t.every = o.Every
		for t.every == 0 || o.Every == 0 && t.changes()*t.every < fewChanges && t.every < t.days/16 {
			t.every = max(2*t.every, usualEvery)
		}
		all = append(all, t)
	}
	return all, err
}

// changes returns the mean rate of the pages in changes a day.
func (t *trace) changes() (mean float64) {
	for i := range t.pages {
		mean += t.rate(i) / float64(len(t.pages))
	}
	return mean
}

// read takes over the histories of a file.
func (t *trace) read(c webgen.Changes) error {
	first, last := int64(math.MaxInt64), int64(0)
	for _, host := range c {
		for _, times := range host {
			first, last = min(first, times[0]), max(last, times[len(times)-1])
		}
	}
	t.hosts, t.days = len(c), float64(last-first)/day
	for h, host := range c {
		for n, times := range host {
			p := page{url: fmt.Sprint(h, " ", n), host: strconv.Itoa(h), begin: float64(times[0]-first) / day}
			for _, at := range times[1:] {
				p.changes = append(p.changes, float64(at-first)/day)
			}
			if p.begin < t.days { // else there is no time to measure
				t.pages = append(t.pages, p)
			}
		}
	}
	if len(t.pages) > maxPages || !(t.days > 0 && t.days <= maxDays) {
		return fmt.Errorf("%d pages, at most %d; %.0f days between the first and the last row, up to %d", len(t.pages), maxPages, t.days, maxDays)
	}
	return nil
}

// synthetic draws pages that change as Poisson processes: a change in ten days on average, with
// rates that differ as a Gamma distribution of shape 0.5.
func synthetic(o *trial.Options) *trace {
	rng := o.Rand(0x66726573)
	t := &trace{name: "synthetic", days: trial.Either(o, 720., 240.), every: cmp.Or(o.Every, syntheticEvery), hosts: 100}
	for i := range trial.Either(o, 500, 200) {
		x := rng.NormFloat64()
		rate := 0.1 * x * x // chi-squared with one degree of freedom: Gamma(0.5)
		p := page{url: strconv.Itoa(i), host: strconv.Itoa(i % t.hosts)}
		for at := rng.ExpFloat64() / rate; at < t.days; at += rng.ExpFloat64() / rate {
			p.changes = append(p.changes, at)
		}
		t.pages = append(t.pages, p)
	}
	return t
}
