package main

import (
	"errors"
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
)

// A stop of a walk in ARCHITECTURE.md: a file, and a function or method that is declared in it.
var walkStop = regexp.MustCompile("`([a-z0-9/_]+\\.go)` `(\\w+)`")

// walked is an error that names each stop in the text that is not where the text says.
func (h *house) walked() error {
	text, err := os.ReadFile(filepath.Join(h.root, "ARCHITECTURE.md"))
	if err != nil {
		return err
	}
	declared := make(map[string]bool)
	for _, r := range h.packages {
		for _, f := range r.files {
			for _, d := range f.tree.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok {
					declared[f.path+" "+fn.Name.Name] = true
				}
			}
		}
	}
	var errs []error
	for _, stop := range walkStop.FindAllStringSubmatch(string(text), -1) {
		if !declared[stop[1]+" "+stop[2]] {
			errs = append(errs, fmt.Errorf("ARCHITECTURE.md: no function %s in %s", stop[2], stop[1]))
		}
	}
	return errors.Join(errs...)
}
