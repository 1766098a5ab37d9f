package harness

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/apoidea/apoidea/node/control"
)

// ErrUsage is what the command line asks for and there is not.
var ErrUsage = errors.New("there is no")

// Main parses the command line, in which flags may stand behind names, and does what run says until
// it is interrupted. The process ends with 1 if that fails or says that something is wrong, with 2
// if what was asked for is not there. Flag --work is the directory for the trials' files; short,
// since sockets lie in it.
func Main(work *string, run func(ctx context.Context, names []string) (fine bool, err error)) {
	flag.StringVar(work, "work", os.TempDir(), "directory for the trials' files; short, since sockets lie in it")
	flag.Parse()
	var names []string
	for flag.NArg() > 0 {
		names = append(names, flag.Arg(0))
		_ = flag.CommandLine.Parse(flag.Args()[1:]) // ends the process if it fails
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	fine, err := run(ctx, names)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", filepath.Base(os.Args[0]), err)
	}
	switch {
	case errors.Is(err, ErrUsage):
		os.Exit(2)
	case err != nil || !fine:
		os.Exit(1)
	}
}

// Usage prints the flags, and then names with their words.
func Usage(list func(line func(name, words string))) func() {
	return func() {
		fmt.Fprintf(os.Stderr, "usage: %s --work DIR [FLAG]... [NAME]...\n", filepath.Base(os.Args[0]))
		flag.PrintDefaults()
		list(func(name, words string) { fmt.Fprintf(os.Stderr, "  %-17s %s\n", name, words) })
	}
}

// Choose finds entries by name; without names, all that are to be done.
func Choose[T any](all []T, names []string, name func(T) string, wanted func(T) bool) (chosen []T, err error) {
	found := make(map[string]T)
	for _, e := range all {
		found[name(e)] = e
		if len(names) == 0 && wanted(e) {
			chosen = append(chosen, e)
		}
	}
	for _, n := range names {
		e, ok := found[n]
		if !ok {
			return nil, fmt.Errorf("%w %q", ErrUsage, n)
		}
		chosen = append(chosen, e)
	}
	return chosen, nil
}

// Verdict collects what was seen in a trial and what of it was wrong.
type Verdict struct {
	Notes []string `json:"notes,omitempty"`
	Wrong []string `json:"wrong"`
}

// Say adds what was seen.
func (v *Verdict) Say(format string, args ...any) {
	v.Notes = append(v.Notes, fmt.Sprintf(format, args...))
}

// Blame adds what was wrong.
func (v *Verdict) Blame(format string, args ...any) {
	v.Wrong = append(v.Wrong, fmt.Sprintf(format, args...))
}

// maxWrongShown bounds what the table shows of one trial; the JSON has all.
const maxWrongShown = 12

// Print prints the line of a trial, and below it what was wrong; as JSON, the document instead.
func (v *Verdict) Print(asJSON bool, document any, name, line string) error {
	if asJSON {
		return json.NewEncoder(os.Stdout).Encode(document)
	}
	word := "ok   "
	if len(v.Wrong) > 0 {
		word = "WRONG"
	}
	fmt.Printf("%s %-20s %s\n", word, name, line)
	for _, s := range v.Wrong[:min(len(v.Wrong), maxWrongShown)] {
		fmt.Printf("      WRONG: %s\n", strings.ReplaceAll(s, "\n", " "))
	}
	if n := len(v.Wrong) - maxWrongShown; n > 0 {
		fmt.Printf("      and %d more\n", n)
	}
	return nil
}

// Records reads what `export urls` printed, one line a URL.
func Records(out io.Reader, fn func(u *control.URLLine)) error {
	for lines := json.NewDecoder(out); ; {
		var u control.URLLine
		if err := lines.Decode(&u); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		fn(&u)
	}
}
