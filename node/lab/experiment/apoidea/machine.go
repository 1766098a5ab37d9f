package apoidea

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/apoidea/apoidea/dht/dhtsim/clock"
	"github.com/apoidea/apoidea/node/lab/experiment/worlds"
	"github.com/apoidea/apoidea/node/lab/internet"
)

// hardware is the machine of a peer and the cost of a page and of a message on it.
type hardware struct {
	// page is the CPU time of a page, until its results are on disk; call that of one side of a
	// message and its answer; replica that of one side of a page's records for one replica.
	page, call, replica time.Duration
	// disk is the time that a page occupies the disk.
	disk time.Duration
	// pageSize draws the size of a page.
	pageSize func(rnd *rand.Rand) int
}

const (
	// pageCPU is the CPU time of a page of documentation for a single peer, with archive and
	// records of its host: 1,949 pages per CPU second (scripts/bench.sh speed).
	pageCPU = time.Second / 1949
	// callCPU and replicaCPU are the CPU time of a call, and of the records of a page for one
	// replica, both sides together. scripts/bench.sh peers measures them in percent of a page of one
	// peer; docs/benchmarks.md has the figures.
	callCPU    = pageCPU * 50 / 100
	replicaCPU = pageCPU * 3 / 100

	// pentiumSlower is the slowdown of a Pentium at 550 MHz (Apoidea 4) relative to the machine
	// measured above: a sixth of the clock, and about four times less work per cycle, by common
	// single-thread benchmarks. The paper confirms the size: with its six threads under low load
	// the CPU is a third busy here, and 30 % there.
	pentiumSlower = 25
	// diskAccess is a seek and half a turn of an IDE disk of 7,200 rpm. accessesOfPage counts those
	// of a temporary file (Apoidea 3.2: pages wait on disk): directory entry, data, and removal.
	// The paper does not name the limit of its low load; this is our reading.
	diskAccess     = 12 * time.Millisecond
	accessesOfPage = 3
	// highLoadShare is the crawler's share of the CPU beside the simulator (Apoidea 4: 3 % at its
	// best number of threads). It is an input and not compared.
	highLoadShare = 0.03
)

// pentium is the paper's machine.
func pentium() *hardware {
	h := today()
	h.page, h.call, h.replica = pentiumSlower*h.page, pentiumSlower*h.call, pentiumSlower*h.replica
	h.disk = accessesOfPage * diskAccess
	h.pageSize = func(rnd *rand.Rand) int { return internet.PageSize(rnd) * worlds.PageMean2003 / pageMeanToday }
	return h
}

// pageMeanToday is the mean of internet.PageSize.
const pageMeanToday = 38_000

// today is the machine that scripts/bench.sh measures. It appends pages to one file and syncs it
// rarely, so disk time is negligible.
func today() *hardware {
	return &hardware{page: pageCPU, call: callCPU / 2, replica: replicaCPU / 2, pageSize: internet.PageSize}
}

// machine simulates a hardware in virtual time: a CPU with processor sharing, and a disk that
// serves requests in sequence.
type machine struct {
	*hardware
	clock *clock.Clock
	cpu   processor
	// diskFree is the time when the disk has finished all requests so far.
	diskFree time.Duration
}

func newMachine(clock *clock.Clock, h *hardware, cpuShare float64) *machine {
	return &machine{hardware: h, clock: clock, cpu: processor{clock: clock, share: cpuShare}}
}

// store occupies the disk for a page, then calls back.
func (m *machine) store(then func()) {
	m.diskFree = max(m.diskFree, m.clock.Elapsed()) + m.disk
	m.clock.After(m.diskFree-m.clock.Elapsed(), then)
}

// processor models processor sharing: each of n tasks gets an n-th of the crawler's share. A
// shorter task that began later overtakes.
type processor struct {
	clock *clock.Clock
	// share is the crawler's share of the CPU; 1 is all of it.
	share float64
	// busy is the time with tasks, up to at.
	busy time.Duration

	tasks []cpuTask // in the order in which they came
	// served is the CPU time in nanoseconds that a task present from the start would have got up to
	// at.
	served float64
	at     time.Duration
	// plan counts changes of the next end; events planned earlier are void.
	plan int
}

type cpuTask struct {
	end  float64 // in terms of served
	then func()
}

// run uses the given CPU time, then calls back.
func (p *processor) run(work time.Duration, then func()) {
	p.advance()
	p.tasks = append(p.tasks, cpuTask{p.served + float64(work), then})
	p.next()
}

// done returns the CPU time used so far.
func (p *processor) done() time.Duration {
	p.advance()
	return time.Duration(float64(p.busy) * p.share)
}

func (p *processor) advance() {
	now := p.clock.Elapsed()
	if n := len(p.tasks); n > 0 {
		p.served += float64(now-p.at) * p.share / float64(n)
		p.busy += now - p.at
	}
	p.at = now
}

// next plans the end of the task that ends first.
func (p *processor) next() {
	p.plan++
	if len(p.tasks) == 0 {
		return
	}
	plan := p.plan
	left := (p.tasks[p.first()].end - p.served) * float64(len(p.tasks)) / p.share
	p.clock.After(time.Duration(max(left, 0))+1, func() { p.finish(plan) })
}

// finish ends the first task; it is void after a change of plan.
func (p *processor) finish(plan int) {
	if plan != p.plan {
		return
	}
	p.advance()
	i := p.first()
	t := p.tasks[i]
	p.tasks = slices.Delete(p.tasks, i, i+1)
	p.next()
	t.then()
}

// first returns the task that ends first, the oldest of equal ones. There are only as many as
// threads, so a linear search is fast.
func (p *processor) first() int {
	first := 0
	for i := range p.tasks {
		if p.tasks[i].end < p.tasks[first].end {
			first = i
		}
	}
	return first
}
