package link

import (
	"strings"
	"testing"
)

func TestTrap(t *testing.T) {
	const site = "https://a.example"
	for _, tc := range []struct{ name, path, want string }{
		{"root", "/", ""},
		{"documentation", "/3/library/xml.etree.elementtree.html", ""},
		{"deep sources", "/src/main/java/org/example/project/module/internal/impl/util/concurrent/atomic/Foo.java.html", ""},
		{"name in itself", "/pool/l/link/link/link/doc/link.html", ""},
		{"hash folders", "/objects/0/0/0/0/file", ""},
		{"dates", "/2024/04/04/04/", ""},
		{"search", "/search?q=a&lang=en&page=3&sort=date", ""},
		{"segment five times", "/a/a/a/a/a", "path repeats itself"},
		{"segment five times within", "/x/y/a/a/a/a/a/z", "path repeats itself"},
		{"pair five times", "/x/" + strings.Repeat("a/b/", 5), "path repeats itself"},
		{"pair four times", "/x/" + strings.Repeat("a/b/", 4), ""},
		{"four five times", "/" + strings.Repeat("a/b/c/d/", 5), "path repeats itself"},
		{"slashes", "//////", "path repeats itself"},
		{"many segments", "/" + numbered(maxSegments+1), "too many path segments"},
		{"as many as allowed", "/" + numbered(maxSegments), ""},
		{"many parameters", "/?" + strings.Repeat("a=b&", maxParams), "too many query parameters"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Trap(site + tc.path); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	if n := testing.AllocsPerRun(10, func() { Trap(site + "/3/library/a/b/c/d/e.html?x=y") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// numbered returns n different segments.
func numbered(n int) string {
	var s []string
	for i := range n {
		s = append(s, strings.Repeat("x", i+1))
	}
	return strings.Join(s, "/")
}
