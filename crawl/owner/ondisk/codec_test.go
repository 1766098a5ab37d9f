package ondisk

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/fresh"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/record"
	"github.com/apoidea/apoidea/dht/ring"
)

// samples are values of every kind with every field set.
func samples() map[string][]byte {
	host := Host{
		Name: "a.example", Epoch: Epoch{3, "peer"}, Version: 7, Worker: "w", NotBefore: 5, BackoffUntil: 6, BackoffReason: "429",
		Fails: 2, FailOutcome: link.OutcomeDNS, Addrs: [][]byte{{1, 2, 3, 4}}, Placed: "w", PlacedAt: 8, PlacedWhy: "near",
		Measured: []Measurement{{"w", 100, ""}, {"v", 0, "refused"}}, fetchBase: 9, slowRuns: 1, Seq: 10, Outbox: 11, Secure: true,
	}
	count := Counters{
		Accepted: 9, Delayed: 1, Promised: 2, Bytes: 100, Refetched: 1, Down: link.OutcomeTLS, DownUntil: 44, Outbox: 5, Entries: 2,
		Exhausted: true,
	}
	count.Outcomes[link.OutcomeOK] = 4
	wait := Pending{Spot: Spot{Depth: 2, Due: 99, Seq: 3}, Hash: 77, Hops: 1, Kind: link.KindSitemap, Tries: 2, Lapses: 1, Promised: true, PromisedBytes: 9, URL: "http://a.example/"}
	open := Entry{At: Spot{Depth: 2, Due: 99, Seq: 3}}
	done := Entry{Done: true, Final: Final{
		URL: "http://a.example/", Outcome: link.OutcomeOK, Status: 200, Depth: 1, Hops: 2, Kind: link.KindPage, Tries: 1, FetchedMs: 5, DurationMs: 6, Size: 7,
		Digest: make([]byte, 32), RecordID: make([]byte, 16), Holder: "w", ETag: "e", LastModified: "l", MIME: "text/html", Detail: "d",
	}}
	led, found := wait, done
	led.Via, found.Final.Via = 1<<63+5, 1<<63+5
	both := again(found)
	from := link.Source{URL: "http://a.example/from", Path: "LR", Seed: "http://b.example/", Role: link.RoleSitemap}
	short := Links{Links: []Link{{"http://a.example/", 1, 2, link.KindPage}}}
	var long Links
	for range 100 {
		long.Links = append(long.Links, short.Links[0])
	}
	out := host
	out.OptOut = OptOut{Version: 3, On: true, At: 12, Why: "by its form"}
	asked := count
	asked.Admission, asked.LeftOut, asked.Requests, asked.Cut, asked.Trap = domain.Crowded, 7, 8, 9, true
	full := done
	full.Final.LeftOut = 5
	sent := long
	sent.Source = &from
	return map[string][]byte{
		"host that opted out": out.Encode(), "counters of an admission": asked.Encode(), "done with links left out": full.Encode(), "done, to be fetched again": again(done),
		"pending with a source": led.Encode(), "done with a source": found.Encode(), "done with a source, to be fetched again": both,
		"source": EncodeSource(&from), "links with a source": sent.Encode(),
		"totals":         (&Totals{Hosts: 300}).Encode(),
		"open in a copy": append(open.Encode(), wait.Encode()[1:]...),
		"host":           host.Encode(), "counters": count.Encode(), "pending": wait.Encode(), "open": open.Encode(), "done": done.Encode(),
		"links": short.Encode(), "packed links": long.Encode(),
		"accounts": (&Accounts{Pages: Account{9, 1, 2, 3}, Bytes: Account{8, 1, 1, 1}}).Encode(),
	}
}

// again returns the record of a URL that is to be fetched again.
func again(n Entry) []byte {
	n.Final.Revisit = Revisit{Content: 1 << 60, Due: 99, Last: 98, Visits: 7, Changes: 3, Misses: 1, Rate: fresh.Rate{A: 2, B: 30}}
	return n.Encode()
}

// recode decodes a value as a kind and encodes it again.
func recode(kind string, b []byte) ([]byte, error) {
	switch kind {
	case "host", "host that opted out":
		v, err := DecodeHost(b)
		return v.Encode(), err
	case "counters", "counters of an admission":
		v, err := DecodeCounters(b)
		return v.Encode(), err
	case "pending", "pending with a source":
		v, err := DecodePending(Spot{Depth: 2, Seq: 3}, b)
		return v.Encode(), err
	case "source":
		v, err := DecodeSource(b)
		return EncodeSource(&v), err
	case "open", "done", "done with links left out", "done, to be fetched again", "open in a copy", "done with a source", "done with a source, to be fetched again":
		v, err := DecodeEntry(b)
		if v.Waits != nil {
			return append(v.Encode(), v.Waits.Encode()[1:]...), err
		}
		return v.Encode(), err
	case "totals":
		v, err := DecodeTotals(b)
		return v.Encode(), err
	case "robots":
		v, err := DecodeRobots(b)
		state, _ := v.MarshalBinary()
		return EncodeRobots(state), err
	case "accounts":
		v, err := DecodeAccounts(b)
		return v.Encode(), err
	default:
		v, err := DecodeLinks(b)
		return v.Encode(), err
	}
}

// endsEarly are the kinds of which a prefix may be a value too: messages, or values with an
// optional end. The store has checksums.
func endsEarly(kind string) bool {
	return !slices.Contains([]string{"pending", "open", "done", "done with links left out", "source"}, kind)
}

func TestValuesComeBack(t *testing.T) {
	for kind, value := range samples() {
		t.Run(kind, func(t *testing.T) {
			got, err := recode(kind, value)
			if err != nil || !reflect.DeepEqual(got, value) {
				t.Errorf("%v\n%x\n%x", err, got, value)
			}
			for cut := range value {
				if _, err := recode(kind, value[:cut]); err == nil && !endsEarly(kind) {
					t.Errorf("cut at %d: taken", cut)
				}
			}
			for _, format := range []byte{0, Format - 1, Format + 1} {
				if _, err := recode(kind, append([]byte{format}, value[1:]...)); !errors.Is(err, ErrFormat) {
					t.Errorf("format %d: %v", format, err)
				}
			}
			if _, err := recode(kind, append(append([]byte(nil), value...), 0)); err == nil {
				t.Error("a byte too many is taken")
			}
		})
	}
}

// TestLaterFields: fields of a later version are kept and written back, up to a bound.
func TestLaterFields(t *testing.T) {
	field := protowire.AppendString(protowire.AppendTag(nil, 1000, protowire.BytesType), "of a later version")
	for kind, value := range samples() {
		if slices.Contains([]string{"pending", "pending with a source", "open", "open in a copy", "source"}, kind) {
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

// TestRecordsOfEarlierVersion decodes records as they were before they had sources.
func TestRecordsOfEarlierVersion(t *testing.T) {
	for kind, text := range map[string]string{
		"pending": "02000000000000004d02010102010109" + "11687474703a2f2f612e6578616d706c652f",
		"done": "020101c8010102000105060720" + strings.Repeat("00", 32) + "10" + strings.Repeat("00", 16) +
			"01770165016c09746578742f68746d6c016411687474703a2f2f612e6578616d706c652f00",
	} {
		value, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(value, samples()[kind]) { // what has no source is written as before
			t.Errorf("%s is\n%x, want\n%x", kind, samples()[kind], value)
		}
		if got, err := recode(kind, value); err != nil || !bytes.Equal(got, value) {
			t.Errorf("%s: %v, %x", kind, err, got)
		}
	}
	zero := append(bytes.Clone(samples()["pending"]), make([]byte, 8)...)
	if _, err := DecodeWaiting(zero); err == nil {
		t.Error("a pending record with source 0 is accepted: equal records must have equal bytes")
	}
}

// TestMalformedSchedulesAreRejected decodes schedules that are too short, too long, empty, or of
// impossible rates.
func TestMalformedSchedulesAreRejected(t *testing.T) {
	entry := samples()["done"]
	value := samples()["done, to be fetched again"]
	schedule := value[len(entry)+2:] // behind tag and length
	with := func(s []byte) []byte {
		return append(protowire.AppendBytes(append(bytes.Clone(entry), scheduleTag), s), 0xa2, 6, 0) // and an unknown field
	}
	if _, err := DecodeEntry(with(schedule)); err != nil {
		t.Fatal(err)
	}
	noRate, nan := bytes.Clone(schedule), bytes.Clone(schedule)
	clear(noRate[8:16])
	nan[8], nan[9] = 0x7f, 0xff
	bad := map[string][]byte{"long": append(bytes.Clone(schedule), 0), "zero": make([]byte, 27), "visits without a rate": noRate, "not a number": nan}
	for n := 1; n < len(schedule); n++ {
		bad[fmt.Sprint(n, " bytes")] = schedule[:n]
	}
	delete(bad, "8 bytes") // the digest alone
	for name, s := range bad {
		if _, err := DecodeEntry(with(s)); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// TestNearer checks that merging places of a URL is commutative, associative and idempotent.
func TestNearer(t *testing.T) {
	type place struct {
		depth uint32
		via   uint64
	}
	merge := func(a, b place) place {
		depth, via := Nearer(a.depth, a.via, b.depth, b.via)
		return place{depth, via}
	}
	all := []place{{0, 0}, {0, 7}, {0, 1<<64 - 1}, {1, 0}, {1, 3}, {1, 9}, {2, 1}}
	for _, a := range all {
		for _, b := range all {
			if merge(a, b) != merge(b, a) || merge(a, a) != a || merge(a, merge(a, b)) != merge(a, b) {
				t.Errorf("%v and %v merge to %v and %v", a, b, merge(a, b), merge(b, a))
			}
			for _, c := range all {
				if merge(a, merge(b, c)) != merge(merge(a, b), c) {
					t.Errorf("%v, %v, %v are not associative", a, b, c)
				}
			}
		}
	}
	for _, row := range [][3]place{{{1, 9}, {1, 3}, {1, 3}}, {{1, 0}, {1, 9}, {1, 9}}, {{0, 0}, {1, 3}, {0, 0}}, {{2, 1}, {0, 8}, {0, 8}}} {
		if got := merge(row[0], row[1]); got != row[2] {
			t.Errorf("%v and %v merge to %v, want %v", row[0], row[1], got, row[2])
		}
	}
}

// TestSourcesReadOnce checks that a source is read once for neighbors that share it.
func TestSourcesReadOnce(t *testing.T) {
	var pos ring.Pos
	var id job.ID
	from := link.Source{URL: "http://a.example/", Seed: "http://a.example/"}
	value, reads := EncodeSource(&from), 0
	hash := SourceHash(id, value)
	s := NewSources(func(key []byte) ([]byte, bool, error) {
		reads++
		if !bytes.Equal(key, SourceKey(pos, id, hash)) {
			return nil, false, nil
		}
		return value, true, nil
	})
	for range 3 {
		if got := s.Of(pos, id, hash); *got != from {
			t.Fatal(got)
		}
	}
	if none := s.Of(pos, id, 0); none != nil || reads != 1 {
		t.Errorf("%d reads for one source and none: %v", reads, none)
	}
	if missing := s.Of(pos, id, hash+1); *missing != (link.Source{}) {
		t.Errorf("a source that has not arrived is %v", missing)
	}
	if got := s.Of(pos, id, hash); *got != from {
		t.Errorf("%v after one that has not arrived", got)
	}
}

// TestLinksAreTheMessage: what is written by hand of links is the message that the generated code
// reads and writes.
func TestLinksAreTheMessage(t *testing.T) {
	for _, list := range []Links{
		{},
		{Links: []Link{{URL: "http://a.example/"}}},
		{Links: []Link{{URL: "http://a.example/"}}, Source: &link.Source{URL: "http://b.example/", Path: "L", Seed: "http://c.example/"}},
		{Links: []Link{{"http://a.example/", 1, 2, link.KindSitemap}, {"http://b.example/", 300, 0, link.KindPage}}},
	} {
		value := list.Encode()
		var m record.Links
		if err := proto.Unmarshal(value[1:], &m); err != nil {
			t.Fatal(err)
		}
		if again, err := (proto.MarshalOptions{Deterministic: true}).Marshal(&m); err != nil || !bytes.Equal(again, value[1:]) {
			t.Errorf("%v: %v\n%x\n%x", list, err, value[1:], again)
		}
		if len(m.GetUrl()) != len(list.Links) {
			t.Errorf("%v comes back as %v", list, &m)
		}
	}
}

func TestKeysOrder(t *testing.T) {
	var pos ring.Pos
	var id job.ID
	places := []Spot{{Depth: 0, Seq: 1}, {Depth: 0, Seq: 300}, {Depth: 1, Seq: 2}, {Depth: 9, Rank: 7, Seq: 1}, {Depth: 300, Seq: 0}, {Depth: 2, Rank: 1 << 31, Seq: 0}}
	for i := 1; i < len(places); i++ {
		a, b := places[i-1].Key(pos, id), places[i].Key(pos, id)
		if string(a) >= string(b) || !places[i-1].Before(places[i]) {
			t.Errorf("%v is not before %v", places[i-1], places[i])
		}
		if got, ok := readySpot(b[JobPrefixLen:]); !ok || got.at(places[i].Depth) != places[i] {
			t.Errorf("%v comes back as %v", places[i], got)
		}
	}
	due := Spot{Due: 77, Seq: 4}
	if got, ok := DelayedSpot(due.Key(pos, id)[JobPrefixLen:]); !ok || got != due {
		t.Errorf("%v comes back as %v", due, got)
	}
}

// FuzzDecode: what decodes encodes to something that decodes to the same.
func FuzzDecode(f *testing.F) {
	kinds := []string{"host", "counters", "pending", "open", "accounts", "links", "totals", "robots", "source"}
	all := samples()
	for i, kind := range kinds {
		f.Add(uint8(i), all[kind])
	}
	f.Add(uint8(3), all["done"])
	f.Add(uint8(3), all["done, to be fetched again"])
	f.Add(uint8(3), all["done with a source"])
	f.Add(uint8(3), all["done with a source, to be fetched again"])
	f.Add(uint8(2), all["pending with a source"])
	f.Add(uint8(5), all["packed links"])
	f.Add(uint8(5), all["links with a source"])
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

// TestBoundedLinks: what is written of links decodes, and fits into a message, however many they
// are.
func TestBoundedLinks(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, row := range []struct {
		name string
		n    int
		url  func(i int) string
		all  bool
	}{
		{"a large sitemap", 50_000, func(i int) string { return fmt.Sprintf("http://a.example/%s/%d", strings.Repeat("a-long-path/", 5), i) }, true},
		{"too many", MaxList + 1, func(i int) string { return fmt.Sprintf("http://a.example/%d", i) }, false},
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
			var list Links
			for i := range row.n {
				list.Links = append(list.Links, Link{URL: row.url(i)})
			}
			raw := list.Encode()
			back, err := DecodeLinks(raw)
			if err != nil || len(raw) > maxValue || len(back.Links) != len(list.Links) || len(back.Links) < 1000 {
				t.Errorf("%d of %d links in %d bytes, %d decoded, %v", len(list.Links), row.n, len(raw), len(back.Links), err)
			}
			if all := len(back.Links) == row.n; all != row.all {
				t.Errorf("all of them %v, want %v", all, row.all)
			}
		})
	}
}

// BenchmarkRecords writes and reads a record of each kind, as a crawl has them.
func BenchmarkRecords(b *testing.B) {
	peer := strings.Repeat("p", 38)
	host := Host{
		Name: "www.example.org", Epoch: Epoch{1_795_000_000_000, peer}, Version: 700, Worker: peer, NotBefore: 1_795_000_000_000, Addrs: [][]byte{{192, 0, 2, 1}},
		Placed: peer, PlacedAt: 1_795_000_000_000, PlacedWhy: "the only candidate", Measured: []Measurement{{peer, 812, ""}, {peer, 1290, ""}, {peer, 455, ""}}, Seq: 100_000,
	}
	count := Counters{Accepted: 90_000, Delayed: 3, Promised: 64, Bytes: 1 << 31, Requests: 70_000}
	count.Outcomes[link.OutcomeOK] = 60_000
	var list Links
	for i := range 60 {
		list.Links = append(list.Links, Link{URL: fmt.Sprintf("http://www.example.org/some/folder/page%d.html", i*7919), Depth: 1})
	}
	wait := Pending{Spot: Spot{Depth: 3, Seq: 5000}, Hash: 77, Promised: true, PromisedBytes: 1 << 20, URL: "http://www.example.org/some/folder/page12345.html"}
	open := Entry{At: wait.Spot}
	done := Entry{Done: true, Final: Final{
		URL: wait.URL, Outcome: link.OutcomeOK, Status: 200, Depth: 3, FetchedMs: 1_795_000_000_000, DurationMs: 120, Size: 38_000, Digest: make([]byte, 32),
		RecordID: make([]byte, 16), Holder: peer, ETag: `"5f3a-1b2c"`, LastModified: "Mon, 23 Nov 2026 13:08:23 GMT", MIME: "text/html",
	}}
	for _, row := range []struct {
		kind  string
		write func() []byte
	}{{"host", host.Encode}, {"counters", count.Encode}, {"links", list.Encode}, {"pending", wait.Encode}, {"open", open.Encode}, {"done", done.Encode}} {
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
		_, err = DecodeHost(value)
	case "counters":
		_, err = DecodeCounters(value)
	case "links":
		_, err = DecodeLinks(value)
	case "pending":
		_, err = DecodeWaiting(value)
	default:
		_, err = DecodeEntry(value)
	}
	return err
}
