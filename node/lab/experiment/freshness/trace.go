package freshness

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/apoidea/apoidea/crawl/placement/registry"
	"github.com/apoidea/apoidea/node/lab/experiment/trial"
)

// The size limits of a trace.
const (
	maxRows  = 1 << 20
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
		if err := registry.Read(path, t.read); err != nil {
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

// read reads rows of page, host and Unix seconds. The first row of a page begins its history, the
// others are changes in ascending order.
func (t *trace) read(in *bufio.Reader) error {
	table, err := registry.NewTable(in, "page", "host", "unix_s")
	if err != nil {
		return err
	}
	index, hosts := make(map[string]int), make(map[string]bool)
	first, last, latest := math.Inf(1), 0., []float64(nil) // latest by page
	for rows := 0; ; rows++ {
		if err := table.Next(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if rows == maxRows {
			return fmt.Errorf("more than %d rows", maxRows)
		}
		seconds, err := strconv.ParseInt(table.Field("unix_s"), 10, 64)
		if err != nil || seconds < 0 || seconds >= 1<<33 {
			return table.Wrong("unix_s", "is not a time in Unix seconds")
		}
		url, host, at := table.Field("page"), table.Field("host"), float64(seconds)/day
		i, known := index[url]
		switch {
		case known && host != t.pages[i].host:
			return table.Wrong("host", "is not the host of the earlier rows of the page")
		case known && at < latest[i]:
			return table.Wrong("unix_s", "is before the earlier rows of the page")
		case known:
			t.pages[i].changes, latest[i] = append(t.pages[i].changes, at), at
		case url == "" || host == "":
			return table.Wrong("page", "has no page or no host")
		case len(index) == maxPages:
			return table.Wrong("page", fmt.Sprintf("is one more than %d pages", maxPages))
		default:
			index[url], hosts[host] = len(t.pages), true
			t.pages, latest = append(t.pages, page{url: url, host: host, begin: at}), append(latest, at)
		}
		first, last = min(first, at), max(last, at)
	}
	t.hosts, t.days = len(hosts), max(last-first, 0)
	if !(t.days > 0 && t.days <= maxDays) {
		return fmt.Errorf("%.0f days between the first and the last row, want up to %d", t.days, maxDays)
	}
	for i := range t.pages {
		p := &t.pages[i]
		p.begin -= first
		for k := range p.changes {
			p.changes[k] -= first
		}
	}
	t.pages = slices.DeleteFunc(t.pages, func(p page) bool { return p.begin >= t.days }) // without a time to measure
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
