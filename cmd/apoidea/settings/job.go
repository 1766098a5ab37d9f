package settings

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/volunteer"
	"github.com/apoidea/apoidea/node/services/jobs"
)

// Job holds the flags of a job, shared by run, crawl and cluster up.
type Job struct {
	// asked is set by flags; the other fields are parsed into it.
	asked     control.JobSpec
	maxDepth  []string
	retries   int
	maxBytes  string
	again     bool
	seeds     string
	sitemaps  []string
	trapRules string
	list      *SeedList
}

// In is the input for a list named -.
var In io.Reader = os.Stdin

// Add adds the flags to f.
func (j *Job) Add(f *pflag.FlagSet) {
	f.StringVar(&j.seeds, "seeds", "", "file of seeds, one URL per line, # for comments; -: stdin")
	f.StringArrayVar(&j.sitemaps, "sitemap", nil, "URL of a sitemap, feed or URL list used as seed; repeatable")
	f.StringArrayVar(&j.asked.Scope, "scope", nil, "host glob that the job may crawl; repeatable (default the seeds' hosts and those that seeds redirect to)")
	f.StringArrayVar(&j.asked.Include, "include", nil, "follow only matching links: /PATH, HOST/PATH or re:EXPRESSION; repeatable")
	f.StringArrayVar(&j.asked.Exclude, "exclude", nil, "skip matching URLs, patterns as for --include; repeatable")
	f.StringArrayVar(&j.asked.First, "first", nil, "fetch matching URLs first, patterns as for --include; repeatable")
	f.StringArrayVar(&j.maxDepth, "max-depth", nil, "maximum links from a seed: N, or HOST=N for a glob; repeatable (default unlimited)")
	f.Uint64Var(&j.asked.MaxPages, "max-pages", 0, "maximum pages; 0: unlimited")
	f.StringVar(&j.maxBytes, "max-bytes", "0", "maximum bytes, such as 500MiB; 0: unlimited")
	f.Uint64Var(&j.asked.MaxPagesPerHost, "max-pages-per-host", 0, "maximum pages per host, duplicates included; 0: unlimited")
	f.BoolVar(&j.asked.Requisites, "requisites", false, "also fetch images, scripts, styles and fonts, on any host")
	f.BoolVar(&j.asked.NoSitemaps, "no-sitemaps", false, "ignore sitemaps and feeds")
	f.StringVar(&j.trapRules, "trap-rules", "on", "rules that leave endless parts of a site: on or off")
	f.IntVar(&j.retries, "retries", 3, "retries of a URL after transient failures (after 5s, 1m, 5m)")
	f.StringVar(&j.asked.Refresh, "refresh", "", "visit pages again: N/day by all peers, or an interval like 7d (default never)")
	f.BoolVar(&j.again, "again", false, "crawl a finished job again")
}

// Spec returns the job of the flags with these seeds.
func (j *Job) Spec(urls []string) (control.JobSpec, error) {
	bytes, err := volunteer.ParseSize(j.maxBytes)
	if err != nil {
		return control.JobSpec{}, fmt.Errorf("%w: max-bytes %q: %w", ErrUsage, j.maxBytes, err)
	}
	if j.retries < 0 || j.retries > 20 {
		return control.JobSpec{}, fmt.Errorf("%w: retries %d: must be between 0 and 20", ErrUsage, j.retries)
	}
	if len(j.sitemaps) > 0 && j.asked.NoSitemaps {
		return control.JobSpec{}, fmt.Errorf("%w: --sitemap %s: excluded by --no-sitemaps", ErrUsage, j.sitemaps[0])
	}
	if j.trapRules != "on" && j.trapRules != "off" {
		return control.JobSpec{}, fmt.Errorf("%w: trap-rules %q: must be on or off", ErrUsage, j.trapRules)
	}
	if j.asked.Refresh != "" {
		if _, err := job.ParseRefresh(j.asked.Refresh); err != nil {
			return control.JobSpec{}, fmt.Errorf("%w: refresh %w", ErrUsage, err)
		}
	}
	urls = slices.Concat(urls, j.sitemaps)
	spec := j.asked
	spec.NoTrapRules = j.trapRules == "off"
	spec.URLs, spec.MaxBytes, spec.Continue, spec.Once = urls, uint64(bytes), true, !j.again // not negative
	if err := j.readDepths(&spec); err != nil {
		return spec, err
	}
	if j.retries != 3 {
		retries := uint32(j.retries)
		spec.Retries = &retries
	}
	if j.seeds != "" {
		if err := j.readSeeds(&spec); err != nil {
			return spec, fmt.Errorf("%w: %w", ErrUsage, err)
		}
	}
	if len(spec.URLs) == 0 {
		return spec, nil
	}
	for _, url := range urls {
		if isFile(url) {
			return spec, fmt.Errorf("%w: %s is a file, expected a URL: read its URLs with --seeds %s, or name a site with http://%s", ErrUsage, url, url, url)
		}
	}
	return spec, jobs.Check(spec)
}

// readSeeds reads the list of --seeds a first time and copies what fits into the spec.
func (j *Job) readSeeds(spec *control.JobSpec) error {
	exclude, err := job.NewFilters(spec.Exclude)
	if err != nil {
		return fmt.Errorf("exclude %w", err)
	}
	if _, err := job.NewScope(spec.Scope); err != nil {
		return err
	}
	if j.list, err = OpenSeeds(j.seeds, In, func(url string) error {
		if text := exclude.Match(url); text != "" {
			return fmt.Errorf("excluded by --exclude %q", text)
		}
		return nil
	}); err != nil {
		return err
	}
	spec.URLs = append(slices.Clone(spec.URLs), j.list.First...)
	if j.list.Whole {
		return nil
	}
	spec.MoreSeeds, spec.SeedsDigest = j.list.Total, j.list.Digest
	if len(spec.Scope) == 0 && !j.list.Hosts {
		return fmt.Errorf("seeds %s: too many hosts for an implicit scope: set --scope; --scope '*' --max-depth 0 fetches only these URLs", j.seeds)
	}
	return nil
}

// seedsAtOnce is the batch size of seeds, listedEvery the interval of progress.
const (
	seedsAtOnce = 5000
	listedEvery = 2 * time.Second
)

// Post posts the job that Spec returned, with its whole list. A repeated post sends the list again,
// because the first may have been interrupted; known seeds are cheap.
func (j *Job) Post(ctx context.Context, p control.Backend, spec control.JobSpec, say func(text string)) (*control.Job, error) {
	posted, err := p.Post(ctx, spec)
	if err != nil || spec.MoreSeeds == 0 {
		return posted, err
	}
	var sent uint64
	told := time.Now()
	if err := j.list.Each(ctx, seedsAtOnce, func(urls []string) error {
		err := p.AddSeeds(ctx, posted.ID, urls)
		sent += uint64(len(urls))
		if time.Since(told) >= listedEvery {
			told = time.Now()
			say(fmt.Sprintf("seeds: %d of %d sent to the ring", sent, spec.MoreSeeds))
		}
		return err
	}); err != nil {
		return nil, fmt.Errorf("%w (job %s is posted; the same command continues)", err, posted.ID)
	}
	now, err := p.Job(ctx, posted.ID)
	if err != nil {
		return nil, err
	}
	now.Continued = posted.Continued
	return now, nil
}

// Close closes the list, if any.
func (j *Job) Close() error {
	if j.list == nil {
		return nil
	}
	return j.list.Close()
}

// readDepths parses depths: N for all hosts, HOST=N for some.
func (j *Job) readDepths(spec *control.JobSpec) error {
	for _, text := range j.maxDepth {
		host, number, some := strings.Cut(text, "=")
		if !some {
			number = text
		}
		n, err := strconv.ParseUint(number, 10, 32)
		switch depth := uint32(n); {
		case err != nil:
			return fmt.Errorf("%w: max-depth %q: must be a number of links, or HOST=NUMBER", ErrUsage, text)
		case some:
			spec.HostDepths = append(spec.HostDepths, control.HostDepth{Host: host, Depth: depth})
		case spec.MaxDepth != nil:
			return fmt.Errorf("%w: max-depth %q: already %d for all hosts; use HOST=%s for one host", ErrUsage, text, *spec.MaxDepth, number)
		default:
			spec.MaxDepth = &depth
		}
	}
	return nil
}

// isFile reports whether an argument without a scheme is a file: it exists, or has the extension of
// one.
func isFile(arg string) bool {
	if strings.Contains(arg, "://") {
		return false
	}
	if info, err := os.Stat(arg); err == nil && info.Mode().IsRegular() {
		return true
	}
	return !strings.Contains(arg, "/") && slices.Contains([]string{".txt", ".csv", ".lst"}, strings.ToLower(filepath.Ext(arg)))
}
