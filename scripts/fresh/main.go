// Command fresh has real peers crawl pages that change, and fetch them again. It judges them by the
// log of the server, the file of changes and what the peers report. scripts/fresh.sh builds and
// runs it.
//
//	fresh --work DIR [--seconds N] [--seed N] [--changes FILE --day 1s --every 28] [CASE]...
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/scripts/harness"
)

// options are those of the command line.
type options struct {
	work    string
	port    int
	seed    uint64
	seconds int
	changes string
	day     time.Duration
	every   float64
}

// trialCase is a trial: it returns an error if it could not be done.
type trialCase struct {
	name, words string
	run         func(t *trial, ctx context.Context)
}

var cases = []trialCase{
	{"ring", "a ring of four with a budget of visits, of which one is killed", (*trial).ring},
	{"ten", "a site of which ten pages change, and refresh --now", (*trial).ten},
}

func main() {
	var o options
	flag.IntVar(&o.port, "port", 18830, "port of the web server")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the changes")
	flag.IntVar(&o.seconds, "seconds", 200, "how long the ring fetches pages again")
	flag.StringVar(&o.changes, "changes", "", "file of changes of the ring's pages (default: drawn)")
	flag.DurationVar(&o.day, "day", 20*time.Second, "length of a day of the file of changes, at least 1s")
	flag.Float64Var(&o.every, "every", 0.5, "days between two visits of a page, on average")
	flag.Usage = harness.Usage(func(line func(name, words string)) {
		for _, c := range cases {
			line(c.name, c.words)
		}
	})
	harness.Main(&o.work, func(ctx context.Context, names []string) (bool, error) {
		chosen, err := harness.Choose(cases, names, func(c trialCase) string { return c.name }, func(trialCase) bool { return true })
		fine := err == nil
		for _, c := range chosen {
			t := &trial{options: o, dir: filepath.Join(o.work, c.name)}
			if err := t.do(ctx, c.run); err != nil {
				return false, fmt.Errorf("%s: %w", c.name, err)
			}
			fine = fine && !t.wrong
		}
		return fine, err
	})
}

// trial is a web with peers.
type trial struct {
	options
	dir   string
	wrong bool

	changes webgen.Changes
	web     *webgen.Web // never served here: it names pages
	log     string
	peers   []*harness.Peer
}

// check prints a line of the result.
func (t *trial) check(fine bool, format string, args ...any) {
	word := "ok   "
	if !fine {
		word, t.wrong = "WRONG", true
	}
	fmt.Println(word, fmt.Sprintf(format, args...))
}

func say(format string, args ...any) { fmt.Println("-    ", fmt.Sprintf(format, args...)) }

// do runs a case with a context that ends what it started.
func (t *trial) do(ctx context.Context, run func(t *trial, ctx context.Context)) error {
	ctx, stop := context.WithTimeout(ctx, time.Duration(t.seconds)*time.Second+4*time.Minute)
	defer stop()
	if err := os.MkdirAll(t.dir, 0o755); err != nil {
		return err
	}
	defer func() {
		for _, p := range t.peers {
			p.Kill()
		}
	}()
	return harness.Try(func() { run(t, ctx) })
}

// serve starts `apoidea web serve --changes` and waits for it.
func (t *trial) serve(ctx context.Context, file string, speed, robots float64) {
	t.changes = harness.Must(webgen.ReadChanges(file))
	t.web = webgen.New(webgen.Config{Seed: t.seed, Changes: t.changes})
	t.log = filepath.Join(t.dir, "requests.ndjson")
	cmd := exec.CommandContext(ctx, "apoidea", "web", "serve", "--listen", t.addr(), "--changes", file, "--speed", fmt.Sprint(speed),
		"--log", t.log, "--seed", fmt.Sprint(t.seed), "--robots-share", fmt.Sprint(robots))
	cmd.Stderr = os.Stderr
	harness.Check(cmd.Start())
	harness.NotePID(t.dir, "web", cmd.Process.Pid)
	go func() { _ = cmd.Wait() }()
	for range 100 {
		if res, err := http.Get("http://" + t.addr() + webgen.AuditPath); err == nil { //nolint:noctx // loopback
			_ = res.Body.Close()
			return
		}
		harness.Check(harness.Sleep(ctx, 100*time.Millisecond))
	}
	harness.Check(errors.New("the web server does not answer"))
}

func (t *trial) addr() string { return fmt.Sprintf("127.0.0.1:%d", t.port) }

// delay is the least gap between requests to a host.
const delay = 150 * time.Millisecond

// start starts peers that find each other.
func (t *trial) start(ctx context.Context, n int) {
	for i := range n {
		args := []string{
			"--profile", "lab", "--allow-private", "--delay", delay.String(), "--placement", "random", "--refresh-day", t.day.String(),
			"--fetch-from", fmt.Sprintf("127.0.1.%d", i+1), "--dashboard", "off", "--scope", fmt.Sprintf("*.web.localhost:%d", t.port),
		}
		if i > 0 {
			args = append(args, "--bootstrap", harness.Must(t.peers[0].Addrs(ctx))[0])
		}
		t.peers = append(t.peers, harness.Must(harness.Start(ctx, t.dir, fmt.Sprintf("p%d", i), nil, args...)))
		harness.Must(t.peers[i].Ready(ctx, n > 1))
	}
}

// leave interrupts the peers, so that their archives are complete.
func (t *trial) leave() {
	for _, p := range t.peers {
		p.Leave()
	}
}

// export runs a kind of export of a peer's directory; a missing part is no error.
func export(ctx context.Context, args ...string) []byte {
	var errOut strings.Builder
	cmd := exec.CommandContext(ctx, "apoidea", append([]string{"export"}, args...)...)
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		harness.Check(fmt.Errorf("export %s: %w: %s", args[0], err, harness.LastLine([]byte(errOut.String()))))
	}
	return out
}
