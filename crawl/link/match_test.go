package link

import (
	"strings"
	"testing"
)

// FuzzMatchPath: a match costs no more than the product of the lengths, and agrees with the plain
// reading of a pattern without stars.
func FuzzMatchPath(f *testing.F) {
	f.Add("/*a*b*c$", "/xaxbxc")
	f.Add("/a$", "/ab")
	f.Add("", "/")
	f.Fuzz(func(t *testing.T, pattern, path string) {
		got := MatchPath(pattern, path)
		if strings.Contains(pattern, "*") {
			return
		}
		want := strings.HasPrefix(path, pattern)
		if bare, whole := strings.CutSuffix(pattern, "$"); whole {
			want = path == bare
		}
		if got != want {
			t.Errorf("%q matches %q: %v", pattern, path, got)
		}
	})
}
