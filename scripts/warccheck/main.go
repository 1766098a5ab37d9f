// Command warccheck reads WARC files with a reader that is not ours (nlnwa/gowarc, strict), checks
// every digest, and prints how many records there are of each type. A complaint of the reader goes
// to standard error and makes the status 1.
//
//	warccheck FILE...
package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/nlnwa/gowarc/v2"
)

func main() {
	counts := map[string]int{}
	bad := false
	for _, file := range os.Args[1:] {
		if err := read(file, counts); err != nil {
			fmt.Fprintf(os.Stderr, "warccheck: %s: %v\n", file, err)
			bad = true
		}
	}
	for _, t := range slices.Sorted(maps.Keys(counts)) {
		fmt.Println(t, counts[t])
	}
	if bad || len(os.Args) == 1 {
		os.Exit(1)
	}
}

func read(file string, counts map[string]int) error {
	r, err := gowarc.NewWarcFileReader(file, 0,
		gowarc.WithStrictValidation(),
		gowarc.WithFixDigest(false), gowarc.WithFixContentLength(false), gowarc.WithFixSyntaxErrors(false), gowarc.WithFixWarcFieldsBlockErrors(false),
		gowarc.WithAddMissingDigest(false), gowarc.WithAddMissingContentLength(false), gowarc.WithAddMissingRecordId(false))
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		record, offset, complaints, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("record at %d: %w", offset, err)
		}
		if complaints != nil && !complaints.Valid() {
			return fmt.Errorf("record at %d: %w", offset, complaints)
		}
		digests := gowarc.Validation{}
		if err := record.ValidateDigest(&digests); err != nil {
			return fmt.Errorf("record at %d: %w", offset, err)
		}
		if !digests.Valid() {
			return fmt.Errorf("record at %d: %w", offset, &digests)
		}
		if !record.WarcHeader().Has(gowarc.WarcBlockDigest) {
			return fmt.Errorf("record at %d has no block digest", offset)
		}
		counts[record.Type().String()]++
		if err := record.Close(); err != nil {
			return fmt.Errorf("record at %d: %w", offset, err)
		}
	}
}
