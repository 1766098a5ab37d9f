package table

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/apoidea/apoidea/storage/warc"
)

// TestColumns: the columns are those of Common Crawl's index in its order, then ours.
func TestColumns(t *testing.T) {
	want := []string{
		"url_surtkey", "url", "url_host_name", "url_host_tld", "url_host_2nd_last_part", "url_host_3rd_last_part", "url_host_4th_last_part",
		"url_host_5th_last_part", "url_host_registry_suffix", "url_host_registered_domain", "url_host_private_suffix", "url_host_private_domain",
		"url_host_name_reversed", "url_protocol", "url_port", "url_path", "url_query", "fetch_time", "fetch_status", "fetch_redirect", "content_digest",
		"content_mime_type", "content_mime_detected", "content_charset", "content_languages", "content_truncated", "warc_filename", "warc_record_offset",
		"warc_record_length", "warc_segment",
		"content_digest_sha256", "job", "peer", "via", "hop_path", "seed", "depth", "outcome", "simhash", "visit", "change", "fetch_ms",
	}
	var got []string
	for _, f := range parquet.SchemaOf(URL{}).Fields() {
		got = append(got, f.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("columns %q", got)
	}
}

func TestSetURL(t *testing.T) {
	for _, want := range []URL{
		{
			URL: "https://www.example.co.uk:8443/a/b?q=1?", Host: "www.example.co.uk", TLD: "uk", Part2: "co", Part3: "example", Part4: "www",
			RegistrySuffix: "co.uk", RegisteredName: "example.co.uk", PrivateSuffix: "co.uk", PrivateDomain: "example.co.uk",
			HostReversed: "uk.co.example.www", Protocol: "https", Port: 8443, Path: "/a/b", Query: "q=1?",
		},
		{
			URL: "http://a.someone.github.io/", Host: "a.someone.github.io", TLD: "io", Part2: "github", Part3: "someone", Part4: "a", RegistrySuffix: "io",
			RegisteredName: "github.io", PrivateSuffix: "github.io", PrivateDomain: "someone.github.io", HostReversed: "io.github.someone.a", Protocol: "http", Path: "/",
		},
		{URL: "http://127.0.0.1:80/", Host: "127.0.0.1", HostReversed: "127.0.0.1", Protocol: "http", Port: 80, Path: "/"},
		{URL: "http://[2001:db8::1]:8080/?", Host: "[2001:db8::1]", HostReversed: "[2001:db8::1]", Protocol: "http", Port: 8080, Path: "/"},
		{URL: "http://localhost/", Host: "localhost", TLD: "localhost", RegistrySuffix: "localhost", PrivateSuffix: "localhost", HostReversed: "localhost", Protocol: "http", Path: "/"},
		{URL: "ftp://x", Host: "x", TLD: "x", RegistrySuffix: "x", PrivateSuffix: "x", HostReversed: "x", Protocol: "ftp"},
	} {
		var alone, after URL
		alone.SetURL(want.URL, nil)
		if alone != want {
			t.Errorf("%+v, want %+v", alone, want)
		}
		after.SetURL(want.URL, &alone)
		if after != want {
			t.Errorf("after the same host: %+v, want %+v", after, want)
		}
	}
}

func TestSubset(t *testing.T) {
	for _, tt := range []struct {
		u    URL
		want string
	}{
		{URL{File: "a", Status: 204, Path: "/"}, "warc"},
		{URL{File: "a", Status: 404, Path: "/"}, "non200responses"},
		{URL{File: "a", Status: 200, URL: "http://a.example/robots.txt"}, "robotstxt"},
		{URL{File: "a", Status: 200, URL: "http://a.example/b/robots.txt"}, "warc"},
		{URL{Status: 200, URL: "http://a.example/robots.txt"}, "unarchived"},
	} {
		if got := tt.u.Subset(); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.u, got, tt.want)
		}
	}
}

// TestWriter: rows come back from the file of their partition, with nulls for empty values; a
// partition has more than one file if it is long.
func TestWriter(t *testing.T) {
	dir := t.TempDir()
	w := NewWriter[URL](dir, "url_surtkey")
	w.partRows = 1500
	for i := range 4000 {
		var u URL
		u.SetURL(fmt.Sprintf("http://example.org/%04d", i), nil)
		u.SURT = fmt.Sprintf("org,example)/%04d", i)
		part := "crawl=1/subset=warc"
		if i < 3500 {
			u.SetIndexed(&warc.IndexLine{Status: "200", Digest: "sha256:00ff", Date: time.UnixMilli(1_700_000_000_000), MIME: "text/html", Offset: int64(i), Length: 7}, "f.warc.gz", "p1")
		} else {
			part = "crawl=1/subset=unarchived"
		}
		if err := w.Write(part, &u); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var rows []URL
	for _, name := range []string{"warc/part-00000", "warc/part-00001", "warc/part-00002", "unarchived/part-00000"} {
		part, err := parquet.ReadFile[URL](filepath.Join(dir, "crawl=1", "subset="+name+".parquet"))
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, part...)
	}
	if len(rows) != 4000 || w.Rows != 4000 || w.Files != 4 || w.Bytes == 0 {
		t.Fatalf("%d rows, told %d in %d files of %d bytes", len(rows), w.Rows, w.Files, w.Bytes)
	}
	for i, u := range rows {
		if u.Path != fmt.Sprintf("/%04d", i) || (u.Status == 200) != (i < 3500) || i == 9 && (u.SHA256 != "00ff" || u.Offset != 9 || u.Segment != "p1" || u.Depth != nil) {
			t.Fatalf("row %d: %+v", i, u)
		}
	}
	f, err := os.Open(filepath.Join(dir, "crawl=1", "subset=unarchived", "part-00000.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	file, err := parquet.OpenFile(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range file.RowGroups()[0].ColumnChunks() {
		name := file.Schema().Columns()[c.Column()][0]
		nulls, err := c.ColumnIndex()
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains([]string{"fetch_time", "fetch_status", "warc_filename", "warc_record_offset", "warc_record_length", "warc_segment"}, name) && !nulls.NullPage(0) {
			t.Errorf("%s is not null", name)
		}
		if bloom := c.BloomFilter(); (bloom != nil) != (name == "url_surtkey") {
			t.Errorf("%s: bloom filter %v", name, bloom)
		}
	}
}

func TestHost(t *testing.T) {
	var a, b Host
	for _, u := range []URL{{Status: 200, Length: 5, Fetched: 20}, {Status: 301, Fetched: 10}, {}} {
		a.Add(&u)
	}
	for _, u := range []URL{{Status: 404, Fetched: 30}, {Status: 503, Fetched: 5}} {
		b.Add(&u)
	}
	a.Merge(&b)
	if want := (Host{URLs: 5, OK: 1, Redirects: 1, ClientErrors: 1, ServerErrors: 1, Unanswered: 1, Bytes: 5, First: 5, Last: 30}); a != want {
		t.Errorf("%+v, want %+v", a, want)
	}
	var none Host
	none.Merge(&a)
	if none != a {
		t.Errorf("%+v, want %+v", none, a)
	}
}
