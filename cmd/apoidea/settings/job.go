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

	"github.com/apoidea/apoidea/cmd/apoidea/seeds"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/jobs"
	"github.com/apoidea/apoidea/node/volunteer"
)

// Job are the flags of a job, shared by run, crawl and cluster up.
type Job struct {
	// asked is what the flags set; the others are read into it.
	asked    control.JobSpec
	maxDepth []string
	retries  int
	maxBytes string
	again    bool
	seeds    string
	sitemaps []string
	list     *seeds.List
}

// In is where a list named - is read from.
var In io.Reader = os.Stdin

// Add adds the flags to f.
func (j *Job) Add(f *pflag.FlagSet) {
	f.StringVar(&j.seeds, "seeds", "", "FILE of more seeds, one URL a line, # or blank and # before a comment; - reads standard input")
	f.StringArrayVar(&j.sitemaps, "sitemap", nil, "URL of a sitemap, feed or plain list of URLs; becomes a seed, repeatable")
	f.StringArrayVar(&j.asked.Scope, "scope", nil, "host glob the job may crawl, repeatable (default: the seeds' hosts and those that seeds redirect to)")
	f.StringArrayVar(&j.asked.Include, "include", nil, "follow only links to pages that match: /PATH, HOST/PATH (as in robots.txt: * is anything, $ the end) or re:EXPRESSION, repeatable; seeds are always fetched")
	f.StringArrayVar(&j.asked.Exclude, "exclude", nil, "fetch nothing that matches: as --include, repeatable")
	f.StringArrayVar(&j.asked.First, "first", nil, "fetch what matches before all else, as far as it is known: as --include, such as https://example.org/news/, repeatable")
	f.StringArrayVar(&j.maxDepth, "max-depth", nil, "links away from the seeds, 0 fetches the seeds alone; with HOST=N for the hosts of a glob, repeatable, the first that matches (default: no bound)")
	f.Uint64Var(&j.asked.MaxPages, "max-pages", 0, "pages fetched in all; 0 is no bound")
	f.StringVar(&j.maxBytes, "max-bytes", "0", "bytes fetched in all, as 500MiB or 2GiB; 0 is no bound")
	f.Uint64Var(&j.asked.MaxPagesPerHost, "max-pages-per-host", 0, "pages fetched of one host: duplicates, sitemaps and those over --max-body count, errors and redirects do not; 0 is no bound")
	f.BoolVar(&j.asked.Requisites, "requisites", false, "fetch images, scripts, style sheets and fonts of pages as well, on any host")
	f.BoolVar(&j.asked.NoSitemaps, "no-sitemaps", false, "do not follow sitemaps and feeds, of robots.txt or others")
	f.IntVar(&j.retries, "retries", 3, "further tries of a URL that failed for a passing reason (after 5s, 1m, 5m)")
	f.BoolVar(&j.again, "again", false, "crawl anew what a job with the same words has finished")
}

// Spec is the job of the flags with these seeds.
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
	urls = slices.Concat(urls, j.sitemaps)
	spec := j.asked
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
			return spec, fmt.Errorf("%w: %s is a file, and URLs are wanted: --seeds %s takes those in it; a site of that name is http://%s", ErrUsage, url, url, url)
		}
	}
	return spec, jobs.Check(spec)
}

// readSeeds reads the list of --seeds a first time, and puts into the spec what has room there.
func (j *Job) readSeeds(spec *control.JobSpec) error {
	exclude, err := job.NewFilters(spec.Exclude)
	if err != nil {
		return fmt.Errorf("exclude %w", err)
	}
	if _, err := job.NewScope(spec.Scope); err != nil {
		return err
	}
	if j.list, err = seeds.Open(j.seeds, In, func(url string) error {
		if text := exclude.Match(url); text != "" {
			return fmt.Errorf("--exclude %q leaves it out", text)
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
		return fmt.Errorf("seeds %s: more hosts than a job holds by name: say which ones it may crawl, with --scope; --scope '*' --max-depth 0 fetches these URLs alone", j.seeds)
	}
	return nil
}

// Poster is what a job is posted to: a peer.
type Poster interface {
	// Post, AddSeeds, Job: as in control.Backend.
	Post(ctx context.Context, spec control.JobSpec) (*control.Job, error)
	AddSeeds(ctx context.Context, id string, urls []string) error
	Job(ctx context.Context, id string) (*control.Job, error)
}

// seedsAtOnce is how many seeds of a list go to the peer at once, listedEvery how often that is
// told.
const (
	seedsAtOnce = 5000
	listedEvery = 2 * time.Second
)

// Post posts the job that Spec returned, with all of its list. A list is handed over again each
// time, as it may have been broken off: what the ring knows of it costs next to nothing.
func (j *Job) Post(ctx context.Context, p Poster, spec control.JobSpec, say func(text string)) (*control.Job, error) {
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
			say(fmt.Sprintf("seeds: %d of %d are with the ring", sent, spec.MoreSeeds))
		}
		return err
	}); err != nil {
		return nil, fmt.Errorf("%w (job %s is posted; the same command goes on)", err, posted.ID)
	}
	now, err := p.Job(ctx, posted.ID)
	if err != nil {
		return nil, err
	}
	now.Continued = posted.Continued
	return now, nil
}

// Close gives the list back, if there is one.
func (j *Job) Close() error {
	if j.list == nil {
		return nil
	}
	return j.list.Close()
}

// readDepths reads the bounds on depth: N for all hosts, HOST=N for some.
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
			return fmt.Errorf("%w: max-depth %q: the bound for all hosts is %d already; HOST=%s is one for some", ErrUsage, text, *spec.MaxDepth, number)
		default:
			spec.MaxDepth = &depth
		}
	}
	return nil
}

// isFile says whether what stands where a URL should, and has no scheme, is meant as a file: one is
// there, or its name ends as no host's does.
func isFile(arg string) bool {
	if strings.Contains(arg, "://") {
		return false
	}
	if info, err := os.Stat(arg); err == nil && info.Mode().IsRegular() {
		return true
	}
	return !strings.Contains(arg, "/") && slices.Contains([]string{".txt", ".csv", ".lst"}, strings.ToLower(filepath.Ext(arg)))
}
