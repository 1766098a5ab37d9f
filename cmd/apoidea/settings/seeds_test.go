package settings

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func anyURL(string) error { return nil }

func all(t *testing.T, l *SeedList) (urls []string) {
	t.Helper()
	if err := l.Each(t.Context(), 7, func(part []string) error {
		urls = append(urls, part...)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return urls
}

func opened(t *testing.T, text string) *SeedList {
	t.Helper()
	l, err := OpenSeeds("-", strings.NewReader(text), anyURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestList(t *testing.T) {
	const text = "\ufeffhttp://A.example\r\n\n  # a comment\nb.example/x#part\n\thttps://c.example/ \n#\nhttp://a.example/"
	want := []string{"http://a.example/", "http://b.example/x", "https://c.example/", "http://a.example/"}
	l := opened(t, text)
	if !l.Whole || l.Total != 4 || !slices.Equal(l.First, want) || !slices.Equal(all(t, l), want) {
		t.Errorf("%+v", l)
	}
	file := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	same, err := OpenSeeds(file, nil, anyURL)
	if err != nil || string(same.Digest) != string(l.Digest) {
		t.Fatalf("from a file: %v", err)
	}
	defer same.Close()
	if err := os.WriteFile(file, []byte("http://other.example/"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := same.Each(t.Context(), 1, func([]string) error { return nil }); err == nil || !strings.Contains(err.Error(), "changed") {
		t.Errorf("a list that changed: %v", err)
	}
}

// TestCommentAfterURL checks that a comment is dropped, and that a fragment is not taken for one.
func TestCommentAfterURL(t *testing.T) {
	l := opened(t, "http://a.example/ # first\nhttp://b.example/\t#second\nhttp://c.example/x#part # third\nhttp://d.example/#!route\n \t # alone\n")
	want := []string{"http://a.example/", "http://b.example/", "http://c.example/x", "http://d.example/"}
	if !slices.Equal(l.First, want) || !slices.Equal(all(t, l), want) {
		t.Errorf("URLs %q, want %q", l.First, want)
	}
}

// TestForeignLists reads lists with titles, line ends of old systems, and bytes of Latin-1.
func TestForeignLists(t *testing.T) {
	l := opened(t, "http://a.example/1\tTitle of it\rhttp://a.example/2\r\nhttp://a.example/\xe9 # caf\xe9\rhttp://a.example/\u00e9\r")
	want := []string{"http://a.example/1", "http://a.example/2", "http://a.example/%E9", "http://a.example/%C3%A9"}
	if !slices.Equal(l.First, want) || !slices.Equal(all(t, l), want) {
		t.Errorf("URLs %q, want %q", l.First, want)
	}
	if _, err := OpenSeeds("-", strings.NewReader("http://a.example/\r\nftp://a.example/\rhttp://a.example/"), anyURL); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("wrong line 2: %v", err)
	}
}

// TestWrongLines: each wrong line is told by its number, ten of them at most, and what else there
// is of them counted.
func TestWrongLines(t *testing.T) {
	text := "http://a.example/\ngopher://a.example/\n" + strings.Repeat("x", 100_000) + "\nhttp://no.example/\n" + strings.Repeat("ftp://a.example/\n", 20)
	_, err := OpenSeeds("-", strings.NewReader(text), func(url string) error {
		if url == "http://no.example/" {
			return errors.New("not this one")
		}
		return nil
	})
	for _, want := range []string{`line 2: "gopher://a.example/": `, "line 3: ", `line 4: "http://no.example/": not this one`, "line 11: ", "and 13 more"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing: %v", want, err)
		}
	}
	if strings.Contains(fmt.Sprint(err), "line 12") || len(fmt.Sprint(err)) > 5000 {
		t.Errorf("too much: %v", err)
	}
	for name, want := range map[string]string{"": "no such file", t.TempDir(): "is a directory", "-": "contains no URL"} {
		if _, err := OpenSeeds(name, strings.NewReader("# nothing\n"), anyURL); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// lines are n lines of a list, made as they are read.
func lines(n int, line func(i int) string) io.Reader {
	r, w := io.Pipe()
	go func() {
		for i := range n {
			if _, err := io.WriteString(w, line(i)); err != nil {
				return
			}
		}
		w.Close()
	}()
	return r
}

// TestMillion: the memory that a list takes does not grow with it.
func TestMillion(t *testing.T) {
	if os.Getenv("APOIDEA_FULL") == "" {
		t.Skip("slow: runs with scripts/check.sh --full")
	}
	for _, row := range []struct {
		name  string
		line  func(i int) string
		hosts bool
	}{
		{"few hosts", func(i int) string { return fmt.Sprintf("http://h%d.example/page/%d\n", i%100, i) }, true},
		{"each a host", func(i int) string { return fmt.Sprintf("http://h%d.example/\n", i) }, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			const n = 1_000_000
			l, err := OpenSeeds("-", lines(n, row.line), anyURL)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if l.Total != n || l.Whole || l.Hosts != row.hosts || row.hosts && len(l.First) != 100 {
				t.Errorf("total %d, whole %v, hosts %v, %d first", l.Total, l.Whole, l.Hosts, len(l.First))
			}
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			if m.HeapAlloc > 16<<20 {
				t.Errorf("%d MiB of heap", m.HeapAlloc>>20)
			}
			got := 0
			if err := l.Each(t.Context(), 5000, func(part []string) error {
				got += len(part)
				return nil
			}); err != nil || got != n {
				t.Errorf("%d read again, %v", got, err)
			}
		})
	}
}

// FuzzList: whatever is in a list, it is refused or read twice alike.
func FuzzList(f *testing.F) {
	f.Add("http://a.example/\n# c\n")
	f.Add("\ufeff\r\n\x00\n")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := OpenSeeds("-", strings.NewReader(text), anyURL)
		if err != nil {
			return
		}
		defer l.Close()
		if got := all(t, l); uint64(len(got)) != l.Total || l.Whole && !slices.Equal(got, l.First) {
			t.Errorf("%q, then %q", l.First, got)
		}
	})
}
