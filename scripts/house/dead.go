package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"os/exec"
	"path"
	"strings"
)

// deadcode follows calls from main, also those through interfaces.
const deadcode = "golang.org/x/tools/cmd/deadcode@v0.48.0"

// dead is a function that the program cannot come to.
type dead struct {
	Name   string `json:"name"`
	File   string `json:"file"`
	Line   int    `json:"line"`
	Tested bool   `json:"tested"` // a test has an identifier of this name
}

// dead returns what no run of the program comes to, on any system.
func (h *house) dead(ctx context.Context) ([]dead, error) {
	tool := exec.CommandContext(ctx, "go", "run", deadcode, "-json", "./cmd/...")
	tool.Dir = h.root
	out, err := tool.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil, fmt.Errorf("%s: %w: %s", deadcode, err, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return nil, err
	}
	var packages []struct {
		Funcs []struct {
			Name     string
			Position struct {
				File string
				Line int
			}
			Generated bool
		}
	}
	if err := json.Unmarshal(out, &packages); err != nil {
		return nil, err
	}
	elsewhere := h.elsewhere()
	all := []dead{}
	for _, p := range packages {
		for _, f := range p.Funcs {
			if f.Generated || forTests(f.Position.File) {
				continue
			}
			bare := f.Name[strings.LastIndex(f.Name, ".")+1:]
			if elsewhere[path.Dir(f.Position.File)][bare] {
				continue
			}
			all = append(all, dead{Name: f.Name, File: f.Position.File, Line: f.Position.Line, Tested: h.tests[bare]})
		}
	}
	return all, nil
}

// elsewhere holds, by package, the identifiers in files that are not built on this system.
func (h *house) elsewhere() map[string]map[string]bool {
	all := make(map[string]map[string]bool)
	for dir, r := range h.packages {
		names := make(map[string]bool)
		for _, f := range r.files {
			if here, err := build.Default.MatchFile(path.Join(h.root, dir), path.Base(f.path)); err == nil && !here {
				ast.Inspect(f.tree, func(n ast.Node) bool {
					if id, ok := n.(*ast.Ident); ok {
						names[id.Name] = true
					}
					return true
				})
			}
		}
		all[dir] = names
	}
	return all
}
