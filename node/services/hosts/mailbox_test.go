package hosts

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
)

// linksTo are n links, the first with an ID; the key of each names the peer that owns it.
func linksTo(peer byte, first, n int) (links []owner.OutLink) {
	for i := range n {
		links = append(links, owner.OutLink{ID: uint64(first + i), Key: ring.Key{peer}})
	}
	return links
}

func byFirst(key ring.Key) string {
	if key[0] == 0 {
		return ""
	}
	return string(key[:1])
}

var begin = time.Unix(1000, 0)

// left are the batches that leave at a moment: to whom, and how many links.
func left(b *Mailbox, at time.Duration) (all []string) {
	for {
		batch, ok := b.Next(begin.Add(at))
		if !ok {
			return all
		}
		all = append(all, fmt.Sprintf("%s%d", batch.To, len(batch.Links)))
	}
}

func TestBatchesLeave(t *testing.T) {
	b := NewMailbox(byFirst)
	if !b.Wake().IsZero() || len(left(b, time.Hour)) > 0 {
		t.Error("an empty one wants something")
	}
	b.Put(begin, slices.Concat(linksTo('a', 0, 3), linksTo('b', 10, MaxBatchLinks+1), linksTo(0, 1000, 2)))
	if got := left(b, 0); !slices.Equal(got, []string{"b256"}) {
		t.Errorf("at once %v", got)
	}
	if at := b.Wake(); !at.Equal(begin.Add(lingerFirst)) {
		t.Errorf("the rest leaves at %v", at)
	}
	b.Put(begin.Add(lingerFirst/2), linksTo('a', 2000, 1))
	if got := left(b, lingerFirst); !slices.Equal(got, []string{"a4", "b1", "2"}) {
		t.Errorf("what has lingered: %v", got)
	}
	if !b.Wake().IsZero() {
		t.Error("something is left")
	}
}

// TestLinger: it grows with the number of peers that are written to.
func TestLinger(t *testing.T) {
	b := NewMailbox(byFirst)
	for _, row := range []struct {
		peers int
		want  time.Duration
	}{{1, lingerFirst}, {lingerPeers, 2 * lingerFirst}, {10 * lingerPeers, 11 * lingerFirst}, {1000 * lingerPeers, lingerMost}} {
		for len(b.queues) < row.peers {
			b.queues = append(b.queues, &queue{})
		}
		if got := b.linger(); got != row.want {
			t.Errorf("%d peers: linger %v, want %v", row.peers, got, row.want)
		}
	}
}

// TestNotTaken: links that were not accepted wait, and leave with those queued for their owner at
// that time.
func TestNotTaken(t *testing.T) {
	b := NewMailbox(byFirst)
	b.Put(begin, linksTo('a', 0, 3))
	left(b, lingerFirst)
	b.Back(begin, 1, linksTo('a', 1, 2))
	if got := left(b, RetryAfter-1); len(got) > 0 || b.held != 2 || !b.Wake().Equal(begin.Add(RetryAfter)) {
		t.Errorf("before its time: %v, %d held, the next at %v", got, b.held, b.Wake())
	}
	b.Put(begin.Add(RetryAfter-1), linksTo('a', 10, 1))
	if got := left(b, RetryAfter); !slices.Equal(got, []string{"a3"}) {
		t.Errorf("%v leave", got)
	}
}

func TestRoom(t *testing.T) {
	b := NewMailbox(byFirst)
	b.Put(begin, linksTo('a', 0, MaxHeldLinks))
	if b.Room() {
		t.Error("room for more")
	}
	if b.Back(begin, MaxBatchLinks, nil); !b.Room() {
		t.Error("no room although links were taken")
	}
}

func TestSplit(t *testing.T) {
	links := linksTo('a', 0, 6)
	taken, left, moved := Split(links, &wire.LinksReply{Busy: []uint32{4}, Moved: []uint32{2, 1}})
	if !slices.Equal(taken, []uint64{0, 3, 5}) || len(left) != 3 || left[0].ID != 1 || left[2].ID != 4 || moved.ID != 2 {
		t.Errorf("taken %v, left %v, moved %v", taken, left, moved)
	}
	if taken, left, moved := Split(links, &wire.LinksReply{}); len(taken) != 6 || left != nil || moved != nil {
		t.Errorf("of all: taken %v, left %v, moved %v", taken, left, moved)
	}
}

// TestColumns: a message carries what a link is, and leaves out columns that are all zero.
func TestColumns(t *testing.T) {
	one, other := job.NewID(), job.NewID()
	m := Message([]owner.OutLink{
		{Job: one, URL: "http://a.example/"},
		{Job: other, URL: "http://b.example/", Depth: 3, Hops: 1, Kind: link.KindSitemap},
		{Job: one, URL: "http://c.example/", Depth: 1},
	})
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(m.GetJob(), []uint32{0, 1, 0}) || len(m.GetJobIds()) != 2 || !slices.Equal(m.GetDepth(), []uint32{0, 3, 1}) ||
		!slices.Equal(m.GetHops(), []byte{0, 1, 0}) || m.GetKind()[1] != byte(link.KindSitemap) {
		t.Errorf("columns %v", m)
	}
	plain := Message([]owner.OutLink{{Job: one, URL: "http://a.example/", Kind: link.KindPage}})
	if plain.GetHops() != nil || plain.GetKind() != nil || plain.GetSource() != nil {
		t.Errorf("columns of zeros: %v", plain)
	}
	from := &link.Source{URL: "http://d.example/", Path: "L", Seed: "http://e.example/"}
	m = Message([]owner.OutLink{{Job: one, URL: "http://a.example/"}, {Job: one, URL: "http://b.example/", Source: from}, {Job: one, URL: "http://c.example/", Source: from}})
	sources := wire.SourcesOf(m, true)
	if err := m.Validate(); err != nil || len(m.GetSources()) != 1 || sources.Of(0) != nil || *sources.Of(1) != *from || sources.Of(2) != sources.Of(1) {
		t.Errorf("%v, sources %v of %v", err, m.GetSource(), m.GetSources())
	}
	long := &link.Source{URL: "http://d.example/" + strings.Repeat("x", link.MaxSource-20), Seed: "http://e.example/" + strings.Repeat("x", link.MaxSource-20)}
	var batch []owner.OutLink
	for i := range MaxBatchLinks {
		each := *long
		each.Path = strings.Repeat("L", i%50)
		batch = append(batch, owner.OutLink{Job: one, URL: "http://a.example/", Source: &each})
	}
	m = Message(batch)
	size := proto.Size(m)
	m.Sources = nil
	if size -= proto.Size(m); size > wire.MaxSourceBytes || size < wire.MaxSourceBytes/2 {
		t.Errorf("sources of %d bytes, at most %d", size, wire.MaxSourceBytes)
	}
}

// BenchmarkSources encodes batches of links of real lengths, of which five in a row have the same
// page, and reports the bytes of their sources.
func BenchmarkSources(b *testing.B) {
	id := job.NewID()
	var batch []owner.OutLink
	for i := range MaxBatchLinks {
		l := owner.OutLink{Job: id, URL: fmt.Sprintf("https://www.example-%d.org/news/2026/11/%02d/some-words-of-a-title-%d.html", i%40, i%28, i*7919), Depth: 3}
		if i%5 == 0 {
			l.Source = &link.Source{URL: fmt.Sprintf("https://www.example.com/section/2026/11/%02d/some-words-of-a-title-%d.html", i%28, i*7907), Path: "LL", Seed: "https://www.example.com/"}
		} else {
			l.Source = batch[i-1].Source
		}
		batch = append(batch, l)
	}
	m := Message(batch)
	with := proto.Size(m)
	m.Sources, m.Source = nil, nil
	for b.Loop() {
		Message(batch)
	}
	b.ReportMetric(float64(proto.Size(m))/float64(len(batch)), "B/link")
	b.ReportMetric(float64(with-proto.Size(m))/float64(len(batch)), "B/link-of-sources")
}
