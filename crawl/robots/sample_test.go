package robots_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/jimsmart/grobotstxt"

	"github.com/apoidea/apoidea/crawl/robots"
)

// realBodies reads the sample of robots.txt bodies met on the web.
func realBodies(t testing.TB) [][]byte {
	t.Helper()
	file, err := os.Open(shared(t, "data", "robots", "robots-sample-a.jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	var bodies [][]byte
	for lines.Scan() {
		var record struct {
			Robots string
			B64    string `json:"robots_b64"`
		}
		if err := json.Unmarshal(lines.Bytes(), &record); err != nil {
			t.Fatal(err)
		}
		body := []byte(record.Robots)
		if record.B64 != "" {
			if body, err = base64.StdEncoding.DecodeString(record.B64); err != nil {
				t.Fatal(err)
			}
		}
		bodies = append(bodies, body)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return bodies
}

// Real bodies, asked for paths made of their own patterns, get the verdict of Google's parser. Left
// out are bodies and paths with what we read otherwise on purpose: escapes of unreserved octets or
// in lower case, octets outside the alphabet, $ within a pattern.
func TestRealBodies(t *testing.T) {
	bodies := realBodies(t)
	asked, differ := 0, 0
	for i, body := range bodies {
		rules := robots.Parse(body, "apoidea")
		if rules.Len() > 0 && rules.Size() > 100*len(body)+1000 {
			t.Errorf("body %d: %d bytes became %d", i, len(body), rules.Size())
		}
		if bytes.ContainsAny(body, "%$\x00") || bytes.ContainsFunc(body, func(r rune) bool { return r >= 0x80 }) {
			continue
		}
		for _, path := range ownPaths(body) {
			want, ok := google(string(body), path)
			if !ok {
				continue
			}
			asked++
			if got := rules.Allowed(path); got != want {
				differ++
				if differ <= 5 {
					t.Errorf("body %d: %s allowed %t, Google's parser says %t, by\n%.2000s", i, path, got, want, body)
				}
			}
		}
	}
	t.Logf("%d verdicts on %d bodies, %d differ", asked, len(bodies), differ)
	if asked == 0 {
		t.Error("nothing was asked")
	}
}

// ownPaths makes paths of the first patterns in a body.
func ownPaths(body []byte) []string {
	paths := []string{"/", "/index.html"}
	for line := range strings.Lines(string(body)) {
		_, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimSpace(value)
		if len(paths) >= 12 || !strings.HasPrefix(value, "/") || strings.ContainsAny(value, "# \t\\\"<>^`{|}") {
			continue
		}
		p := strings.ReplaceAll(value, "*", "x")
		paths = append(paths, p, p+"y/z.html")
	}
	return paths
}

// google asks Google's parser, which panics on certain lines.
func google(body, path string) (allowed, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return grobotstxt.AgentAllowed(body, "apoidea", "http://site.example"+path), true
}

// manyRules is a body that is as large as is read: the worst that one host can make each of its
// URLs cost.
func manyRules(pattern string) []byte {
	var b bytes.Buffer
	b.WriteString("User-agent: *\n")
	for i := 0; b.Len() < robots.MaxBody; i++ {
		fmt.Fprintf(&b, "Disallow: "+pattern+"\n", i)
	}
	return b.Bytes()
}

func BenchmarkParse(b *testing.B) {
	for _, bm := range []struct {
		name string
		body []byte
	}{{"small", []byte("User-agent: *\nDisallow: /cgi-bin/\nDisallow: /tmp/\nCrawl-delay: 1\n")}, {"largest", manyRules("/directory/%d/")}} {
		b.Run(bm.name, func(b *testing.B) {
			b.SetBytes(int64(len(bm.body)))
			b.ReportAllocs()
			for b.Loop() {
				robots.Parse(bm.body, "apoidea")
			}
		})
	}
}

func BenchmarkAllowed(b *testing.B) {
	var typical bytes.Buffer
	typical.WriteString("User-agent: *\n")
	for i := range 20 {
		fmt.Fprintf(&typical, "Disallow: /private%d/\nDisallow: /*?sort%d=\n", i, i)
	}
	for _, bm := range []struct {
		name string
		body []byte
	}{
		{"40 rules", typical.Bytes()},
		{"largest literal", manyRules("/directory/%d/")},
		{"largest wildcards", manyRules("/*a*b%d*c")},
	} {
		b.Run(bm.name, func(b *testing.B) {
			rules := robots.Parse(bm.body, "apoidea")
			b.ReportAllocs()
			for b.Loop() {
				rules.Allowed("/wiki/Apoidea_(superfamily)/history?action=edit&section=12")
			}
		})
	}
	b.Run("grobotstxt 40 rules", func(b *testing.B) {
		body := typical.String()
		for b.Loop() {
			grobotstxt.AgentAllowed(body, "apoidea", "http://site.example/wiki/Apoidea_(superfamily)/history?action=edit&section=12")
		}
	})
}
