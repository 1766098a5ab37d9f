package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/scripts/harness"
)

// The rings that liars attack.
const (
	openRing, invite = "open", "invite"
	honestPeers      = 5
	// portsOfRing are the ports of one ring: its web servers and profilers.
	portsOfRing = 50
	// crawlWithin is how long a crawl may take after the attack: leases of peers that left expire
	// meanwhile. One that may wait longer is only given knownWithin.
	crawlWithin, knownWithin = 40 * time.Second, 15 * time.Second
	// budget is that of the job of the attack budget, in pages, and leastOfBudget what one member
	// leaves of it: it holds a sixth at most.
	budget, leastOfBudget = 300, 250
	// heapOfLies and diskOfLies are how much heap and disk of a peer may grow by an attack, above
	// twice the heap before; the memory tables of the store take 18 MiB.
	heapOfLies, diskOfLies = 48 << 20, 64 << 20
)

// lie is one thing that a member does.
type lie struct {
	name, does string
	liars      int  // 0: one, right behind the first host; more: around an honest peer
	slow       bool // not among the quick ones
	swallows   bool // they confirm what an owner is handed, and store nothing; others reject it
	oneSeed    bool // the job has the first host's seed only
	maxPages   uint64
	// endless: the job does not end by itself, and is canceled after the attack.
	endless bool
	// known: SECURITY.md names the attack as one that succeeds in an open ring.
	known bool
	// lie does it until ctx ends; nil: to be there suffices.
	lie func(ctx context.Context, l *liar)
	// judge adds what was wrong of the tally.
	judge func(r *lieReport)
}

// lies are the attacks, those that leave most behind last.
var lies = []*lie{
	{name: "forged", does: "reports all pages as gone, without certificates and with its own", lie: forge, judge: judgeForged},
	{name: "seed", does: "owns the host of the only seed, and swallows its links", swallows: true, oneSeed: true, known: true},
	{name: "budget", does: "draws the budget of a job of 300 pages", maxPages: budget, lie: draw, judge: judgeBudget},
	{name: "optout", does: "pushes records of hosts with an opt-out", lie: pushOptOuts, judge: judgeOutsider},
	{name: "optouts", does: "the same ever anew, so that hosts wait for their next check", known: true, slow: true, lie: pushOptOuts, judge: judgeOutsider},
	{name: "around", does: "20 identities around one peer swallow what they are handed", liars: 20, swallows: true, known: true},
	{name: "jobs", does: "posts 463 signed jobs of 120 kB", endless: true, lie: postJobs, judge: judgeJobs},
	{name: "links", does: "hands in invented links at full speed", endless: true, lie: inventLinks, judge: judgeLinks},
}

func chooseLies(names []string, quick bool) ([]*lie, error) {
	return harness.Choose(lies, names, func(a *lie) string { return a.name }, func(a *lie) bool { return !quick || !a.slow })
}

// lieReport is what came of an attack.
type lieReport struct {
	*lie
	ring string
	tally
	seen           int // liars that the ring counted as members
	pages, fetched int
	again          int64
	outcomes       map[string]int64 // of the job
	heapBefore     int64            // the largest of the peers
	heap           int64
	disk           int64 // growth of all peers, without archives
	harness.Verdict
}

func (r *lieReport) invited() bool { return r.ring == invite }

// runLiars makes the attacks in both rings at once.
func runLiars(ctx context.Context, o *options, names []string) (bool, error) {
	chosen, err := chooseLies(names, o.quick)
	if err != nil {
		return false, err
	}
	rings := []string{openRing, invite}
	if o.ring != "" {
		if o.ring != openRing && o.ring != invite {
			return false, fmt.Errorf("%w ring %q", harness.ErrUsage, o.ring)
		}
		rings = []string{o.ring}
	}
	var group sync.WaitGroup
	fine, errs := make([]bool, len(rings)), make([]error, len(rings))
	for i, ring := range rings {
		o := *o
		o.ring, o.port, o.work = ring, o.port+i*portsOfRing, filepath.Join(o.work, ring)
		group.Go(func() { fine[i], errs[i] = runLiarsIn(ctx, &o, chosen) })
	}
	group.Wait()
	for _, ok := range fine {
		fine[0] = fine[0] && ok
	}
	return fine[0], errors.Join(errs...)
}

// runLiarsIn makes the attacks in one ring, one after another.
func runLiarsIn(ctx context.Context, o *options, chosen []*lie) (fine bool, err error) {
	if err := os.MkdirAll(o.work, 0o700); err != nil {
		return false, err
	}
	s := &scene{options: o}
	s.ctx, s.end = context.WithCancel(context.WithoutCancel(ctx))
	defer s.close()
	if err := harness.Try(func() { s.found(ctx) }); err != nil {
		return false, err
	}
	fine = true
	fetched := make(map[string]bool)
	for i, a := range chosen {
		r := &lieReport{lie: a, ring: o.ring}
		if err := harness.Try(func() { s.lied(ctx, r, o.port+honestPeers+1+i, fetched) }); err != nil {
			r.Blame("%v", err)
		}
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		fine = r.print() && fine
	}
	return s.archived(fetched).Print(o.ring) && fine, nil
}

// found starts the ring.
func (s *scene) found(ctx context.Context) {
	s.startRing(ctx, honestPeers, "--profile", "lab", "--admission", s.ring)
	for _, p := range s.peers[1:] {
		if s.ring == invite {
			st := harness.Must(p.Client.Status(ctx, false))
			harness.Must(s.peers[0].Client.Invite(ctx, st.Peer, time.Hour))
		}
	}
	s.until(ctx, "the ring has not formed", func() bool { return s.members(ctx) == honestPeers })
}

// members counts the peers that some honest peer has as a neighbor on the ring, which in a small
// ring are all: those of a list, or all without one.
func (s *scene) members(ctx context.Context, of ...string) int {
	found := make(map[string]bool)
	for _, p := range s.peers {
		if st, err := p.Client.Status(ctx, false); err == nil {
			for _, id := range append(st.Ring.Successors, st.Ring.Predecessor) {
				if id != "" && (len(of) == 0 || slices.Contains(of, id)) {
					found[id] = true
				}
			}
		}
	}
	return len(found)
}

// until waits for a condition, for half a minute at most.
func (s *scene) until(ctx context.Context, otherwise string, holds func() bool) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for !holds() {
		if harness.Sleep(ctx, 200*time.Millisecond) != nil {
			harness.Check(errors.New(otherwise))
		}
	}
}

// lied makes one attack while the ring crawls a web of its own, and judges what came of it.
func (s *scene) lied(ctx context.Context, r *lieReport, port int, fetched map[string]bool) {
	life, end := context.WithCancel(s.ctx)
	defer end()
	o := *s.options
	o.port, o.pages = port, 60
	if s.quick {
		o.pages = 25
	}
	if r.maxPages > 0 {
		o.pages = max(o.pages, 60) // more than the budget
	}
	web := harness.Must(harness.ServeWeb(life, &s.group, fmt.Sprintf("127.0.0.1:%d", port), webConfig(o.port, o.pages)))
	r.heapBefore = s.heapOfAll(ctx)
	disk := s.disk()
	liars := s.startLiars(&o, r, web)
	defer liars.kill()
	ids := strings.Fields(liars.next())
	if r.seen = s.members(ctx, ids...); r.seen == 0 && !r.invited() {
		s.until(ctx, "the liar is no member", func() bool { r.seen = s.members(ctx, ids...); return r.seen > 0 })
	}
	spec := control.JobSpec{URLs: web.Seeds(), MaxPages: r.maxPages}
	if r.oneSeed {
		spec.URLs, spec.Scope = web.Seeds()[:1], []string{"*.localhost"}
	}
	id := s.post(ctx, life, spec)
	liars.tell(id)
	_ = harness.Sleep(ctx, s.lasts())
	r.heap = s.heapOfAll(ctx)
	harness.Check(json.Unmarshal([]byte(liars.stop()), &r.tally))
	r.disk = s.disk() - disk
	if !r.endless {
		patience := crawlWithin
		if (r.maxPages > 0 || r.known) && !r.invited() { // what a liar holds of a budget returns after two minutes
			patience = knownWithin
		}
		within, cancel := context.WithTimeout(ctx, patience)
		err := s.peers[1].Client.Wait(within, id, -1, func(control.Progress) error { return nil })
		if cancel(); err != nil && patience == crawlWithin {
			r.Blame("the crawl did not end: %v", err)
		}
	}
	truth := web.Truth().URLs
	asked := web.Asked()
	for _, u := range truth {
		if asked[u] > 0 {
			r.fetched++
			fetched[u] = !r.endless
		}
	}
	r.pages, r.again, r.outcomes = len(truth), web.Audit().Totals.RepeatedRequests, harness.Must(s.peers[1].Client.Job(ctx, id)).Outcomes
	if j := harness.Must(s.peers[1].Client.Job(ctx, id)); j.State == "running" {
		harness.Must(s.peers[1].Client.SetJob(ctx, id, "cancel")) // what is left would delay the next attack
	}
	if n := web.Audit().Totals.Overlaps; n > 0 {
		r.Blame("two workers at once asked a host %d times", n)
	}
	s.until(ctx, "the liar has not left the ring", func() bool { return s.members(ctx, ids...) == 0 })
}

// postWithin is the time after which a post is made again: a liar that owns the record of the job
// does not answer.
const postWithin = 8 * time.Second

// post posts a job, and returns its ID before its seeds are delivered: liars may reject some as
// long as they are there.
func (s *scene) post(ctx, life context.Context, spec control.JobSpec) (id string) {
	client := s.peers[1].Client
	before := harness.Must(client.Jobs(ctx))
	posted := make(chan *control.Job, 1)
	known := make(chan struct{})
	s.group.Go(func() {
		for life.Err() == nil {
			within, cancel := context.WithTimeout(life, postWithin)
			j, err := client.Post(within, spec)
			if cancel(); err == nil {
				posted <- j
				return
			}
			select {
			case <-known: // only its seeds are missing
				return
			case <-time.After(100 * time.Millisecond): // a liar owns its record: another ID has another owner
			}
		}
	})
	defer close(known)
	s.until(ctx, notPosted, func() bool {
		within, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		jobs, err := client.Jobs(within)
		if err != nil { // liars do not list theirs
			select {
			case j := <-posted:
				id = j.ID
			default:
			}
		}
		for _, j := range jobs {
			if !slices.ContainsFunc(before, func(b control.Job) bool { return b.ID == j.ID }) {
				id = j.ID
			}
		}
		return id != ""
	})
	return id
}

// heapOfAll is the largest heap of the peers.
func (s *scene) heapOfAll(ctx context.Context) (most int64) {
	for i := range s.peers {
		most = max(most, harness.Must(s.heap(ctx, i)))
	}
	return most
}

// disk is what the databases of the peers take.
func (s *scene) disk() (sum int64) {
	for _, p := range s.peers {
		_ = filepath.WalkDir(filepath.Join(p.Dir, "db"), func(_ string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				if info, err := e.Info(); err == nil { // else it went meanwhile
					sum += info.Size()
				}
			}
			return nil
		})
	}
	return sum
}

// liars is the process of an attack.
type liars struct {
	cmd   *exec.Cmd
	in    *os.File
	lines *bufio.Scanner
	log   string
}

func (s *scene) startLiars(o *options, r *lieReport, web *harness.Web) *liars {
	var addrs []string
	for _, p := range s.peers {
		addrs = append(addrs, p.addr)
	}
	near := link.Host(web.Seeds()[0])
	if r.liars > 1 {
		near = addrs[2][strings.LastIndexByte(addrs[2], '/')+1:]
	}
	l := &liars{log: filepath.Join(s.work, r.name+".log")}
	l.cmd = exec.CommandContext(s.ctx, os.Args[0], "--liars", "--as", r.name, "--ring", s.ring, "--near", near,
		"--target", strings.Join(addrs, ","), "--port", strconv.Itoa(o.port), "--pages", strconv.Itoa(o.pages))
	log := harness.Must(os.Create(l.log))
	defer log.Close() // the process has its own
	in, write, err := os.Pipe()
	harness.Check(err)
	defer in.Close() // likewise
	l.cmd.Stdin, l.cmd.Stderr, l.in = in, log, write
	l.lines = bufio.NewScanner(harness.Must(l.cmd.StdoutPipe()))
	harness.Check(l.cmd.Start())
	harness.NotePID(s.work, r.name, l.cmd.Process.Pid)
	return l
}

// next returns the next line that the process prints.
func (l *liars) next() string {
	if !l.lines.Scan() {
		raw, _ := os.ReadFile(l.log)
		harness.Check(fmt.Errorf("the attack could not be made: %.300s", raw))
	}
	return l.lines.Text()
}

func (l *liars) tell(line string) { harness.Must(fmt.Fprintln(l.in, line)) }

// stop ends the attack: the liars leave the ring. It returns their tally.
func (l *liars) stop() string {
	harness.Check(l.cmd.Process.Signal(os.Interrupt))
	line := l.next()
	harness.Check(l.cmd.Wait())
	return line
}

func (l *liars) kill() {
	_ = l.in.Close()
	_ = l.cmd.Process.Kill()
	_ = l.cmd.Wait()
}

// judgeForged expects that no owner recorded an outcome that only the liar reported.
func judgeForged(r *lieReport) {
	if n := r.outcomes[link.OutcomeHTTPError.String()]; n > 0 {
		r.Blame("%d forged outcomes were accepted", n)
	}
	r.Say("%d outcomes reported, %d recorded", r.Accepted+r.Refused, r.outcomes[link.OutcomeHTTPError.String()])
}

func judgeOutsider(r *lieReport) {
	r.Say("%d accepted, %d rejected", r.Accepted, r.Refused)
	if r.invited() && r.Accepted > 0 {
		r.Blame("requests of an outsider were accepted")
	}
}

func judgeBudget(r *lieReport) {
	r.Say("%d pages drawn", r.Accepted)
	if r.invited() && r.Accepted > 0 {
		r.Blame("an outsider drew %d pages", r.Accepted)
	}
}

// judgeLinks expects the limits of a member: for a job at each owner, 65,536 links and then 2,000 a
// second.
func judgeLinks(r *lieReport) {
	judgeOutsider(r)
	if most := honestPeers * (64<<10 + int64(2000*(r.Seconds+1))); r.Accepted > most {
		r.Blame("at most %d links are accepted of a member", most)
	}
}

// judgeJobs expects the limits of a caller: at each owner of jobs 32, and then one every three
// seconds; of an outsider, four and one a minute.
func judgeJobs(r *lieReport) {
	most := honestPeers * (32 + int64(r.Seconds)/3 + 1)
	if r.invited() {
		most = honestPeers * 5
	}
	r.Say("%d accepted, %d rejected", r.Accepted, r.Refused)
	if r.Accepted > most {
		r.Blame("at most %d jobs are accepted", most)
	}
	if r.disk > honestPeers*diskOfLies {
		r.Blame("the databases grew by %d MiB, at most %d", r.disk>>20, honestPeers*diskOfLies>>20)
	}
}

// print prints the report, and reports whether nothing was wrong.
func (r *lieReport) print() bool {
	lost := r.pages - r.fetched
	word, known := fmt.Sprintf("%d of %d pages fetched", r.fetched, r.pages), r.known && !r.invited()
	switch {
	case r.endless:
		word = "job canceled"
	case r.maxPages > 0: // the budget also counts pages that redirects lead to
		used, least := r.outcomes[link.OutcomeOK.String()], int64(budget)
		if word = fmt.Sprintf("%d of %d pages of the budget fetched", used, budget); !r.invited() {
			least = leastOfBudget
		}
		if used < least {
			r.Blame("%d pages fetched of a budget of %d, at least %d", used, budget, least)
		}
	case lost > 0 && !known:
		r.Blame("%d of %d pages are lost", lost, r.pages)
	}
	if most := int64(r.pages) / 10; r.again > most && !known {
		r.Blame("%d pages were fetched again, at most %d", r.again, most)
	}
	most := 2*r.heapBefore + heapOfLies
	if r.name == "jobs" {
		most += r.Accepted * jobSeeds * jobURL
	}
	if r.heap > most {
		r.Blame("the heap of a peer came to %d MiB, at most %d", r.heap>>20, most>>20)
	}
	if r.invited() && r.seen > 0 {
		r.Blame("the ring counts %d outsiders as members", r.seen)
	}
	if r.judge != nil && r.Seconds > 0 {
		r.judge(r)
	}
	who := fmt.Sprintf("%d members of %d", r.seen, max(1, r.liars))
	if r.invited() {
		who = "outsider"
	}
	notes := append([]string{who, word}, r.Notes...)
	notes = append(notes, fmt.Sprintf("again %d; heap %d MiB, before %d; disk +%d MiB", r.again, r.heap>>20, r.heapBefore>>20, r.disk>>20))
	return r.line(known, r.ring+" "+r.name, strings.Join(notes, "; "))
}

// notPosted is the text for a job that no peer accepts in time.
const notPosted = "the job could not be posted"

// line prints a line of the table, with known instead of ok for an attack that may succeed.
func (r *lieReport) line(known bool, name, text string) bool {
	if at := slices.Index(r.Wrong, notPosted); known && at >= 0 { // the liars own the records of jobs
		r.Wrong, text = slices.Delete(r.Wrong, at, at+1), notPosted+"; "+text
	}
	if known && len(r.Wrong) == 0 {
		fmt.Printf("known %-20s %s\n", name, text)
		return true
	}
	_ = r.Print(false, nil, name, text)
	return len(r.Wrong) == 0
}

// archives is what the archives of a ring have in the end.
type archives struct{ harness.Verdict }

// archived ends the peers, and looks for the pages that were fetched in their archives.
func (s *scene) archived(fetched map[string]bool) *archives {
	a := new(archives)
	var leaving sync.WaitGroup
	for _, p := range s.peers {
		leaving.Go(func() {
			p.Signal(syscall.SIGTERM) // it keeps its records, as all leave
			select {
			case <-p.Done:
			case <-time.After(20 * time.Second):
			}
		})
	}
	leaving.Wait()
	found := make(map[string]bool)
	for _, p := range s.peers {
		if err := harness.ReadArchive(p.Dir, func(r *harness.Record) error {
			found[r.Target()] = true
			return nil
		}); err != nil {
			a.Blame("%v", err)
		}
	}
	pages, missing := 0, 0
	for u, whole := range fetched {
		if !whole { // of a job that was canceled
			continue
		}
		if pages++; !found[u] {
			missing++
		}
	}
	if missing > 0 {
		a.Blame("%d of %d pages that were fetched are in no archive", missing, pages)
	}
	a.Say("%d pages that were fetched, %d in no archive", pages, missing)
	return a
}

// Print prints the line of the archives.
func (a *archives) Print(ring string) bool {
	_ = a.Verdict.Print(false, nil, ring+" archive", strings.Join(a.Notes, "; "))
	return len(a.Wrong) == 0
}

// seeds are those of the web.
func (t *target) seeds() []string { return webgen.New(webConfig(t.port, t.pages)).Seeds(t.port) }
