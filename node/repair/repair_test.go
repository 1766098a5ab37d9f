package repair

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/ownertest"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/crawl/worker/pages"
	"github.com/apoidea/apoidea/dedup"
	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node"
	"github.com/apoidea/apoidea/node/services/crawling"
	"github.com/apoidea/apoidea/node/services/jobs"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
	"github.com/apoidea/apoidea/storage/warc"
)

const sitePages = 40

func noProgress(string) {}

func urlOf(i int) string { return fmt.Sprintf("http://h%d.example/%d", i%4, i) }

// crawled makes the data directory of a peer that crawled some pages, of which each leads to the
// next; the last leads to one that waits.
func crawled(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	store, err := storage.Open(filepath.Join(dir, "db"), storage.Options{})
	if err != nil {
		t.Fatal(err)
	}
	key, err := member.GenerateIdentity(1, func([]peer.ID) int { return 0 })
	if err != nil {
		t.Fatal(err)
	}
	self, err := peer.IDFromPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	identity, err := member.MarshalIdentity(key)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := job.FromWire(&wire.JobSpec{Id: bytes.Repeat([]byte{7}, job.IDSize), Seeds: [][]byte{[]byte(urlOf(0))}, Scope: []string{"*.example"}})
	if err != nil {
		t.Fatal(err)
	}
	kept, err := proto.Marshal(&wire.Job{Spec: spec.Wire(), State: uint32(job.StateDone), Version: 3})
	if err != nil {
		t.Fatal(err)
	}
	essentials := map[string][]byte{node.MetaIdentity: identity, node.MetaIncarnation: []byte("1"), jobs.KeyPrefix + string(spec.ID[:]): kept}
	if err := node.WriteEssentials(dir, essentials); err != nil {
		t.Fatal(err)
	}
	meta := store.Keyspace(storage.KeyspaceMeta)
	if err := meta.UpdateNoSync(func(b kv.Batch) {
		for name, value := range essentials {
			b.Set([]byte(name), value)
		}
	}); err != nil {
		t.Fatal(err)
	}
	o, err := owner.New(owner.DefaultConfig(string(self)), store.Keyspace(storage.KeyspaceHosts), noSets{}, &draft{}, wholeRing{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	content, err := dedup.NewContent(store.Keyspace(storage.KeyspaceContent))
	if err != nil {
		t.Fatal(err)
	}
	archive, err := warc.Open(filepath.Join(dir, "archive"), warc.Config{Peer: "me", MaxSize: 20_000})
	if err != nil {
		t.Fatal(err)
	}
	enc := warc.NewEncoder(warc.Gzip)
	o.Begin(time.Now())
	for i := range sitePages {
		at := time.UnixMilli(1_700_000_000_000 + int64(i))
		body := bytes.Repeat(fmt.Appendf(nil, "<p>%x", sha256.Sum256([]byte(urlOf(i)))), 20)
		m, err := enc.Exchange(&warc.Exchange{
			URL: urlOf(i), Date: at, ResponseHead: []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"), Body: body, PayloadDigest: sha256.Sum256(body),
			Outlinks: []string{urlOf(i + 1), "http://trap.example/"},
			Fields:   append(provenance(i), warc.Field{Name: crawling.DepthField, Value: fmt.Sprint(i)}, warc.Field{Name: crawling.LinkCountsField, Value: pages.LinkCounts{Pages: 1, Unfollowed: 1}.String()}),
		})
		if err != nil {
			t.Fatal(err)
		}
		ref, err := archive.Append(m)
		if err != nil {
			t.Fatal(err)
		}
		digest := sha256.Sum256(body)
		f := &owner.Final{
			URL: urlOf(i), Outcome: link.OutcomeOK, Status: 200, Depth: uint32(i), FetchedMs: at.UnixMilli(), Size: uint64(len(body)),
			Digest: digest[:], RecordID: ref.RecordID[:], Holder: string(self), MIME: "text/html",
		}
		if err := o.Import(outcome(spec.ID, f, nil)); err != nil {
			t.Fatal(err)
		}
		if i == sitePages-1 {
			if err := o.Import(outcome(spec.ID, &owner.Final{URL: urlOf(sitePages), Depth: sitePages}, nil)); err != nil || !o.Reopen(spec.ID, urlOf(sitePages)) {
				t.Fatal(err)
			}
		}
		if _, err := content.Confirm(dedup.Key(ring.ContentKey(digest[:])), dedup.Record{URL: f.URL, Peer: string(self), RecordID: ref.RecordID.String(), Date: at}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := o.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(meta.Sync(), archive.Close(), store.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// provenance is how a page of the site was found, as the archive has it.
func provenance(i int) (list []warc.Field) {
	if i > 0 {
		list = []warc.Field{{Name: "via", Value: urlOf(i - 1)}, {Name: "hopsFromSeed", Value: pathOf(i)}}
	}
	return append(list, warc.Field{Name: "seed", Value: urlOf(0)})
}

// pathOf is the hop path of a page.
func pathOf(i int) string {
	from := link.Source{Seed: urlOf(0)}
	for range i {
		from.Path = from.PathTo(link.KindPage)
	}
	return from.Path
}

// TestProvenanceIsRestored: without the database, the archive has how its pages were found.
func TestProvenanceIsRestored(t *testing.T) {
	dir := crawled(t)
	remove(t, filepath.Join(dir, "db"), glob(t, dir, "archive/*.warc.gz")[0])
	if _, err := Run(t.Context(), dir, noProgress, false); err != nil {
		t.Fatal(err)
	}
	store, err := storage.Open(filepath.Join(dir, "db"), storage.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	hosts, n := store.Keyspace(storage.KeyspaceHosts), 0
	sources := ondisk.NewSources(hosts.Get)
	if _, err := ondisk.URLsIn(hosts, nil, 1<<20, func(id job.ID, f *ondisk.Final) {
		from := sources.Of(ring.PosOf(ring.HostKey(link.Host(f.URL))), id, f.Via)
		via, path, seed := link.Provenance(from, f.URL, f.Kind, f.Depth, f.Hops)
		if i := int(f.Depth); seed != urlOf(0) || path != pathOf(i) || i > 0 && via != urlOf(i-1) {
			t.Errorf("page %d: via %q, path %q, seed %q", i, via, path, seed)
		}
		n++
	}); err != nil || n == 0 {
		t.Fatalf("%d pages are restored: %v", n, err)
	}
}

// TestRevisitsAreNoOutcomes checks that a repair without the database restores a page from the
// record that has its body, and nothing from answers with status 304.
func TestRevisitsAreNoOutcomes(t *testing.T) {
	dir := crawled(t)
	archive, err := warc.Open(filepath.Join(dir, "archive"), warc.Config{Peer: "me"})
	if err != nil {
		t.Fatal(err)
	}
	const lost = "http://h0.example/lost"
	for _, url := range []string{urlOf(0), lost} {
		m, err := warc.NewEncoder(warc.Gzip).Exchange(&warc.Exchange{
			URL: url, Date: time.UnixMilli(1_800_000_000_000), ResponseHead: []byte("HTTP/1.1 304 Not Modified\r\nLocation: /no\r\n\r\n"), NotModified: true,
			RevisitOf: &warc.Original{URL: url, Date: time.UnixMilli(1_700_000_000_000)}, Fields: append(provenance(0), warc.Field{Name: "change", Value: "not-modified"}),
		})
		if err == nil {
			_, err = archive.Append(m)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err := Check(t.Context(), dir, noProgress); err != nil || !r.OK || r.Exchanges != sitePages+2 {
		t.Errorf("check: %+v, %v", r, err)
	}
	remove(t, filepath.Join(dir, "db"))
	if r, err := Run(t.Context(), dir, noProgress, false); err != nil || r.Restored != sitePages {
		t.Fatalf("%+v, %v", r, err)
	}
	store, err := storage.Open(filepath.Join(dir, "db"), storage.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := ondisk.URLsIn(store.Keyspace(storage.KeyspaceHosts), nil, 1<<20, func(_ job.ID, f *ondisk.Final) {
		if f.URL == lost || f.URL == urlOf(0) && (f.Outcome != link.OutcomeOK || f.Status != 200 || f.FetchedMs != 1_700_000_000_000 || len(f.Digest) == 0) {
			t.Errorf("restored %+v", f)
		}
	}); err != nil {
		t.Fatal(err)
	}
}

// fates are how many URLs are done and how many wait.
func fates(t *testing.T, dir string) (done, waiting int) {
	t.Helper()
	store, err := storage.Open(filepath.Join(dir, "db"), storage.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := ondisk.URLsIn(store.Keyspace(storage.KeyspaceHosts), nil, 1<<20, func(job.ID, *ondisk.Final) { done++ }); err != nil {
		t.Fatal(err)
	}
	o, err := owner.New(owner.DefaultConfig("self"), store.Keyspace(storage.KeyspaceHosts), noSets{}, &draft{}, wholeRing{}, time.Now())
	if err == nil {
		err = ownertest.Check(o)
	}
	if err != nil {
		t.Fatal(err)
	}
	totals := o.Totals()
	return done, int(totals.URLsPending + totals.URLsWaiting)
}

func glob(t *testing.T, dir, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("no %s: %v", pattern, err)
	}
	return names
}

func remove(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := os.RemoveAll(name); err != nil {
			t.Fatal(err)
		}
	}
}

func overwrite(t *testing.T, name string, share float64, n int) {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	at := int(float64(len(raw)) * share)
	copy(raw[at:], bytes.Repeat([]byte{0x77}, min(n, len(raw)-at)))
	if err := os.WriteFile(name, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestRun: whatever is damaged is found; repaired, nothing is found any more, and every page is
// done with its record in the archive, or waits.
func TestRun(t *testing.T) {
	base := crawled(t)
	if r, err := Check(t.Context(), base, noProgress); err != nil || !r.OK || len(r.Findings) > 1 || r.Exchanges != sitePages || r.URLs != sitePages {
		t.Fatalf("sound: %+v, %v", r, err)
	}
	for _, c := range []struct {
		name  string
		harm  func(t *testing.T, dir string)
		again int // pages that have to be crawled again, at most
	}{
		{"the database gone", func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "db")) }, 0},
		{"manifest", func(t *testing.T, dir string) { overwrite(t, glob(t, dir, "db/MANIFEST-*")[0], 0, 30) }, 0},
		{"marker", func(t *testing.T, dir string) { remove(t, glob(t, dir, "db/marker.manifest.*")...) }, 0},
		{"options", func(t *testing.T, dir string) { overwrite(t, glob(t, dir, "db/OPTIONS-*")[0], 0, 200) }, 0},
		{"an archive file", func(t *testing.T, dir string) { overwrite(t, glob(t, dir, "archive/*.warc.gz")[0], 0.4, 100) }, 3},
		{"an archive file gone", func(t *testing.T, dir string) { remove(t, glob(t, dir, "archive/*.warc.gz")[0]) }, sitePages * 3 / 4},
		{"an archive file renamed", func(t *testing.T, dir string) {
			if err := os.Rename(glob(t, dir, "archive/*.warc.gz")[0], filepath.Join(dir, "archive", "mine.warc.gz")); err != nil {
				t.Fatal(err)
			}
		}, 0},
		{"the archive gone", func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "archive")) }, sitePages},
		{"index", func(t *testing.T, dir string) { overwrite(t, glob(t, dir, "archive/*.cdxj")[0], 0.5, 20) }, 0},
		{"indexes gone", func(t *testing.T, dir string) { remove(t, glob(t, dir, "archive/*.cdxj")...) }, 0},
		{"database and archive", func(t *testing.T, dir string) {
			remove(t, glob(t, dir, "db/MANIFEST-*")[0])
			overwrite(t, glob(t, dir, "archive/*.warc.gz")[0], 0.4, 100)
		}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "d")
			if err := os.CopyFS(dir, os.DirFS(base)); err != nil {
				t.Fatal(err)
			}
			c.harm(t, dir)
			if r, err := Check(t.Context(), dir, noProgress); err != nil || r.OK {
				t.Errorf("check: %+v, %v", r, err)
			}
			dry, err := Run(t.Context(), dir, noProgress, true)
			if err != nil || dry.Aside != "" {
				t.Fatalf("dry run: %+v, %v", dry, err)
			}
			if r, err := Check(t.Context(), dir, noProgress); err != nil || r.OK {
				t.Errorf("the dry run mended it: %+v, %v", r, err)
			}
			m, err := Run(t.Context(), dir, noProgress, false)
			if err != nil || m.AgainTotal > int64(c.again) {
				t.Fatalf("repair: %+v, %v", m, err)
			}
			if r, err := Check(t.Context(), dir, noProgress); err != nil || !r.OK {
				t.Errorf("check of what was repaired: %+v, %v", r, err)
			}
			if done, waiting := fates(t, dir); done+waiting != sitePages+1 || waiting > 1+c.again {
				t.Errorf("%d URLs are done and %d wait, want %d, %d of them waiting at most; %+v", done, waiting, sitePages+1, 1+c.again, m)
			}
			if again, err := Run(t.Context(), dir, noProgress, false); err != nil || again.NewDatabase || again.Aside != "" {
				t.Errorf("a second repair: %+v, %v", again, err)
			}
		})
	}
}

// TestOtherFormat checks that a database of another format is not reported as damaged, and that a
// repair leaves it as it is, also one that does not open.
func TestOtherFormat(t *testing.T) {
	for format, want := range map[string]error{"1": storage.ErrOlder, "1000": storage.ErrNewer} {
		dir := crawled(t)
		s, err := storage.Open(filepath.Join(dir, "db"), storage.Options{})
		if err != nil {
			t.Fatal(err)
		}
		wait, err := s.Keyspace(storage.KeyspaceFormat).Update(func(b kv.Batch) { b.Set([]byte("format"), []byte(format)) })
		if err == nil {
			err = wait()
		}
		if err := errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
		if r, err := Check(t.Context(), dir, noProgress); !errors.Is(err, want) {
			t.Errorf("check: %+v, %v, want %v", r, err, want)
		}
		if r, err := Run(t.Context(), dir, noProgress, false); !errors.Is(err, want) {
			t.Errorf("repair: %+v, %v, want %v", r, err, want)
		}
		manifests, err := filepath.Glob(filepath.Join(dir, "db", "MANIFEST-*"))
		if err != nil || len(manifests) == 0 {
			t.Fatalf("manifests %v, %v", manifests, err)
		}
		kept := filepath.Join(dir, node.EssentialsFile)
		if err := os.WriteFile(kept, []byte(`{"format":`+format+`}`), 0o600); err != nil {
			t.Fatal(err)
		}
		remove(t, manifests...)
		if r, err := Run(t.Context(), dir, noProgress, false); !errors.Is(err, want) {
			t.Errorf("repair of one without a manifest: %+v, %v, want %v", r, err, want)
		}
		remove(t, filepath.Join(dir, "db"))
		if r, err := Run(t.Context(), dir, noProgress, false); !errors.Is(err, want) {
			t.Errorf("repair from the copy of identity and jobs: %+v, %v, want %v", r, err, want)
		}
	}
}

// TestInterrupted: a repair that ended between the corrupt database and the new one is done again.
func TestInterrupted(t *testing.T) {
	dir := crawled(t)
	if err := os.Rename(filepath.Join(dir, "db"), filepath.Join(dir, draftName)); err != nil {
		t.Fatal(err)
	}
	if r, err := Check(t.Context(), dir, noProgress); err != nil || r.OK {
		t.Errorf("check: %+v, %v", r, err)
	}
	if m, err := Run(t.Context(), dir, noProgress, false); err != nil || !m.NewDatabase || m.Restored != sitePages {
		t.Errorf("repair: %+v, %v", m, err)
	}
	if done, waiting := fates(t, dir); done != sitePages || waiting != 1 {
		t.Errorf("%d done, %d pending", done, waiting)
	}
}

// TestRefuses: a directory without data, and one that is in use.
func TestRefuses(t *testing.T) {
	if _, err := Check(t.Context(), t.TempDir(), noProgress); err == nil {
		t.Error("an empty directory was looked at")
	}
	dir := crawled(t)
	lock, err := storage.Acquire(filepath.Join(dir, "db"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if _, err := Run(t.Context(), dir, noProgress, false); !errors.Is(err, storage.ErrLocked) {
		t.Errorf("a directory in use: %v", err)
	}
}

// TestMovedFilesAreNoDamage checks that pages of a WARC file that was moved elsewhere are not lost
// once its index is marked so, and that no page is crawled again.
func TestMovedFilesAreNoDamage(t *testing.T) {
	dir := crawled(t)
	files, err := warc.Files(filepath.Join(dir, "archive"), false)
	if err != nil || len(files) < 2 {
		t.Fatalf("files %v, %v", files, err)
	}
	index := filepath.Join(dir, "archive", warc.IndexName(filepath.Base(files[0])))
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	if r, err := Check(t.Context(), dir, noProgress); err != nil || r.OK || !strings.Contains(fmt.Sprint(r.Findings), ".cdxj.moved") {
		t.Errorf("without the mark: %+v, %v", r, err)
	}
	if err := os.Rename(index, index+".moved"); err != nil {
		t.Fatal(err)
	}
	if r, err := Check(t.Context(), dir, noProgress); err != nil || !r.OK {
		t.Errorf("with the mark: %+v, %v", r, err)
	}
	if m, err := Run(t.Context(), dir, noProgress, false); err != nil || m.AgainTotal != 0 || m.Aside != "" {
		t.Errorf("repaired %+v, %v", m, err)
	}
	if done, _ := fates(t, dir); done != sitePages {
		t.Errorf("%d pages are done, want %d", done, sitePages)
	}
}
