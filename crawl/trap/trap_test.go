package trap

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func TestStructure(t *testing.T) {
	const site = "https://a.example"
	for _, tc := range []struct {
		name, path string
		want       bool
	}{
		{"root", "/", false},
		{"documentation", "/3/library/xml.etree.elementtree.html", false},
		{"deep sources", "/src/main/java/org/example/project/module/internal/impl/util/concurrent/atomic/Foo.java.html", false},
		{"name in itself", "/pool/l/link/link/link/doc/link.html", false},
		{"numbers", "/objects/0/0/0/0/0/file", false},
		{"dates", "/2024/04/04/04/04/", false},
		{"segment three times", "/a/a/a", false},
		{"segment four times", "/a/a/a/a", true},
		{"segment four times within", "/x/y/a/a/a/a/z", true},
		{"pair four times", "/x/" + strings.Repeat("a/b/", 4), true},
		{"pair three times", "/x/" + strings.Repeat("a/b/", 3), false},
		{"four segments four times", "/" + strings.Repeat("a/b/c/1/", 4), true},
		{"slashes", "//////", false},
		{"25 segments", "/" + distinct(25), false},
		{"26 segments", "/" + distinct(26), true},
		{"2,000 bytes", "/" + strings.Repeat("x", 2000-len(site)-1), false},
		{"2,001 bytes", "/" + strings.Repeat("x", 2001-len(site)-1), true},
		{"many parameters", "/?" + strings.Repeat("a=b&", 60), false},
	} {
		if got := Structure(site + tc.path); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
	if n := testing.AllocsPerRun(10, func() { Structure(site + "/3/library/a/b/c/d/e.html?x=y") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// distinct returns a path of n different segments.
func distinct(n int) string {
	s := make([]string, n)
	for i := range s {
		s[i] = fmt.Sprint("s", i)
	}
	return strings.Join(s, "/")
}

func TestPattern(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"http://h/item/17", "http://h/item/2034", true},
		{"http://h/item/17", "http://h/item/tea-pot", true}, // the last segment
		{"http://h/item/17", "http://h/items/17", false},
		{"http://h/2024/05/a.html", "http://h/1999/1/b.html", true},
		{"http://h/a.html", "http://h/a.pdf", false},
		{"http://h/p?id=1&x=2", "http://h/p?x=7&id=3", true},
		{"http://h/p?id=1&id=2", "http://h/p?id=3", true},
		{"http://h/p?id=1", "http://h/p?id=1&x=2", false},
		{"http://h/s/9f8e7d6c5b4a/page", "http://h/s/00aa11bb22cc/page", true},
		{"http://h/s/K7dQ2xP9aL4mZ8wE/page", "http://h/s/b3NvT6yR1cX5uJ0h/page", true},
		{"http://h/s/facade/page", "http://h/s/decade/page", false}, // hexadecimal words
		{"http://h/a;sid=1/page", "http://h/a;sid=2/page", true},
		{"http://h", "http://h/", true},
	} {
		if same := Pattern(c.a) == Pattern(c.b); same != c.same {
			t.Errorf("Pattern of %s and %s: same %v, want %v", c.a, c.b, same, c.same)
		}
	}
}

// stale observes n pages of one text below /dir that bring nothing, from the depth on.
func stale(s *State, dir string, n int, depth uint32) {
	for i := range n {
		s.Observe(&Page{URL: fmt.Sprintf("http://h/%s/%d", dir, i), Text: 7, Masked: 7, Depth: depth}, &Default)
	}
}

func TestRules(t *testing.T) {
	for _, c := range []struct {
		name  string
		crawl func(s *State)
		url   string
		depth uint32
		want  Rule
	}{
		{"rule 2 leaves the pattern", func(s *State) { stale(s, "a", 1001, 1) }, "http://h/a/x", 1, Repeats},
		{"rule 2 leaves no other", func(s *State) { stale(s, "a", 1001, 1) }, "http://h/b/x", 1, None},
		{"rule 2 waits for 1,000", func(s *State) { stale(s, "a", 1000, 1) }, "http://h/a/x", 1, None},
		{"a new text ends the row", func(s *State) {
			stale(s, "a", 900, 1)
			s.Observe(&Page{URL: "http://h/a/n", Text: 8, Masked: 8}, &Default)
			stale(s, "a", 900, 1)
		}, "http://h/a/x", 1, None},
		{"a new URL outside the pattern ends the row", func(s *State) {
			stale(s, "a", 900, 1)
			s.Observe(&Page{URL: "http://h/a/n", Text: 7, Masked: 7, New: []string{"http://h/b/1"}}, &Default)
			stale(s, "a", 900, 1)
		}, "http://h/a/x", 1, None},
		{"rule 3 leaves the pattern at its depth", func(s *State) { stale(s, "c", 1, 0); stale(s, "a", 101, 201) }, "http://h/a/x", 202, Depths},
		{"rule 3 leaves nothing above", func(s *State) { stale(s, "c", 1, 0); stale(s, "a", 101, 201) }, "http://h/a/x", 200, None},
		{"rule 3 counts from the entry point", func(s *State) { stale(s, "a", 101, 201) }, "http://h/a/x", 202, None},
		{"rule 4 leaves the combinations of a path", func(s *State) {
			for i := range 1001 {
				s.Observe(&Page{URL: fmt.Sprintf("http://h/list?a=%d&b=%d", i, i), Text: 7, New: []string{"http://h/list?c=1"}}, &Default)
			}
		}, "http://h/list?x=1&y=2", 1, Queries},
		{"rule 5 leaves the host", func(s *State) {
			for i := range 5001 {
				s.Observe(&Page{URL: fmt.Sprintf("http://h/d%c/%c/p", 'a'+i%26, 'a'+i/26%26), Text: 7}, &Default)
			}
		}, "http://h/new/x", 1, Hosts},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s State
			c.crawl(&s)
			if got, _ := s.Verdict(c.url, c.depth); got != c.want {
				t.Errorf("rule %d, want %d", got, c.want)
			}
		})
	}
}

// TestMerge: of two states the one with more pages stays, and what either left is left.
func TestMerge(t *testing.T) {
	var short, long State
	stale(&short, "a", 1001, 1)
	stale(&long, "b", 900, 1)
	for i := range 300 {
		long.Observe(&Page{URL: fmt.Sprintf("http://h/c/%d", i), Text: uint64(100 + i)}, &Default)
	}
	x, y := short.Append(nil), long.Append(nil)
	one, err := Merge(x, y)
	if err != nil {
		t.Fatal(err)
	}
	two, err := Merge(y, x)
	if err != nil || !bytes.Equal(one, two) {
		t.Fatalf("the order of a merge matters, error %v", err)
	}
	m, err := Decode(one)
	if err != nil || m.Pages() != long.Pages() {
		t.Fatalf("%d pages, want %d; error %v", m.Pages(), long.Pages(), err)
	}
	if rule, _ := m.Verdict("http://h/a/x", 1); rule != Repeats {
		t.Errorf("rule %d, want %d", rule, Repeats)
	}
}

func FuzzState(f *testing.F) {
	var s State
	stale(&s, "a", 30, 1)
	s.Leave(Repeats, "http://h/a/1")
	f.Add(s.Append(nil), "http://h/a/1?x=1&y=2")
	f.Add([]byte{}, "")
	f.Fuzz(func(t *testing.T, b []byte, url string) {
		s, err := Decode(b)
		if err != nil {
			return
		}
		s.Observe(&Page{URL: url, Text: 3, New: []string{url}}, &Default)
		s.Verdict(url, 1)
		out := s.Append(nil)
		if again, err := Decode(out); err != nil || !bytes.Equal(again.Append(nil), out) {
			t.Fatalf("a state does not survive its encoding: %v", err)
		}
	})
}
