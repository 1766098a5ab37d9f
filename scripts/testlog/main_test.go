package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestReadEvents: lines of packages and the output of failed tests are printed, that of others is
// not; failures are counted by test, and a package that fails by itself by package.
func TestReadEvents(t *testing.T) {
	const stream = `{"Action":"output","Package":"github.com/apoidea/apoidea/a","Test":"TestGood","Output":"quiet\n"}
{"Action":"pass","Package":"github.com/apoidea/apoidea/a","Test":"TestGood","Elapsed":2.5}
{"Action":"output","Package":"github.com/apoidea/apoidea/a","Output":"ok  \ta\t2.6s\n"}
{"Action":"pass","Package":"github.com/apoidea/apoidea/a","Elapsed":2.6}
{"Action":"output","Package":"github.com/apoidea/apoidea/b","Test":"TestBad","Output":"    the reason\n"}
{"Action":"fail","Package":"github.com/apoidea/apoidea/b","Test":"TestBad","Elapsed":0.1}
{"Action":"fail","Package":"github.com/apoidea/apoidea/b","Test":"TestBad","Elapsed":0.2}
{"Action":"output","Package":"github.com/apoidea/apoidea/b","Output":"FAIL\tb\t0.3s\n"}
{"Action":"fail","Package":"github.com/apoidea/apoidea/b","Elapsed":0.3}
{"Action":"build-output","ImportPath":"c","Output":"c.go:1:1: syntax error\n"}
{"Action":"fail","Package":"github.com/apoidea/apoidea/c","Elapsed":0}
a line that is no event
`
	s := &summary{make(map[testName][]string), make(map[testName]time.Duration), make(map[testName]int), nil}
	var out strings.Builder
	var passed []string
	if err := s.read(strings.NewReader(stream), &out, func(pkg string) error { passed = append(passed, pkg); return nil }); err != nil {
		t.Fatal(err)
	}
	if want := "ok  \ta\t2.6s\n    the reason\nFAIL\tb\t0.3s\nc.go:1:1: syntax error\na line that is no event\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
	if want := map[testName]int{{"b", "TestBad"}: 2, {"c", ""}: 1}; !maps.Equal(s.failures, want) {
		t.Errorf("failures %v, want %v", s.failures, want)
	}
	if !slices.Equal(passed, []string{"a"}) {
		t.Errorf("passed %v", passed)
	}
	out.Reset()
	s.report(&out, map[string]bool{"b": true}, true)
	if got := out.String(); !strings.Contains(got, "2.50s  a TestGood  (no reason") || strings.Contains(got, "b TestBad  (no reason") || !strings.Contains(got, "failed 2 times: b TestBad\n") {
		t.Errorf("report: %s", got)
	}
}
