package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/scripts/harness"
)

// judge is what a family's own check is given.
type judge struct {
	*trial
	family *family
	hosts  []AuditHost
}

// asked is how often a path of a host of the family was asked for over HTTP.
func (j *judge) asked(name, path string) int {
	return j.w.audit.asked(j.w.host(j.family.name, name), path)
}

// judge compares what the server saw of each family, and what the peers used, with the bounds.
func (t *trial) judge(ctx context.Context) {
	for to, n := range t.w.trespass.take() {
		t.blame("%d connections to what is not allowed: %s", n, to)
	}
	t.judgeUse()
	t.records(ctx)
	for _, f := range t.families {
		sum, hosts := t.w.audit.report(f)
		t.report.Audits = append(t.report.Audits, sum)
		t.judgeManners(f, hosts)
		j := &judge{trial: t, family: f, hosts: hosts}
		j.wants("good", goodPaths()...)
		if f.check != nil {
			f.check(j)
		}
	}
}

func (t *trial) judgeUse() {
	m := &t.report.Most
	for _, c := range []struct {
		what       string
		used, most int64
		unit       int64
		of         string
	}{
		{"RSS", m.Peak, mostRSS, 1 << 20, " MiB"},
		{"threads", int64(m.Threads), mostThreads, 1, ""},
		{"goroutines", int64(m.Goroutines), mostRoutines, 1, ""},
		{"descriptors", int64(m.Files), mostFiles, 1, ""},
		{"disk besides archives", m.Disk, mostDisk, 1 << 20, " MiB"},
		{"log lines", int64(m.LogLines), int64(mostLogLines * len(t.families)), 1, ""},
	} {
		if c.used > c.most {
			t.blame("%s: %d%s, bound %d%s", c.what, c.used/c.unit, c.of, c.most/c.unit, c.of)
		}
	}
}

// judgeManners looks at what every site would mind.
func (t *trial) judgeManners(f *family, hosts []AuditHost) {
	bound := f.requests
	if bound == 0 {
		bound = hostRequests
	}
	least := milliseconds(trialDelay - delaySlack)
	count := make(map[string]int)
	first := make(map[string]string)
	wrong := func(what, host string) {
		if count[what]++; first[what] == "" {
			first[what] = host
		}
	}
	for _, h := range hosts {
		if h.Disallowed > 0 {
			wrong("asked for what robots.txt forbids", h.Host+" "+h.First)
		}
		if h.BeforeRobots > 0 {
			wrong("asked before robots.txt", h.Host+" "+h.First)
		}
		if h.Parallel > 0 {
			wrong("asked twice at once", fmt.Sprintf("%s, %d times", h.Host, h.Parallel))
		}
		if h.SmallestGapMS != nil && *h.SmallestGapMS < least {
			wrong("asked too soon", fmt.Sprintf("%s %.1f ms after an answer, delay %v: %s", h.Host, *h.SmallestGapMS, trialDelay, h.First))
		}
		if h.Requests > bound {
			wrong(fmt.Sprintf("asked more than %d times", bound), fmt.Sprintf("%s, %d times", h.Host, h.Requests))
		}
	}
	for what, n := range count {
		t.blame("%s: %d hosts %s: %s", f.name, n, what, first[what])
	}
}

// wants blames paths of a host of the family that were not asked for.
func (j *judge) wants(name string, paths ...string) {
	lost := slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return j.asked(name, path) > 0 })
	if len(lost) > 0 {
		j.blame("%s: %d of %d pages of %s were not asked for: %s", j.family.name, len(lost), len(paths), name, strings.Join(lost[:min(len(lost), 5)], " "))
	}
}

// settleWithin is how long a ring may take to have the records of a peer that left where they
// belong: until then an export says that it is not complete.
const settleWithin = 90 * time.Second

// records reads what the ring has on record of URLs, while the first peer lives, or from its
// directory.
func (t *trial) records(ctx context.Context) {
	args := []string{"export", "urls", "--data-dir", t.peers[len(t.peers)-1].Dir}
	if t.trialPlan.peers > 1 {
		args = []string{"export", "urls", "--ring", "--data-dir", t.peers[0].Dir}
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
			t.blame("export urls: %v: %s", err, clip(strings.TrimSpace(errOut.String())))
			break
		}
	}
	t.urls = make(map[string]string)
	t.report.Outcomes = make(map[string]int64)
	_ = harness.Records(bytes.NewReader(out), func(u *control.URLLine) { // a line that is cut off was blamed above
		t.urls[u.URL] = u.Outcome
		t.report.Outcomes[u.Outcome]++
	})
}

// outcome is what became of a URL of the family; empty: nothing is on record.
func (j *judge) outcome(url string) string { return j.urls[url] }

// expect blames outcomes that are none of those wanted.
func (j *judge) expect(url string, wanted ...string) {
	if got := j.outcome(url); !slices.Contains(wanted, got) {
		if got == "" {
			got = "no outcome"
		}
		j.blame("%s: %s has %s, want %s", j.family.name, clip(url), got, strings.Join(wanted, " or "))
	}
}
