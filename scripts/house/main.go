// Command house measures the product and draws its rooms: the packages and which imports which.
//
//	go run ./scripts/house [--json] [--check] [--fast] [--undocumented]
//
// It prints figures and writes docs/house.svg. With --check it writes nothing, and fails when the
// picture is stale, when an import breaks the order of the floors, or when a walk in
// ARCHITECTURE.md names a function that is not there. With --undocumented it writes nothing, and
// lists the exported names and fields that have no comment. The product is all Go code but tests,
// packages for tests (their names end in "test"), generated code and scripts.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
)

const picturePath = "docs/house.svg"

func main() {
	asJSON := flag.Bool("json", false, "print the figures as JSON")
	check := flag.Bool("check", false, "write nothing; fail when "+picturePath+" is stale, an import runs up or in a circle, a walk names what is not there, or a comment is too wide")
	fast := flag.Bool("fast", false, "leave out the dead code, which takes half a minute to find")
	undocumented := flag.Bool("undocumented", false, "write nothing; list the exported names and fields that have no comment")
	flag.Parse()
	act := func(ctx context.Context) error { return run(ctx, os.Stdout, *asJSON, *check, *fast) }
	if *undocumented {
		act = func(ctx context.Context) error { return list(ctx, os.Stdout) }
	}
	if err := act(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, asJSON, check, fast bool) error {
	house, err := read(ctx, ".")
	if err != nil {
		return err
	}
	picture := house.draw()
	if check {
		return errors.Join(house.inOrder(), house.walked(), wide("."), upToDate(picture))
	}
	if err := os.WriteFile(picturePath, picture, 0o644); err != nil { // everybody may look at the picture
		return err
	}
	figures := house.measure()
	if !fast {
		figures.Dead, err = house.dead(ctx)
		if err != nil {
			figures.DeadUnknown = err.Error()
		}
	}
	if asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(figures)
	}
	figures.print(out)
	return nil
}

// list names what is exported and has no comment.
func list(ctx context.Context, out io.Writer) error {
	house, err := read(ctx, ".")
	if err != nil {
		return err
	}
	figures := house.measure()
	for _, name := range slices.Concat(figures.Names.Missing, figures.Fields.Missing) {
		fmt.Fprintln(out, name)
	}
	return nil
}

// inOrder is an error that names each import against the order of the floors, and each circle of
// rooms.
func (h *house) inOrder() error {
	var errs []error
	for _, a := range h.upward() {
		errs = append(errs, fmt.Errorf("%s may not import %s", a.From, a.To))
	}
	for _, circle := range h.circles() {
		errs = append(errs, fmt.Errorf("rooms import each other: %v", circle))
	}
	return errors.Join(errs...)
}

func upToDate(picture []byte) error {
	committed, err := os.ReadFile(picturePath)
	if err != nil {
		return err
	}
	if !bytes.Equal(committed, picture) {
		return fmt.Errorf("%s is stale: run scripts/house.sh", picturePath)
	}
	return nil
}
