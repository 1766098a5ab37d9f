// Command frontier fills an owner's URL store with many URLs and measures its size on disk per URL,
// by kind of record.
//
//	go run ./scripts/frontier [-urls 1000000] [-seed 1]
//	go run ./scripts/frontier -steps [-urls 1000000]
//
// -steps measures the steps of an owner instead, while URLs are visited again.
//
// The URL store of a peer (crawl/owner/ledger) alone, on a database with a peer's settings, accepts
// URLs of a ten-thousandth as many hosts. Half of them are pending, a quarter is fetched, and a
// quarter is fetched and visited again several times. 10,000,000 URLs take about six minutes and
// 3 GiB of disk. Then the database is compacted, and its tables report the size of each kind of
// record. An owner has two records per pending URL: its state and place in the order, and the entry
// that finds it; and two of one that is visited again: its entry, and that of the due queue. A
// replica has one record per URL. Eight URLs of a host share the record of the page that led to
// them.
//
// URLs are made of words, like those of shops and newspapers. Half of the pages have an ETag, half
// a Last-Modified. Digests and record IDs are random and do not compress.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/apoidea/apoidea/crawl/fresh"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/ledger"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/lab/experiment/report"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
)

const (
	urlsOfHost = 10_000
	step       = 1000 // URLs whose records are written as one batch
)

func main() {
	urls := flag.Int("urls", 1_000_000, "number of URLs")
	seed := flag.Uint64("seed", 1, "seed of all random draws")
	stepping := flag.Bool("steps", false, "measure steps of an owner instead of sizes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	measure := func() (report.Table, error) { return sizes(ctx, *urls, *seed) }
	if *stepping {
		measure = func() (report.Table, error) { return steps(ctx, *urls) }
	}
	table, err := measure()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "frontier:", err)
		os.Exit(1)
	}
	fmt.Println(table.Text())
}

// sizes fills a store and returns the mean sizes of its records.
func sizes(ctx context.Context, urls int, seed uint64) (table report.Table, err error) {
	dir, err := os.MkdirTemp("", "apoidea-frontier-")
	if err != nil {
		return table, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // temporary
	store, err := storage.Open(dir, storage.Options{})
	if err != nil {
		return table, err
	}
	b := &books{
		rng: rand.New(rand.NewPCG(seed, 1)), hosts: store.Keyspace(storage.KeyspaceHosts), copies: store.Keyspace(storage.KeyspaceCopies),
		job: ledger.Job{ID: job.ID{1}, Known: true, Spec: &job.Spec{}},
	}
	err = b.fill(ctx, urls)
	if err == nil {
		err = store.Compact(ctx)
	}
	if err == nil {
		err = b.table(&table)
	}
	if cerr := store.Close(); err == nil {
		err = cerr
	}
	return table, err
}

// books are those of all hosts.
type books struct {
	rng           *rand.Rand
	hosts, copies *storage.Keyspace
	job           ledger.Job
	urls, length  int // URLs, and the bytes of all of them
	visited       fresh.Means

	waiting, done, again []ring.Pos // hosts with pending URLs, with done ones, and with those that are visited again
}

// unseen is an unused filter: no URL occurs twice.
type unseen struct{}

func (unseen) Add(ondisk.SetID, uint64) error { return nil }

func (unseen) Test(ondisk.SetID, uint64) (bool, error) { return false, nil }

func (unseen) Drop(ondisk.SetID) {}

// numbers are those of a host's pending records.
type numbers uint64

func (n *numbers) Number() uint64 { *n++; return uint64(*n) }

// site is a host with its books.
type site struct {
	name    string
	buf     *ondisk.Buffer
	account *ledger.Account
	fetched bool
	again   bool
	urls    int
	via     uint64 // source of the URLs found last
}

// firstFetch is the time of the first fetch, in Unix seconds.
const firstFetch = 1_795_000_000

// urlsOfPage is the number of new URLs of a host that a page leads to.
const urlsOfPage = 8

// fill lets hosts accept their URLs in turn, as a crawl does, and fetches all URLs of every second
// one, so that their records are apart; it visits those of every fourth again.
func (b *books) fill(ctx context.Context, urls int) error {
	sites := make([]site, max(urls/urlsOfHost, 4))
	for i := range sites {
		x := &sites[i]
		x.name, x.fetched, x.again = fmt.Sprintf("www.%s-%s%d.example", b.word(), b.word(), i), i%2 == 1, i%4 == 3
		pos := ring.PosOf(ring.HostKey(x.name))
		x.buf = ondisk.NewBuffer(replicated{b.hosts, b.copies})
		x.account = ledger.New(x.buf, unseen{}, nil).Open(&b.job, pos, new(numbers))
		list := &b.waiting
		switch {
		case x.again:
			list = &b.again
			x.buf.Set(ondisk.VisitsKey(firstFetch+uint32(i), pos), []byte{ondisk.Format})
		case x.fetched:
			list = &b.done
		}
		*list = append(*list, pos)
	}
	for each := urls / len(sites); sites[0].urls < each; {
		for i := range sites {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := b.grow(&sites[i], min(step, each-sites[i].urls)); err != nil {
				return err
			}
		}
		fmt.Fprintf(os.Stderr, "\r%d of %d URLs ", b.urls, urls)
	}
	return nil
}

// grow lets a host accept n more URLs.
func (b *books) grow(x *site, n int) error {
	a, list := x.account, make([]ondisk.Pending, n)
	for i := range list {
		url := b.url(x.name, x.urls)
		x.urls++
		b.urls, b.length = b.urls+1, b.length+len(url)
		if (x.urls-1)%urlsOfPage == 0 {
			from := link.Source{URL: b.url(x.name, x.urls), Path: "LLLLL"[:x.urls%5], Seed: "https://www.example.com/"}
			value := ondisk.EncodeSource(&from)
			x.via = ondisk.SourceHash(b.job.ID, value)
			x.buf.Set(ondisk.SourceKey(a.Pos, b.job.ID, x.via), value)
		}
		list[i], _ = a.Accept(link.Hash(b.job.ID, url), url, 1+uint32(x.urls%5), 0, link.KindPage, x.via)
	}
	x.buf.Flush()
	for i := range list {
		if !x.fetched {
			break
		}
		a.Lease(&list[i])
		a.Returned(&list[i])
		f := b.outcome(x.urls + i)
		a.Conclude(&list[i], f)
		if x.again {
			had := f
			had.URL, had.Depth, had.Hops, had.Kind, had.Tries, had.Via = list[i].URL, list[i].Depth, list[i].Hops, list[i].Kind, list[i].Tries, list[i].Via
			f = had
			f.Revisit = b.schedule(&f)
			a.Correct(list[i].Hash, &had, &f)
		}
	}
	a.Save()
	x.buf.Flush()
	if err := x.buf.Err(); err != nil {
		return err
	}
	return x.buf.Take()()
}

// outcome is a worker's report of a page.
func (b *books) outcome(i int) ondisk.Final {
	f := ondisk.Final{
		Outcome: link.OutcomeOK, Status: 200, FetchedMs: firstFetch*1000 + int64(i)*1100, DurationMs: 80 + b.rng.Uint32N(400), Size: 2000 + b.rng.Uint64N(90_000),
		Digest: b.bytes(32), RecordID: b.bytes(16), Holder: strings.Repeat(string(rune('a'+b.rng.IntN(8))), 38), MIME: "text/html",
	}
	switch i % 4 {
	case 0:
		f.ETag = fmt.Sprintf(`"%x-%x"`, b.rng.Uint32(), b.rng.Uint64()>>16)
	case 1:
		f.LastModified = fmt.Sprintf("Tue, %02d Oct 2026 %02d:%02d:%02d GMT", 1+b.rng.IntN(28), b.rng.IntN(24), b.rng.IntN(60), b.rng.IntN(60))
	case 2:
		f.ETag = fmt.Sprintf(`W/"%x"`, b.rng.Uint64())
		f.LastModified = fmt.Sprintf("Mon, %02d Nov 2026 %02d:%02d:%02d GMT", 1+b.rng.IntN(28), b.rng.IntN(24), b.rng.IntN(60), b.rng.IntN(60))
	}
	return f
}

// schedule is that of a page after one to twenty visits, of pages of which most change seldom.
func (b *books) schedule(f *ondisk.Final) ondisk.Revisit {
	const day = 86400.
	x := b.rng.NormFloat64()
	rate := x * x / 30 // changes a day: Gamma(0.5)
	r := ondisk.Revisit{Content: b.rng.Uint64()}
	p := fresh.Page{Last: float64(f.FetchedMs) / 1000 / day, Weight: 1}
	var host fresh.Means
	for range 1 + b.rng.IntN(20) {
		interval := b.rng.ExpFloat64() * 14
		what := fresh.Unchanged
		if b.rng.ExpFloat64() < rate*interval {
			what = fresh.Changed
			r.Changes++
		}
		p = p.Visit(p.Last+interval, what, 0, &host, &b.visited)
	}
	r.Rate, r.Visits, r.Last, r.Due = p.Rate, p.Visits, uint32(p.Last*day), uint32(p.Due(p.Last, fresh.Unchanged, 1)*day)
	return r
}

func (b *books) bytes(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(b.rng.Uint32())
	}
	return out
}

// url returns a page of a site, 60 bytes on average.
func (b *books) url(host string, i int) string {
	switch i % 3 {
	case 0:
		return fmt.Sprintf("https://%s/%s/%s-%s-%d", host, section(i/30), b.word(), b.word(), b.rng.IntN(1e6))
	case 1:
		return fmt.Sprintf("https://%s/%s/2026/%02d/%02d/%s-%s-%s.html", host, section(i/30), 1+i%12, 1+i%28, b.word(), b.word(), b.word())
	default:
		return fmt.Sprintf("https://%s/%s?page=%d&order=%s", host, section(i/30), i, b.word())
	}
}

func section(i int) string { return words[i%7] + "/" + words[i%len(words)] }

func (b *books) word() string {
	return words[b.rng.IntN(len(words))] + syllables[b.rng.IntN(len(syllables))]
}

var (
	words     = strings.Fields("news shoes garden music travel kitchen health science sport history market school water light paper river winter summer stone glass metal house engine camera window")
	syllables = strings.Fields("er ing ly ed s ful less ness able ment tion al ic ous ive ant ent ary ory ism ist ity hood ship ward wise dom ling ette")
)

// replicated writes the records of a peer, and those of a replica.
type replicated struct {
	*storage.Keyspace
	copies *storage.Keyspace
}

// copyOf is the prefix of a replica's records: the source, and the keyspace.
var copyOf = append([]byte("0123456789abcdef"), storage.KeyspaceHosts)

// Update implements kv.Store.
func (s replicated) Update(fn func(kv.Batch)) (wait func() error, err error) {
	if _, err := s.copies.Update(func(b kv.Batch) { fn(copier{b}) }); err != nil {
		return nil, err
	}
	return s.Keyspace.Update(fn)
}

// copier writes records as in a replica.
type copier struct{ to kv.Batch }

func under(key []byte) []byte { return append(slices.Clip(copyOf), key...) }

// Set implements kv.Batch.
func (c copier) Set(key, value []byte) {
	if k, v, ok := ondisk.Copied(key, value); ok {
		c.to.Set(under(k), v)
	}
}

// Delete implements kv.Batch.
func (c copier) Delete(key []byte) {
	if k, _, ok := ondisk.Copied(key, nil); ok {
		c.to.Delete(under(k))
	}
}

// DeleteRange implements kv.Batch.
func (c copier) DeleteRange(lo, hi []byte) { c.to.DeleteRange(under(lo), under(hi)) }

// row is a kind of record.
type row struct {
	name  string
	space *storage.Keyspace
	kind  byte
	hosts []ring.Pos
	under func(key []byte) []byte // how the space has keys
}

// table reads the sizes from the tables of the database.
func (b *books) table(t *report.Table) error {
	plain := func(key []byte) []byte { return key }
	all := slices.Concat(b.waiting, b.done, b.again)
	t.Add("URL", "length", "B", float64(b.length)/float64(b.urls))
	disk := make(map[string]float64)
	for _, of := range []row{
		{"pending: state and order", b.hosts, ondisk.KindReady, b.waiting, plain},
		{"pending: entry", b.hosts, ondisk.KindEntry, b.waiting, plain},
		{"done: entry", b.hosts, ondisk.KindEntry, b.done, plain},
		{"visited: entry", b.hosts, ondisk.KindEntry, b.again, plain},
		{"visited: due queue", b.hosts, ondisk.KindVisit, b.again, plain},
		{"source of 8 URLs", b.hosts, ondisk.KindSource, all, plain},
		{"replica: pending", b.copies, ondisk.KindEntry, b.waiting, under},
		{"replica: done", b.copies, ondisk.KindEntry, b.done, under},
		{"replica: visited", b.copies, ondisk.KindEntry, b.again, under},
		{"replica: source of 8 URLs", b.copies, ondisk.KindSource, all, under},
	} {
		var n, keys, values, size float64
		for _, pos := range of.hosts {
			lo := ondisk.HostPrefix(pos, of.kind)
			lo, hi := of.under(lo), of.under(kv.PrefixEnd(lo))
			bytes, err := of.space.Size(lo, hi)
			if err != nil {
				return err
			}
			size += float64(bytes)
			if err := of.space.Scan(lo, hi, func(key, value []byte) bool {
				n++
				keys += float64(len(key))
				values += float64(len(value))
				return true
			}); err != nil {
				return err
			}
		}
		disk[of.name] = size / n
		t.Add(of.name, "key", "B", keys/n)
		t.Add(of.name, "value", "B", values/n)
		t.Add(of.name, "disk", "B", size/n)
	}
	index, err := b.hosts.Size([]byte{ondisk.SpaceVisit}, []byte{ondisk.SpaceVisit + 1})
	t.Add("visited: index of hosts", "disk", "B", float64(index)/float64(b.visited.Pages))
	t.Add("schedule of a URL", "disk", "B", disk["visited: entry"]-disk["done: entry"]+disk["visited: due queue"]+float64(index)/float64(b.visited.Pages))
	t.Add("replica: schedule of a URL", "disk", "B", disk["replica: visited"]-disk["replica: done"])
	return err
}
