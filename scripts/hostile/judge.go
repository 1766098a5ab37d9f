package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/scripts/harness"
)

// judge is what the check of a family is given.
type judge struct {
	*trial
	family *family
	hosts  []*hostAudit // most requests first
	byName map[string]*hostAudit
}

// mostShown bounds the hosts of a family that the JSON lists.
const mostShown = 10

// judge compares what the server saw of each family, and what the peers used, with the bounds.
func (t *trial) judge(ctx context.Context) {
	r := t.report
	for to, n := range t.w.trespass.take() {
		r.Blame("%d connections to what is not allowed: %s", n, to)
	}
	if !t.o.legit {
		bounds := use{Peak: mostRSS, Threads: mostThreads, Goroutines: mostRoutines, Files: mostFiles, Disk: mostDisk, LogLines: mostLogLines * len(t.families)}
		for _, over := range r.Most.over(&bounds) {
			r.Blame("%s", over)
		}
		t.records(ctx)
	}
	for _, f := range t.families {
		j := &judge{trial: t, family: f, hosts: t.w.audit.of(f), byName: make(map[string]*hostAudit)}
		for _, h := range j.hosts {
			j.byName[h.Host] = h
			r.Requests += h.Requests
			r.Against += h.Disallowed + h.BeforeRobots
		}
		r.Hosts += len(j.hosts)
		r.MostAsked = append(r.MostAsked, j.hosts[:min(len(j.hosts), mostShown)]...)
		j.politeness()
		if f.site != nil {
			j.judgeSite(ctx)
			continue
		}
		j.wants("good", goodPaths()...)
		if f.check != nil {
			f.check(j)
		}
	}
}

// over lists the figures that exceed a bound; a bound of zero is none.
func (u *use) over(bounds *use) (over []string) {
	for _, c := range []struct {
		what       string
		used, most int64
		unit       int64
		of         string
	}{
		{"RSS at most", u.Peak, bounds.Peak, 1 << 20, " MiB"},
		{"RSS", u.RSS, bounds.RSS, 1 << 20, " MiB"},
		{"threads", int64(u.Threads), int64(bounds.Threads), 1, ""},
		{"goroutines", int64(u.Goroutines), int64(bounds.Goroutines), 1, ""},
		{"descriptors", int64(u.Files), int64(bounds.Files), 1, ""},
		{"disk besides archives", u.Disk, bounds.Disk, 1 << 20, " MiB"},
		{"log lines", int64(u.LogLines), int64(bounds.LogLines), 1, ""},
	} {
		if c.most > 0 && c.used > c.most {
			over = append(over, fmt.Sprintf("%s: %d%s, bound %d%s", c.what, c.used/c.unit, c.of, c.most/c.unit, c.of))
		}
	}
	return over
}

// politeness judges what every site would mind.
func (j *judge) politeness() {
	bound := j.family.requests
	if bound == 0 {
		bound = hostRequests
	}
	least := milliseconds(trialDelay - delaySlack)
	count := make(map[string]int)
	first := make(map[string]string)
	wrong := func(is bool, what, format string, args ...any) {
		if is {
			if count[what]++; first[what] == "" {
				first[what] = fmt.Sprintf(format, args...)
			}
		}
	}
	for _, h := range j.hosts {
		wrong(h.Disallowed > 0, "asked for what robots.txt forbids", "%s %s", h.Host, h.First)
		wrong(h.BeforeRobots > 0, "asked before robots.txt", "%s %s", h.Host, h.First)
		wrong(h.Parallel > 0, "asked twice at once", "%s, %d times", h.Host, h.Parallel)
		if j.o.legit { // its delay is too short to measure, and its budget is the profile's
			continue
		}
		if gap := h.SmallestGapMS; gap != nil {
			wrong(*gap < least, "asked too soon", "%s %.1f ms after an answer, delay %v: %s", h.Host, *gap, trialDelay, h.First)
		}
		wrong(h.Requests > bound, fmt.Sprintf("asked more than %d times", bound), "%s, %d times", h.Host, h.Requests)
	}
	for what, n := range count {
		j.blame("%d hosts %s: %s", n, what, first[what])
	}
}

// blame adds a violation of the family.
func (j *judge) blame(format string, args ...any) {
	j.report.Blame("%s: %s", j.family.name, fmt.Sprintf(format, args...))
}

// host returns the audit of a host of the family over HTTP; empty if there were no requests.
func (j *judge) host(name string) *hostAudit {
	if h := j.byName[j.w.host(j.family.name, name)]; h != nil {
		return h
	}
	return &hostAudit{}
}

// asked is how often a path of a host of the family was requested over HTTP.
func (j *judge) asked(name, path string) int { return j.host(name).asked(path) }

// wants blames paths of a host of the family that were not requested.
func (j *judge) wants(name string, paths ...string) {
	asked := make(map[string]bool)
	for _, r := range j.host(name).log {
		asked[r.path] = true
	}
	lost := slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return asked[path] })
	if len(lost) > 0 {
		j.blame("%d of %d pages of %s were not asked for: %s", len(lost), len(paths), name, strings.Join(lost[:min(len(lost), 5)], " "))
	}
}

// wantsSecure blames hosts that were not asked for their root over HTTPS.
func (j *judge) wantsSecure(names ...string) {
	for _, url := range j.w.secures(j.family.name, names...) {
		h := j.byName[strings.TrimSuffix(strings.TrimPrefix(url, "https://"), "/")]
		if h == nil || h.asked("/") == 0 {
			j.blame("%s is acceptable, and was not asked", url)
		}
	}
}

// expect blames a URL without an outcome, or with none of those wanted.
func (j *judge) expect(url string, wanted ...string) {
	if got := j.urls[url]; got == "" || len(wanted) > 0 && !slices.Contains(wanted, got) {
		j.blame("%s has outcome %q, want %s", clip(url), got, cmp.Or(strings.Join(wanted, " or "), "any"))
	}
}

// settleWithin is how long a ring may take to restore the records of a peer that left: until then
// an export is reported as incomplete.
const settleWithin = 90 * time.Second

// records reads the outcomes of URLs from the ring, or from the directory of the only peer.
func (t *trial) records(ctx context.Context) {
	args := []string{"export", "urls", "--data-dir", t.peers[0].Dir}
	if t.trialPlan.peers > 1 {
		args = append(args, "--ring")
	}
	var out []byte
	for begun := time.Now(); ; time.Sleep(time.Second) {
		cmd := exec.CommandContext(ctx, "apoidea", args...)
		var errOut bytes.Buffer
		cmd.Stderr = &errOut
		var err error
		if out, err = cmd.Output(); err == nil {
			break
		}
		if t.trialPlan.peers == 1 || ctx.Err() != nil || time.Since(begun) > settleWithin {
			t.report.Blame("export urls: %v: %s", err, clip(strings.TrimSpace(errOut.String())))
			break
		}
	}
	t.urls = make(map[string]string)
	_ = harness.Records(bytes.NewReader(out), func(u *control.URLLine) { // a line that is cut off was blamed above
		t.urls[u.URL] = u.Outcome
	})
}
