package main

import (
	"cmp"
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// house is the product as parsed: nothing is type-checked, so files of every operating system
// count.
type house struct {
	root     string
	module   string
	fset     *token.FileSet
	packages map[string]*room // by directory
	tests    map[string]bool  // identifiers in files of tests
}

// room is a package.
type room struct {
	dir     string
	files   []*file
	imports map[string]bool // directories of packages of the house
	lines   int
}

type file struct {
	path  string
	tree  *ast.File
	lines []string
}

// arrow is an import, of packages named by their directories.
type arrow struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// read parses what git knows, or would take in, below root.
func read(ctx context.Context, root string) (*house, error) {
	listed := exec.CommandContext(ctx, "git", "ls-files", "-co", "--exclude-standard", "*.go")
	listed.Dir = root
	out, err := listed.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	paths := strings.Fields(string(out))
	slices.Sort(paths)
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return nil, err
	}
	first, _, _ := strings.Cut(string(mod), "\n")
	h := &house{
		root: root, module: strings.TrimSpace(strings.TrimPrefix(first, "module ")), fset: token.NewFileSet(),
		packages: make(map[string]*room), tests: make(map[string]bool),
	}
	for _, p := range slices.Compact(paths) {
		if err := h.take(p); err != nil {
			return nil, err
		}
	}
	h.prune()
	return h, nil
}

// take reads one file, unless it is no part of the product.
func (h *house) take(name string) error {
	dir := path.Dir(name)
	if strings.HasPrefix(name, "scripts/") {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(h.root, name))
	if os.IsNotExist(err) {
		return nil // removed, and not yet committed
	}
	if err != nil {
		return err
	}
	tree, err := parser.ParseFile(h.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if forTests(name) {
		identifiers(tree, h.tests)
		return nil
	}
	r := h.packages[dir]
	if r == nil {
		r = &room{dir: dir, imports: make(map[string]bool)}
		h.packages[dir] = r
	}
	for _, imported := range tree.Imports {
		p, err := strconv.Unquote(imported.Path.Value)
		if err != nil {
			return err
		}
		if inside, ok := strings.CutPrefix(p, h.module+"/"); ok {
			r.imports[inside] = true
		}
	}
	if ast.IsGenerated(tree) {
		return nil
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	r.files = append(r.files, &file{path: name, tree: tree, lines: lines})
	r.lines += len(lines)
	return nil
}

// prune forgets imports of what is no part of the product.
func (h *house) prune() {
	for _, r := range h.packages {
		for to := range r.imports {
			if h.packages[to] == nil {
				delete(r.imports, to)
			}
		}
	}
}

// forTests reports whether a file is a test, or of a package that only tests import.
func forTests(name string) bool {
	return strings.HasSuffix(name, "_test.go") || strings.HasSuffix(path.Dir(name), "test")
}

func identifiers(tree ast.Node, into map[string]bool) {
	ast.Inspect(tree, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			into[id.Name] = true
		}
		return true
	})
}

// rooms in the order of their directories.
func (h *house) rooms() []*room {
	all := make([]*room, 0, len(h.packages))
	for _, r := range h.packages {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *room) int { return cmp.Compare(a.dir, b.dir) })
	return all
}

// arrows are all imports, sorted.
func (h *house) arrows() []arrow {
	var all []arrow
	for _, r := range h.rooms() {
		for to := range r.imports {
			all = append(all, arrow{From: r.dir, To: to})
		}
	}
	slices.SortFunc(all, func(a, b arrow) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	return all
}
