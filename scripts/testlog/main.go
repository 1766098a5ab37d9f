// Command testlog reads the events of `go test -json` from standard input. It prints what go test
// prints without -json, and then the slowest tests and the failures of each test.
//
//	go test -json ./... | testlog [--done FILE] [--reasons=false]
//
// A slow test needs a reason: a line of its doc comment that begins with "Slow:". A unit test is
// slow over 1 s, an integration test, whose package links libp2p or starts processes, over 5 s.
// With --done the name of each package that passed is appended to the file.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

const (
	slowest          = 10
	unitLimit        = time.Second
	integrationLimit = 5 * time.Second
)

// event is one line of `go test -json` (go doc test2json).
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64 // seconds
}

// testName identifies a test of a package.
type testName struct{ pkg, test string }

func (n testName) String() string { return n.pkg + " " + n.test }

// summary is what was read so far.
type summary struct {
	output   map[testName][]string // of tests that run
	took     map[testName]time.Duration
	failures map[testName]int
	passed   []string // packages
}

func main() {
	reasons := flag.Bool("reasons", true, "mark slow tests that give no reason")
	done := flag.String("done", "", "file to which the packages that passed are appended")
	flag.Parse()
	s := &summary{make(map[testName][]string), make(map[testName]time.Duration), make(map[testName]int), nil}
	err := s.read(os.Stdin, os.Stdout, func(pkg string) error { return appendLine(*done, pkg) })
	s.report(os.Stdout, integrationPackages(), *reasons)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testlog:", err)
		os.Exit(1)
	}
}

// appendLine adds a line to a file, or does nothing if the file has no name.
func appendLine(file, line string) error {
	if file == "" {
		return nil
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, line)
	return cmp.Or(err, f.Close())
}

// read takes events in until the stream ends, and prints the lines of packages and the output of
// tests that fail. Lines that are no events, such as errors of the compiler, are printed as they
// are.
func (s *summary) read(in io.Reader, out io.Writer, passed func(pkg string) error) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
				fmt.Fprint(out, line)
			} else if err := s.take(e, out, passed); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (s *summary) take(e event, out io.Writer, passed func(pkg string) error) error {
	e.Package = strings.TrimPrefix(e.Package, "github.com/apoidea/apoidea/")
	name := testName{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(out, e.Output)
	case "output":
		if e.Test == "" && (strings.HasPrefix(e.Output, "ok ") || strings.HasPrefix(e.Output, "FAIL")) {
			fmt.Fprint(out, e.Output)
			return nil
		}
		s.output[name] = append(s.output[name], e.Output)
	case "pass", "skip", "fail":
		if e.Action == "fail" && (e.Test != "" || len(s.failed(e.Package)) == 0) { // a package fails with its tests, or by itself
			s.failures[name]++
			for _, text := range s.output[name] {
				fmt.Fprint(out, text)
			}
		}
		delete(s.output, name)
		if e.Test != "" && !strings.Contains(e.Test, "/") {
			s.took[name] = max(s.took[name], time.Duration(e.Elapsed*float64(time.Second)))
		}
		if e.Test == "" && e.Action == "pass" {
			s.passed = append(s.passed, e.Package)
			return passed(e.Package)
		}
	}
	return nil
}

// failed lists the tests of a package that failed.
func (s *summary) failed(pkg string) (list []testName) {
	for name := range s.failures {
		if name.pkg == pkg && name.test != "" {
			list = append(list, name)
		}
	}
	return list
}

// report prints the slowest tests, those without a reason marked, and how often each test failed.
func (s *summary) report(out io.Writer, integration map[string]bool, reasons bool) {
	byTime := slices.SortedFunc(maps.Keys(s.took), func(a, b testName) int {
		return cmp.Or(cmp.Compare(s.took[b], s.took[a]), strings.Compare(a.String(), b.String()))
	})
	fmt.Fprintln(out, "slowest tests:")
	for _, name := range byTime[:min(slowest, len(byTime))] {
		limit := unitLimit
		if integration[name.pkg] {
			limit = integrationLimit
		}
		note := ""
		if reasons && s.took[name] > limit && !hasReason(name) {
			note = "  (no reason given: add a line \"Slow: ...\" to its comment)"
		}
		fmt.Fprintf(out, "%7.2fs  %s%s\n", s.took[name].Seconds(), name, note)
	}
	for _, name := range slices.SortedFunc(maps.Keys(s.failures), func(a, b testName) int { return strings.Compare(a.String(), b.String()) }) {
		fmt.Fprintf(out, "failed %d times: %s\n", s.failures[name], name)
	}
}
