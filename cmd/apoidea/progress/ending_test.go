package progress

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/apoidea/apoidea/node/control"
)

// ended is a peer whose crawl has ended, and how often it was asked for what it counted.
type ended struct {
	told
	job   control.Job
	hosts []control.HostLine
	asked int64
	// rest is what became of ten URLs between one walk and the next.
	rest  string
	walks int64
}

func (e *ended) Job(context.Context, string) (*control.Job, error) { return &e.job, nil }

func (e *ended) Why(context.Context, string) (*control.Why, error) {
	return &control.Why{Text: "it failed"}, nil
}

func (e *ended) Hosts(_ context.Context, _ bool, fn func(control.HostLine) error) error {
	for _, h := range e.hosts {
		if err := fn(h); err != nil {
			return err
		}
	}
	return nil
}

func (e *ended) Host(_ context.Context, name string) (*control.Host, error) {
	return &control.Host{Host: name, Jobs: []control.HostJob{{Trap: "its pages say nothing", Left: []control.RuleLeft{{Rule: 2, Text: "its pages say nothing", URLs: 7, Example: "http://x/1"}}}}}, nil
}

func (e *ended) SetJob(context.Context, string, string) (*control.Job, error) { return &e.job, nil }

func (e *ended) Ring(context.Context) (*control.Ring, error) {
	e.walks++
	e.asked++
	m := control.Member{Jobs: []control.JobCounts{{Outcomes: map[string]int64{"ok": 9, e.rest: 10 * e.walks}}}}
	m.Counters.Pages = 10 * e.asked
	return &control.Ring{Members: []control.Member{m}}, nil
}

// TestLeftOut: a crawl that left something names the hosts, the worst first, and how to go on
// there.
func TestLeftOut(t *testing.T) {
	e := &ended{}
	for i := range 8 {
		e.hosts = append(e.hosts, control.HostLine{Host: string(rune('a'+i)) + ".example", Seen: 1000, Left: int64(i * 100)})
	}
	args = []string{"/bin/apoidea", "run", "http://a.example/?x=1&y", "--allow-private", "--data-dir", "/srv/it's", "--max-pages", "5"}
	t.Cleanup(func() { args = os.Args })
	const typed = `apoidea run 'http://a.example/?x=1&y' --allow-private --data-dir '/srv/it'\''s' --max-pages 5`
	if l := leftOut(t.Context(), e, &control.Counters{}, nil, nil); l != nil {
		t.Errorf("nothing was left: %+v", l)
	}
	l := leftOut(t.Context(), e, &control.Counters{Traps: 2800}, nil, nil)
	if l.Hosts != 7 || l.URLs != 2800 || len(l.Worst) != mostLeft || l.Worst[0] != (LeftHost{"h.example", 700, 1000, 2333, "its pages say nothing", "http://x/1"}) {
		t.Errorf("%+v", l)
	}
	var b strings.Builder
	if err := l.print(&b); err != nil || !strings.Contains(b.String(), "h.example: 700 of 1000 known URLs") || !strings.Contains(b.String(), typed+" --trap-rules off http://h.example/\n") {
		t.Errorf("%v\n%s", err, b.String())
	}
	job := &control.Job{ID: "other", Spec: control.JobSpec{MaxPages: 5}}
	l = leftOut(t.Context(), e, &control.Counters{OutOfBudget: 1}, map[string]int64{"h.example": 690, "g.example": 600, "f.example": 500, "e.example": 400}, job)
	if l.Hosts != 4 || l.Worst[0].Host != "d.example" || l.Worst[3] != (LeftHost{"h.example", 10, 1000, 10, "--max-pages 5", ""}) || l.Command != typed+" --max-pages 0" {
		t.Errorf("beside what was left before: %+v", l)
	}
}

// TestCommandLineHidesSecrets: what --header sends to a host may be a secret, and --proxy may have
// a password.
func TestCommandLineHidesSecrets(t *testing.T) {
	args = []string{"apoidea", "run", "--header", "a.example: Authorization: secret", "--header=b.example: Cookie: secret", "--proxy", "http://a:secret@b:1", "--proxy=http://a:secret@b:1", "--delay", "1s"}
	t.Cleanup(func() { args = os.Args })
	if got, want := commandLine(), "apoidea run --header ... --header=... --proxy ... --proxy=... --delay 1s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func (e *ended) Status(context.Context, bool) (*control.Status, error) {
	e.asked++
	return &control.Status{Counters: control.Counters{Pages: 10 * e.asked}}, nil
}

// TestFoundDone: a job of which nothing was left to do, though that could not be told when it was
// posted, is one that was finished before.
func TestFoundDone(t *testing.T) {
	for _, c := range []struct {
		state string
		pages int64 // that were fetched meanwhile
		want  bool
	}{{control.JobDone, 0, true}, {control.JobDone, 3, false}, {"running", 0, false}} {
		peer := &ended{told: told{all: []control.Progress{progressAt(1, 20, true)}}, job: control.Job{ID: "x", State: c.state}}
		peer.job.Outcomes = map[string]int64{"ok": 12}
		crawl := &Crawl{peer: peer, before: control.Counters{Pages: 10 - c.pages}}
		ran, err := crawl.End(t.Context(), &control.Job{ID: "x", State: "running", Continued: true}, true, 0, Screen{Err: io.Discard}, io.Discard)
		if err != nil || (ran.Finished != nil) != c.want {
			t.Errorf("%+v: %+v, %v", c, ran, err)
		}
	}
}

// TestCrawl: what came of a crawl is what was counted since it began; that its job fetched nothing
// is told beside that.
func TestCrawl(t *testing.T) {
	for name, c := range map[string]struct {
		job     *control.Job
		rest    string
		fetched int64
		fails   bool
	}{
		"no job":                     {rest: "ok"},
		"no job, all known":          {rest: "duplicate"},
		"no job, none is there":      {rest: "http_error"},
		"no job, all refused":        {rest: "connect", fails: true},
		"no job, all ruled out":      {rest: "robots_denied"},
		"a job with pages":           {job: &control.Job{ID: "x"}, fetched: 3},
		"a job that fetched nothing": {job: &control.Job{ID: "x"}, fails: true},
		"one finished before":        {job: &control.Job{ID: "x", State: control.JobDone, Continued: true}},
	} {
		peer := &ended{told: told{all: []control.Progress{progressAt(1, 20, true)}}, rest: c.rest}
		peer.job.Spec.URLs, peer.job.Outcomes = []string{"http://a/"}, map[string]int64{"ok": c.fetched}
		crawl, err := Begin(t.Context(), peer)
		if err != nil {
			t.Fatal(err)
		}
		ran, err := crawl.End(t.Context(), c.job, true, 0, Screen{Err: io.Discard}, io.Discard)
		if ran == nil || ran.Run.Pages != 10 || ran.Pages != 20 || (err != nil) != c.fails {
			t.Errorf("%s: %+v, %v", name, ran, err)
		}
	}
}
