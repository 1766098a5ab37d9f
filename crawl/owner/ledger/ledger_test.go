package ledger

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
	"github.com/apoidea/apoidea/storage/kv/kvtest"
)

// url is a URL as the test knows it.
type url struct {
	depth     uint32
	due       int64
	out, done bool
}

// book is an account over a store that may lose what was not flushed.
type book struct {
	t     *testing.T
	rng   *rand.Rand
	store kvtest.Map
	buf   *ondisk.Buffer
	job   *Job
	a     *Account
	seq   numbers
	urls  map[uint64]url // as they are
	kept  map[uint64]url // as they were at the last flush
	out   map[uint64]ondisk.Pending
}

var theJob = job.ID{7}

// start is a process that finds what the store has.
func (b *book) start() {
	b.buf = ondisk.NewBuffer(b.store)
	b.job = &Job{ID: theJob, Known: true, Spec: &job.Spec{MaxPages: 1000}, Budget: NewBudget()}
	l := New(b.buf, unseen{}, func(spec *job.Spec) Bounds { return Bounds{Pages: spec.MaxPages, Draw: 1000} })
	b.a = l.Open(b.job, ring.Pos{1}, &b.seq)
	if found := l.Load("a.example", ring.Pos{1}, &b.seq, func(job.ID) *Job { return b.job }); len(found) == 1 {
		b.a = found[0]
		b.job.Load(b.a.Tally.Counters())
	}
	b.out = make(map[uint64]ondisk.Pending)
}

// flush writes everything as one batch.
func (b *book) flush() {
	b.a.Save()
	b.buf.Flush()
	b.kept = maps.Clone(b.urls)
}

// crash loses what was not flushed; what was out is pending again.
func (b *book) crash() {
	b.urls = maps.Clone(b.kept)
	for hash, u := range b.urls {
		u.out = false
		b.urls[hash] = u
	}
	b.start()
}

// any is one of the URLs that fit.
func (b *book) any(fits func(u url) bool) (hash uint64, ok bool) {
	var list []uint64
	for _, hash := range slices.Sorted(maps.Keys(b.urls)) {
		if fits(b.urls[hash]) {
			list = append(list, hash)
		}
	}
	if len(list) == 0 {
		return 0, false
	}
	return list[b.rng.IntN(len(list))], true
}

// pending reads the record of a URL.
func (b *book) pending(hash uint64) ondisk.Pending {
	b.t.Helper()
	n, ok := b.a.Entry(hash)
	if !ok || n.Done {
		b.t.Fatalf("URL %d is not pending: %v, %+v", hash, ok, n)
	}
	p, ok := b.a.Pending(n.At)
	if !ok {
		b.t.Fatal(b.buf.Err())
	}
	return p
}

func waitsHere(u url) bool { return !u.out && !u.done }

// act does one thing that an owner does.
func (b *book) act() {
	switch b.rng.IntN(9) {
	case 0, 1:
		hash := uint64(len(b.urls)) + b.rng.Uint64N(1<<40)<<8
		depth := b.rng.Uint32N(4)
		if _, ok := b.a.Accept(hash, fmt.Sprintf("http://a.example/%d", hash), depth, 0, link.KindPage, 0); !ok {
			b.t.Fatal("no room")
		}
		b.urls[hash] = url{depth: depth}
	case 2: // it is granted
		if hash, ok := b.any(waitsHere); ok {
			p := b.pending(hash)
			b.a.Promise(&p, 1)
			b.a.Lease(&p)
			u := b.urls[hash]
			u.out = true
			b.urls[hash], b.out[hash] = u, p
		}
	case 3, 4: // what was out has its outcome, waits for another try, or comes back untouched
		if hash, ok := b.any(func(u url) bool { return u.out }); ok {
			b.comesBack(hash)
		}
	case 5: // it is met at a smaller depth
		if hash, ok := b.any(func(u url) bool { return waitsHere(u) && u.depth > 0 && u.due == 0 }); ok {
			p, u := b.pending(hash), b.urls[hash]
			at := p.Spot
			p.Depth--
			b.a.Move(at, &p, false)
			u.depth = p.Depth
			b.urls[hash] = u
		}
	case 6: // all of a walk's beginning have an outcome that they share
		if b.rng.IntN(20) == 0 {
			b.flush()
			b.shareOutcome(1 + b.rng.IntN(5))
		}
	case 7: // another owner's outcome comes
		if hash, ok := b.any(waitsHere); ok {
			p := b.pending(hash)
			b.a.Settle(&p, 1, 5)
			b.a.Conclude(&p, ondisk.Final{Outcome: link.OutcomeOK})
			b.urls[hash] = url{done: true}
		}
	case 8:
		b.flush()
	}
}

func (b *book) comesBack(hash uint64) {
	p, u := b.out[hash], b.urls[hash]
	delete(b.out, hash)
	u.out = false
	switch b.rng.IntN(3) {
	case 0:
		b.a.Returned(&p)
		b.a.Settle(&p, 1, 10)
		b.a.Conclude(&p, ondisk.Final{Outcome: link.OutcomeOK, Size: 10})
		u = url{done: true}
	case 1:
		b.a.Returned(&p)
		b.a.Settle(&p, 0, 0)
		u.due = 1 + b.rng.Int64N(1000)
		b.a.Wait(&p, u.due)
	default:
		b.a.Return(&p)
		b.a.Settle(&p, 0, 0)
		b.a.Rewrite(&p)
	}
	b.urls[hash] = u
}

// shareOutcome concludes some of what waits.
func (b *book) shareOutcome(limit int) {
	n := b.a.ConcludeAll(limit, func(hash uint64) bool { return b.urls[hash].out }, ondisk.Final{Outcome: link.OutcomeTrap})
	for hash, u := range b.urls {
		if e, ok := b.a.Entry(hash); ok && e.Done && !u.done {
			b.urls[hash] = url{done: true}
			n--
		}
	}
	if n != 0 {
		b.t.Fatalf("%d more were concluded than are", n)
	}
}

// check compares the books with what the test knows, and with the records.
func (b *book) check() {
	b.t.Helper()
	var out, done, delayed int64
	for _, u := range b.urls {
		switch {
		case u.done:
			done++
		case u.out:
			out++
		case u.due > 0:
			delayed++
		}
	}
	c := b.a.Tally.Counters()
	if c.Accepted != int64(len(b.urls)) || c.Done() != done || b.a.Tally.Out() != out || b.a.Tally.Waiting() != delayed || c.Accepted != b.a.Tally.Ready()+b.a.Tally.Waiting()+b.a.Tally.Out()+c.Done() {
		b.t.Fatalf("%d URLs, %d done, %d out, %d wait: the books say %+v, %d out, %d wait, %d ready", len(b.urls), done, out, delayed, c, b.a.Tally.Out(), b.a.Tally.Waiting(), b.a.Tally.Ready())
	}
	if got := b.job.Sums(); got.Accepted != c.Accepted || got.Outcomes != c.Outcomes || got.Delayed != c.Delayed || got.Promised != c.Promised || b.job.Out() != out {
		b.t.Fatalf("sums %+v of %+v", got, c)
	}
	if err := b.buf.Err(); err != nil {
		b.t.Fatal(err)
	}
}

// checkStore walks over everything that waits: each URL that is not out is met once, and no other
// record is there.
func (b *book) checkStore() {
	b.t.Helper()
	b.flush()
	met := make(map[uint64]int)
	for _, delayed := range []bool{false, true} {
		b.a.Walk(delayed, func(w *Walk, p *ondisk.Pending) bool {
			if met[p.Hash]++; b.urls[p.Hash].out {
				w.Pass(p.Spot)
			} else {
				w.Leave(p.Spot)
			}
			return true
		})
	}
	records, promised := 0, int64(0)
	for _, kind := range []byte{ondisk.KindReady, ondisk.KindDelayed} {
		prefix := ondisk.JobPrefix(ring.Pos{1}, kind, theJob)
		b.buf.Scan(prefix, kv.PrefixEnd(prefix), func(_, value []byte) bool {
			records++
			if p, err := ondisk.DecodeWaiting(value); err == nil && p.Promised {
				promised++
			}
			return true
		})
	}
	for hash, u := range b.urls {
		if waitsHere(u) && met[hash] != 1 || u.done && met[hash] != 0 {
			b.t.Fatalf("URL %d, %+v, was met %d times", hash, u, met[hash])
		}
	}
	if promised != b.a.Tally.Promised() {
		b.t.Fatalf("%d records have a promise, counted %d", promised, b.a.Tally.Promised())
	}
	if open := int(b.a.Tally.Open()); records != open {
		b.t.Fatalf("%d records of %d URLs without an outcome", records, open)
	}
}

// TestLedger: whatever is done, and whenever a process ends, accepted = pending + out + done, and
// every URL that waits is met by the next walk.
func TestLedger(t *testing.T) {
	for seed := range uint64(60) {
		b := &book{t: t, rng: rand.New(rand.NewPCG(seed, 3)), store: make(kvtest.Map), urls: make(map[uint64]url), kept: make(map[uint64]url)}
		b.start()
		for range 400 {
			b.act()
			b.check()
			switch b.rng.IntN(25) {
			case 0:
				b.crash()
				b.check()
			case 1:
				b.checkStore()
			}
		}
		b.checkStore()
	}
}

// TestWalkKeepsUnflushedDue: a walk that cannot see a record written since the last flush does not
// lose its due time.
func TestWalkKeepsUnflushedDue(t *testing.T) {
	b := &book{t: t, store: make(kvtest.Map)}
	b.start()
	older, _ := b.a.Accept(1, "http://a.example/1", 0, 0, link.KindPage, 0)
	newer, _ := b.a.Accept(2, "http://a.example/2", 0, 0, link.KindPage, 0)
	b.a.Wait(&older, 10)
	b.flush()
	b.a.Wait(&newer, 20)
	b.a.Walk(true, func(w *Walk, p *ondisk.Pending) bool {
		w.Pass(p.Spot)
		return true
	})
	if due := b.a.NextDue(); due != 20 {
		t.Errorf("next due %d, want 20", due)
	}
	b.flush()
	met := 0
	b.a.Walk(true, func(*Walk, *ondisk.Pending) bool { met++; return true })
	if met != 1 || b.a.NextDue() != Never {
		t.Errorf("%d records in the next walk, then due %d", met, b.a.NextDue())
	}
}
