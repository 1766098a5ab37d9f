package owner

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/record"
	"github.com/apoidea/apoidea/dht/ring"
)

// samples are values of every kind with every field set.
func samples() map[string][]byte {
	host := hostRecord{
		name: "a.example", epoch: Epoch{3, "peer"}, version: 7, worker: "w", notBefore: 5, backoffUntil: 6, backoffReason: "429",
		fails: 2, failOutcome: link.OutcomeDNS, addrs: [][]byte{{1, 2, 3, 4}}, placed: "w", placedAt: 8, placedWhy: "near",
		measured: []Measurement{{"w", 100, ""}, {"v", 0, "refused"}}, fetchBase: 9, slowRuns: 1, seq: 10, outbox: 11, secure: true,
	}
	count := counters{
		accepted: 9, delayed: 1, promised: 2, bytes: 100, refetched: 1, minDepth: 3, down: link.OutcomeTLS, downUntil: 44, outbox: 5, entries: 2,
		exhausted: true,
	}
	count.outcomes[link.OutcomeOK] = 4
	wait := pending{place: place{depth: 2, due: 99, seq: 3}, hash: 77, hops: 1, kind: link.KindSitemap, tries: 2, lapses: 1, promised: true, promisedBytes: 9, url: "http://a.example/"}
	open := entry{at: place{depth: 2, due: 99, seq: 3}}
	done := entry{done: true, final: Final{
		URL: "http://a.example/", Outcome: link.OutcomeOK, Status: 200, Depth: 1, Hops: 2, Kind: link.KindPage, Tries: 1, FetchedMs: 5, DurationMs: 6, Size: 7,
		Digest: make([]byte, 32), RecordID: make([]byte, 16), Holder: "w", ETag: "e", LastModified: "l", MIME: "text/html", Detail: "d",
	}}
	short := linkList{links: []outlink{{"http://a.example/", 1, 2, link.KindPage}}}
	var long linkList
	for range 100 {
		long.links = append(long.links, short.links[0])
	}
	out := host
	out.optOut = optOut{version: 3, on: true, at: 12, why: "by its form"}
	asked := count
	asked.admission, asked.leftOut, asked.requests, asked.cut, asked.trap = domain.Crowded, 7, 8, 9, true
	full := done
	full.final.LeftOut = 5
	return map[string][]byte{
		"host that opted out": out.encode(), "counters of an admission": asked.encode(), "done with links left out": full.encode(),
		"totals":         (&totals{hosts: 300}).encode(),
		"open in a copy": append(open.encode(), wait.encode()[1:]...),
		"host":           host.encode(), "counters": count.encode(), "pending": wait.encode(), "open": open.encode(), "done": done.encode(),
		"links": short.encode(), "packed links": long.encode(), "again": (&linkList{again: true}).encode(),
		"accounts": (&accounts{pages: account{9, 1, 2, 3}, bytes: account{8, 1, 1, 1}}).encode(),
	}
}

// recode decodes a value as a kind and encodes it again.
func recode(kind string, b []byte) ([]byte, error) {
	switch kind {
	case "host", "host that opted out":
		v, err := decodeHost(b)
		return v.encode(), err
	case "counters", "counters of an admission":
		v, err := decodeCounters(b)
		return v.encode(), err
	case "pending":
		v, err := decodePending(place{depth: 2, seq: 3}, b)
		return v.encode(), err
	case "open", "done", "done with links left out", "open in a copy":
		v, err := decodeEntry(b)
		if v.waits != nil {
			return append(v.encode(), v.waits.encode()[1:]...), err
		}
		return v.encode(), err
	case "totals":
		v, err := decodeTotals(b)
		return v.encode(), err
	case "robots":
		v, err := robotsState(b)
		return encodeRobots(v), err
	case "accounts":
		v, err := decodeAccounts(b)
		return v.encode(), err
	default:
		v, err := decodeLinks(b)
		return v.encode(), err
	}
}

var makeSamples = flag.String("make-samples", "", "write the samples into a file")

// TestMakeSamples writes what TestOldValues reads.
func TestMakeSamples(t *testing.T) {
	if *makeSamples == "" {
		t.Skip("-make-samples is not given")
	}
	var text []byte
	all := samples()
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		text = fmt.Appendf(text, "%x %s\n", all[kind], kind)
	}
	if err := os.WriteFile(*makeSamples, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// endsEarly are those of which a part in front is a value as well.
var endsEarly = map[string]bool{"done with links left out": true, "open in a copy": true}

func TestValuesComeBack(t *testing.T) {
	for kind, value := range samples() {
		t.Run(kind, func(t *testing.T) {
			got, err := recode(kind, value)
			if err != nil || !reflect.DeepEqual(got, value) {
				t.Errorf("%v\n%x\n%x", err, got, value)
			}
			message := value[0] == formatMessage
			for cut := range value { // a message without its last fields is one; what the store has on disk has sums
				if _, err := recode(kind, value[:cut]); err == nil && !endsEarly[kind] && !message {
					t.Errorf("cut at %d: taken", cut)
				}
			}
			later := append([]byte{formatMessage + 1}, value[1:]...)
			if _, err := recode(kind, later); !errors.Is(err, ErrNewer) {
				t.Errorf("what a later version wrote: %v", err)
			}
			if _, err := recode(kind, append([]byte{0}, value[1:]...)); err == nil {
				t.Error("another format is taken")
			}
			if _, err := recode(kind, append(append([]byte(nil), value...), 0)); err == nil {
				t.Error("a byte too many is taken")
			}
		})
	}
}

// TestOldValues: what the last version without messages wrote says the same as what is written now. See node/testdata.
func TestOldValues(t *testing.T) {
	raw, err := os.ReadFile("testdata/records-1.txt")
	if err != nil {
		t.Fatal(err)
	}
	now := samples()
	for line := range strings.Lines(string(raw)) {
		text, kind, _ := strings.Cut(strings.TrimSpace(line), " ")
		t.Run(kind, func(t *testing.T) {
			old, err := hex.DecodeString(text)
			if err != nil || now[kind] == nil {
				t.Fatalf("no sample: %v", err)
			}
			if got, err := recode(kind, old); err != nil || !reflect.DeepEqual(got, now[kind]) {
				t.Errorf("%v\n%x\n%x", err, got, now[kind])
			}
			for cut := range old {
				_, _ = recode(kind, old[:cut]) // whatever it says
			}
		})
	}
}

// TestLaterFields: fields of a later version are kept and written back, up to a bound.
func TestLaterFields(t *testing.T) {
	field := protowire.AppendString(protowire.AppendTag(nil, 1000, protowire.BytesType), "of a later version")
	for kind, value := range samples() {
		if value[0] != formatMessage {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			later := append(slices.Clone(value), field...)
			if got, err := recode(kind, later); err != nil || !reflect.DeepEqual(got, later) {
				t.Errorf("%v\n%x\n%x", err, got, later)
			}
			for range maxRest / len(field) {
				later = append(later, field...)
			}
			if _, err := recode(kind, later); err == nil {
				t.Error("any number of such fields is taken")
			}
		})
	}
}

// TestLinksAreTheMessage: what is written by hand of links is the message that the generated code reads and writes.
func TestLinksAreTheMessage(t *testing.T) {
	for _, list := range []linkList{
		{},
		{again: true},
		{links: []outlink{{url: "http://a.example/"}}},
		{links: []outlink{{"http://a.example/", 1, 2, link.KindSitemap}, {"http://b.example/", 300, 0, link.KindPage}}},
	} {
		value := list.encode()
		var m record.Links
		if err := proto.Unmarshal(value[1:], &m); err != nil {
			t.Fatal(err)
		}
		if again, err := (proto.MarshalOptions{Deterministic: true}).Marshal(&m); err != nil || !bytes.Equal(again, value[1:]) {
			t.Errorf("%v: %v\n%x\n%x", list, err, value[1:], again)
		}
		if m.GetAgain() != list.again || len(m.GetUrl()) != len(list.links) {
			t.Errorf("%v comes back as %v", list, &m)
		}
	}
}

func TestKeysOrder(t *testing.T) {
	var pos ring.Pos
	var id job.ID
	places := []place{{depth: 0, seq: 1}, {depth: 0, seq: 300}, {depth: 1, seq: 2}, {depth: 300, seq: 0}}
	for i := 1; i < len(places); i++ {
		a, b := places[i-1].key(pos, id), places[i].key(pos, id)
		if string(a) >= string(b) || !places[i-1].before(places[i]) {
			t.Errorf("%v is not before %v", places[i-1], places[i])
		}
		if got, ok := readyPlace(b[jobPrefixLen:]); !ok || got != places[i] {
			t.Errorf("%v comes back as %v", places[i], got)
		}
	}
	due := place{due: 77, seq: 4}
	if got, ok := delayedPlace(due.key(pos, id)[jobPrefixLen:]); !ok || got != due {
		t.Errorf("%v comes back as %v", due, got)
	}
}

// FuzzDecode: what decodes encodes to something that decodes to the same.
func FuzzDecode(f *testing.F) {
	kinds := []string{"host", "counters", "pending", "open", "accounts", "links", "totals", "robots"}
	all := samples()
	for i, kind := range kinds {
		f.Add(uint8(i), all[kind])
	}
	f.Add(uint8(3), all["done"])
	f.Add(uint8(5), all["packed links"])
	for which, text := range []string{
		0: "0109612e6578616d706c65030470656572070101770506033432390207010401020304017708046e6561720201776400017600077265667573656409010a0b01",
		1: "0109120004000000000000000000000000000000000102640103092c05020101", 4: "010901020308010101", 5: "0100010001020011687474703a2f2f612e6578616d706c652f",
	} { // as an earlier version wrote them
		if old, err := hex.DecodeString(text); err == nil && len(old) > 0 {
			f.Add(uint8(which), old) //nolint:gosec // a small number
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		kind := kinds[int(which)%len(kinds)]
		once, err := recode(kind, b)
		if err != nil {
			return
		}
		twice, err := recode(kind, once)
		if err != nil || !reflect.DeepEqual(once, twice) {
			t.Errorf("%s: %v\n%x\n%x", kind, err, once, twice)
		}
	})
}

func TestDepths(t *testing.T) {
	d := newDepths(8)
	d.put(1, 5)
	if d.covers(1, 4) || !d.covers(1, 5) || !d.covers(1, 6) || d.covers(2, 9) {
		t.Error("wrong at first")
	}
	d.put(1, 3)
	d.put(1, 9)
	if !d.covers(1, 3) {
		t.Error("the smaller depth is forgotten")
	}
	for i := range uint64(1000) {
		d.put(i+10, 0)
		if i%2 == 0 && !d.covers(1, 3) {
			t.Fatal("what is asked for is forgotten")
		}
		if len(d.young)+len(d.old) > 9 {
			t.Fatalf("%d are remembered", len(d.young)+len(d.old))
		}
	}
}

// TestBoundedLinks: what is written of links decodes, and fits into a message, however many they are.
func TestBoundedLinks(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, row := range []struct {
		name string
		n    int
		url  func(i int) string
		all  bool
	}{
		{"a large sitemap", 50_000, func(i int) string { return fmt.Sprintf("http://a.example/%s/%d", strings.Repeat("a-long-path/", 5), i) }, true},
		{"too many", maxList + 1, func(i int) string { return fmt.Sprintf("http://a.example/%d", i) }, false},
		{"what does not shrink", 20_000, func(int) string {
			b := make([]byte, 200)
			for i := range b {
				b[i] = byte('!' + random.IntN(90))
			}
			return string(b)
		}, false},
		{"what shrinks to nothing", 30_000, func(i int) string { return strings.Repeat("x", link.MaxURL-10) + strconv.Itoa(i) }, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			var list linkList
			for i := range row.n {
				list.links = append(list.links, outlink{url: row.url(i)})
			}
			raw := list.encode()
			back, err := decodeLinks(raw)
			if err != nil || len(raw) > maxValue || len(back.links) != len(list.links) || len(back.links) < 1000 {
				t.Errorf("%d of %d links in %d bytes, %d decoded, %v", len(list.links), row.n, len(raw), len(back.links), err)
			}
			if all := len(back.links) == row.n; all != row.all {
				t.Errorf("all of them %v, want %v", all, row.all)
			}
		})
	}
}

// TestAdmitRecord: a host's record of a stranger names a host, has addresses that are some, and says nothing that could never be outdone.
func TestAdmitRecord(t *testing.T) {
	m := &importer{step: &step{cfg: Config{MaxRetryAfter: time.Hour, Backoff: []time.Duration{time.Minute}}, now: 1e12}}
	far := m.now + time.Hour.Milliseconds()
	for _, row := range []struct {
		name string
		r    hostRecord
		ok   bool
	}{
		{"a name", hostRecord{name: "a.example"}, true},
		{"with a port", hostRecord{name: "a.example:8080", addrs: [][]byte{make([]byte, 4), make([]byte, 16)}}, true},
		{"with the port of the other scheme", hostRecord{name: "a.example:443"}, true},
		{"with that too", hostRecord{name: "a.example:80"}, true},
		{"an address", hostRecord{name: "[2001:db8::1]:8080"}, true},
		{"not canonical", hostRecord{name: "A.example"}, false},
		{"no name", hostRecord{}, false},
		{"no text", hostRecord{name: "a\xff.example"}, false},
		{"a path", hostRecord{name: "a.example/x"}, false},
		{"half an address", hostRecord{name: "a.example", addrs: [][]byte{make([]byte, 3)}}, false},
		{"an epoch as late as others take", hostRecord{name: "a.example", epoch: Epoch{1e12 + 1<<40, "p"}}, true},
		{"the last epoch", hostRecord{name: "a.example", epoch: Epoch{1<<64 - 1, "p"}}, false},
		{"the year 5138", hostRecord{name: "a.example", notBefore: maxTime, backoffUntil: maxTime, placedAt: maxTime, optOut: optOut{version: 1, at: maxTime}}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := row.r
			if err := m.admitRecord(&r); (err == nil) != row.ok {
				t.Errorf("%v, want ok %v", err, row.ok)
			}
			if row.ok && max(r.notBefore, r.backoffUntil, r.placedAt, r.optOut.at) > far {
				t.Errorf("times %d %d %d %d, after %d", r.notBefore, r.backoffUntil, r.placedAt, r.optOut.at, far)
			}
		})
	}
}

// BenchmarkRecords writes and reads a record of each kind, as a crawl has them.
func BenchmarkRecords(b *testing.B) {
	peer := strings.Repeat("p", 38)
	host := hostRecord{
		name: "www.example.org", epoch: Epoch{1_795_000_000_000, peer}, version: 700, worker: peer, notBefore: 1_795_000_000_000, addrs: [][]byte{{192, 0, 2, 1}},
		placed: peer, placedAt: 1_795_000_000_000, placedWhy: "the only candidate", measured: []Measurement{{peer, 812, ""}, {peer, 1290, ""}, {peer, 455, ""}}, seq: 100_000,
	}
	count := counters{accepted: 90_000, delayed: 3, promised: 64, bytes: 1 << 31, requests: 70_000}
	count.outcomes[link.OutcomeOK] = 60_000
	var list linkList
	for i := range 60 {
		list.links = append(list.links, outlink{url: fmt.Sprintf("http://www.example.org/some/folder/page%d.html", i*7919), depth: 1})
	}
	wait := pending{place: place{depth: 3, seq: 5000}, hash: 77, promised: true, promisedBytes: 1 << 20, url: "http://www.example.org/some/folder/page12345.html"}
	open := entry{at: wait.place}
	done := entry{done: true, final: Final{
		URL: wait.url, Outcome: link.OutcomeOK, Status: 200, Depth: 3, FetchedMs: 1_795_000_000_000, DurationMs: 120, Size: 38_000, Digest: make([]byte, 32),
		RecordID: make([]byte, 16), Holder: peer, ETag: `"5f3a-1b2c"`, LastModified: "Mon, 23 Nov 2026 13:08:23 GMT", MIME: "text/html",
	}}
	for _, row := range []struct {
		kind  string
		write func() []byte
	}{{"host", host.encode}, {"counters", count.encode}, {"links", list.encode}, {"pending", wait.encode}, {"open", open.encode}, {"done", done.encode}} {
		value := row.write()
		b.Run(row.kind+"/write", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				row.write()
			}
			b.ReportMetric(float64(len(value)), "bytes")
		})
		b.Run(row.kind+"/read", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := read(row.kind, value); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func read(kind string, value []byte) (err error) {
	switch kind {
	case "host":
		_, err = decodeHost(value)
	case "counters":
		_, err = decodeCounters(value)
	case "links":
		_, err = decodeLinks(value)
	case "pending":
		_, err = decodeValue(value)
	default:
		_, err = decodeEntry(value)
	}
	return err
}
