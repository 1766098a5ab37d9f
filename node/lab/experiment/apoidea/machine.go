package apoidea

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/apoidea/apoidea/dht/dhttest"
	"github.com/apoidea/apoidea/node/lab/experiment/worlds"
	"github.com/apoidea/apoidea/node/lab/internet"
)

// hardware is the machine of a peer and the cost of a page and of a message on it.
type hardware struct {
	name string
	// page is the CPU time of a page, until its results are on disk; call that of one side of a
	// message and its answer.
	page, call time.Duration
	// perByte is what a byte of a message costs one side.
	perByte time.Duration
	// disk is how long the one disk is busy with a page.
	disk time.Duration
	// pageSize draws how long a page is.
	pageSize func(rnd *rand.Rand) int
}

const (
	// pageCPU is what a lone peer needs for a page of documentation, archive and records of its
	// host included: 1,949 pages per CPU second (scripts/bench.sh speed).
	pageCPU = time.Second / 1949
	// callCPU is one side's half of a call of 64 bytes on an idle connection, and byteCPU its part
	// of a byte: BenchmarkCall of dht/p2p over TCP has 72 us with one call in flight, 9 us with 32,
	// and 134 us with 32 in flight of 16 KiB each way; the sides share them alike.
	callCPU = 36 * time.Microsecond
	byteCPU = 2 * time.Nanosecond

	// pentiumSlower is how much slower a Pentium at 550 MHz (Apoidea 4) does it all than the
	// machine on which the above was measured: a sixth of the clock, and about four times less work
	// each tick, by common single-thread benchmarks of both generations. That it is about right can
	// be checked with the paper: with six threads and so the paper's low load, the
	// processor is a third busy here, and 30 % there.
	pentiumSlower = 25
	// diskAccess is a seek and half a turn of an IDE disk of 7,200 rpm, and accessesOfPage what a
	// temporary file comes to (Apoidea 3.2: pages wait on the disk): its directory entry, its data,
	// and its removal. The paper is silent about what bounds its low load; this is our reading.
	diskAccess     = 12 * time.Millisecond
	accessesOfPage = 3
	// highLoadShare of the processor is what the crawler got beside the simulator (Apoidea 4: 3 %
	// at its best number of threads). It goes in, so it is nothing to compare with.
	highLoadShare = 0.03
)

// pentium is the paper's machine, today the one that scripts/bench.sh measures.
func pentium() *hardware {
	return &hardware{
		name: "pentium-550", page: pentiumSlower * pageCPU, call: pentiumSlower * callCPU, perByte: pentiumSlower * byteCPU,
		disk: accessesOfPage * diskAccess, pageSize: func(rnd *rand.Rand) int { return internet.PageSize(rnd) * worlds.PageMean2003 / pageMeanToday },
	}
}

// pageMeanToday is the mean of internet.PageSize.
const pageMeanToday = 38_000

// today appends its pages to one file and syncs it rarely: the disk is not felt.
func today() *hardware {
	return &hardware{name: "today", page: pageCPU, call: callCPU, perByte: byteCPU, pageSize: internet.PageSize}
}

// machine simulates a hardware in virtual time: a CPU with processor sharing, and a disk that
// serves requests in sequence.
type machine struct {
	*hardware
	clock *dhttest.Clock
	cpu   processor
	// diskFree is the time when the disk has finished all requests so far.
	diskFree time.Duration
}

func newMachine(clock *dhttest.Clock, h *hardware, cpuShare float64) *machine {
	return &machine{hardware: h, clock: clock, cpu: processor{clock: clock, share: cpuShare}}
}

// store occupies the disk for a page and then calls back.
func (m *machine) store(then func()) {
	if m.disk == 0 {
		then()
		return
	}
	m.diskFree = max(m.diskFree, m.clock.Elapsed()) + m.disk
	m.clock.After(m.diskFree-m.clock.Elapsed(), then)
}

// processor is processor sharing: of n tasks each gets an n-th of what the crawler gets at all. A
// task that began later and is shorter overtakes.
type processor struct {
	clock *dhttest.Clock
	// share of the machine's processor that the crawler gets; 1 is all of it.
	share float64
	// busy is how long there was something to do, up to the moment at.
	busy time.Duration

	tasks []cpuTask // in the order in which they came
	// served is what a task that was here from the beginning would have got, in nanoseconds, up to
	// the moment at.
	served float64
	at     time.Duration
	// plan counts changes of what ends next; events planned before the last one are void.
	plan int
}

type cpuTask struct {
	end  float64 // in terms of served
	then func()
}

// run works for so much processor time and then calls back.
func (p *processor) run(work time.Duration, then func()) {
	p.advance()
	p.tasks = append(p.tasks, cpuTask{p.served + float64(work), then})
	p.next()
}

// done is what was worked so far, in processor time.
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

// finish ends the first task, and is void if something changed since it was planned.
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

// first is the task that ends first, of equal ones that which came first. They are as few as the
// crawler's threads, so looking at all is quick.
func (p *processor) first() int {
	first := 0
	for i := range p.tasks {
		if p.tasks[i].end < p.tasks[first].end {
			first = i
		}
	}
	return first
}
