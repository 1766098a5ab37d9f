package settings

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/jobs"
)

// Job are the flags of a job, shared by run, crawl and cluster up.
type Job struct {
	// asked is what the flags set; the others are read into it.
	asked    control.JobSpec
	maxDepth []string
	retries  int
	maxBytes string
	again    bool
}

// Add adds the flags to f.
func (j *Job) Add(f *pflag.FlagSet) {
	f.StringArrayVar(&j.asked.Scope, "scope", nil, "host glob the job may crawl, repeatable (default: the seeds' hosts)")
	f.StringArrayVar(&j.asked.Include, "include", nil, "follow only links to pages that match: /PATH, HOST/PATH (as in robots.txt: * is anything, $ the end) or re:EXPRESSION, repeatable; seeds are always fetched")
	f.StringArrayVar(&j.asked.Exclude, "exclude", nil, "fetch nothing that matches: as --include, repeatable")
	f.StringArrayVar(&j.maxDepth, "max-depth", nil, "links away from the seeds, 0 fetches the seeds alone; with HOST=N for the hosts of a glob, repeatable, the first that matches (default: no bound)")
	f.Uint64Var(&j.asked.MaxPages, "max-pages", 0, "pages fetched in all; 0 is no bound")
	f.StringVar(&j.maxBytes, "max-bytes", "0", "bytes fetched in all, as 500MB or 2GiB; 0 is no bound")
	f.Uint64Var(&j.asked.MaxPagesPerHost, "max-pages-per-host", 0, "pages fetched of one host: duplicates, sitemaps and those over --max-body count, errors and redirects do not; 0 is no bound")
	f.BoolVar(&j.asked.Requisites, "requisites", false, "fetch images, scripts and style sheets of pages as well")
	f.BoolVar(&j.asked.NoSitemaps, "no-sitemaps", false, "do not follow the sitemaps named in robots.txt")
	f.IntVar(&j.retries, "retries", 3, "further tries of a URL that failed for a passing reason (after 5s, 1m, 5m)")
	f.BoolVar(&j.again, "again", false, "crawl anew what a job with the same words has finished")
}

// Spec is the job of the flags with these seeds.
func (j *Job) Spec(urls []string) (control.JobSpec, error) {
	bytes, err := parseBytes(j.maxBytes)
	if err != nil {
		return control.JobSpec{}, fmt.Errorf("%w: max-bytes %q: %w", ErrUsage, j.maxBytes, err)
	}
	if j.retries < 0 || j.retries > 20 {
		return control.JobSpec{}, fmt.Errorf("%w: retries %d: must be between 0 and 20", ErrUsage, j.retries)
	}
	spec := j.asked
	spec.URLs, spec.MaxBytes, spec.Continue, spec.Once = urls, bytes, true, !j.again
	if err := j.readDepths(&spec); err != nil {
		return spec, err
	}
	if j.retries != 3 {
		retries := uint32(j.retries)
		spec.Retries = &retries
	}
	if len(urls) == 0 {
		return spec, nil
	}
	for _, url := range urls {
		if isFile(url) {
			return spec, fmt.Errorf("%w: %s is a file, and URLs are wanted: $(cat %s) in its place gives those in it; a site of that name is http://%s", ErrUsage, url, url, url)
		}
	}
	return spec, jobs.Check(spec)
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

// isFile says whether what stands where a URL should, and has no scheme, is meant as a file: one is there, or its name ends as no host's does.
func isFile(arg string) bool {
	if strings.Contains(arg, "://") {
		return false
	}
	if info, err := os.Stat(arg); err == nil && info.Mode().IsRegular() {
		return true
	}
	return !strings.Contains(arg, "/") && slices.Contains([]string{".txt", ".csv", ".lst"}, strings.ToLower(filepath.Ext(arg)))
}

// parseBytes reads a size with an optional unit: decimal kB, MB, GB or binary KiB, MiB, GiB.
func parseBytes(s string) (uint64, error) {
	units := []struct {
		suffix string
		factor uint64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1}}
	factor := uint64(1)
	for _, u := range units {
		if len(s) > len(u.suffix) && s[len(s)-len(u.suffix):] == u.suffix {
			s, factor = s[:len(s)-len(u.suffix)], u.factor
			break
		}
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("must be a number of bytes, with kB, MB, GB, KiB, MiB or GiB behind it if you like")
	}
	if n > ^uint64(0)/factor {
		return 0, fmt.Errorf("too large")
	}
	return n * factor, nil
}
