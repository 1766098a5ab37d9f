// Command house measures the product and draws its rooms: the packages and which imports which.
//
//	go run ./scripts/house [--check]
//
// It prints how long the packages are and writes docs/house.svg. With --check it writes nothing,
// and fails when the picture is stale, when an import breaks the order of the floors, when a walk
// in ARCHITECTURE.md names a function that is not there, or when the product exceeds its size
// budget. The size is the number of lines of the packages that the program links, without tests
// and generated code; the budget is in scripts/size-budget.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const picturePath = "docs/house.svg"

func main() {
	h, err := read()
	if err == nil {
		picture := h.draw()
		linked, listErr := linkedPackages(h.module)
		switch {
		case listErr != nil:
			err = listErr
		case slices.Contains(os.Args, "--check"):
			err = errors.Join(h.inOrder(), h.walked(), upToDate(picture), h.withinBudget(linked))
		default:
			h.print(linked)
			err = os.WriteFile(picturePath, picture, 0o644) // everybody may look at the picture
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
}

// house is the product as parsed: nothing is type-checked, so files of every operating system
// count.
type house struct {
	module   string           // import path of the module, with a slash at its end
	rooms    map[string]*room // by directory
	declared map[string]bool  // functions and methods, as "file name"
}

// room is a package.
type room struct {
	dir          string
	files, lines int
	imports      map[string]bool // directories of packages of the house
}

// arrow is an import, of packages named by their directories.
type arrow struct{ from, to string }

// read parses what git knows, or would take in.
func read() (*house, error) {
	out, err := exec.CommandContext(context.Background(), "git", "ls-files", "-co", "--exclude-standard", "*.go", ":!scripts").Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		return nil, err
	}
	first, _, _ := strings.Cut(string(mod), "\n")
	module := strings.TrimPrefix(first, "module ") + "/"
	h := &house{module: module, rooms: make(map[string]*room), declared: make(map[string]bool)}
	for name := range strings.FieldsSeq(string(out)) {
		text, err := os.ReadFile(name)
		if os.IsNotExist(err) || strings.HasSuffix(name, "_test.go") || strings.HasSuffix(path.Dir(name), "test") {
			continue // removed and not yet committed, or for tests
		}
		if err == nil {
			err = h.take(module, name, text)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, r := range h.rooms {
		for to := range r.imports {
			if h.rooms[to] == nil {
				delete(r.imports, to) // no part of the product
			}
		}
	}
	return h, nil
}

// take adds one file.
func (h *house) take(module, name string, text []byte) error {
	tree, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	dir := path.Dir(name)
	r := h.rooms[dir]
	if r == nil {
		r = &room{dir: dir, imports: make(map[string]bool)}
		h.rooms[dir] = r
	}
	for _, imported := range tree.Imports {
		p, _ := strconv.Unquote(imported.Path.Value) // the parser has seen to the quotes
		if inside, ok := strings.CutPrefix(p, module); ok {
			r.imports[inside] = true
		}
	}
	for _, d := range tree.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			h.declared[name+" "+f.Name.Name] = true
		}
	}
	if !ast.IsGenerated(tree) {
		r.files++
		r.lines += bytes.Count(text, []byte("\n"))
	}
	return nil
}

// sorted is the rooms in the order of their directories.
func (h *house) sorted() []*room {
	var all []*room
	for _, r := range h.rooms {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *room) int { return cmp.Compare(a.dir, b.dir) })
	return all
}

// arrows are all imports, sorted.
func (h *house) arrows() []arrow {
	var all []arrow
	for _, r := range h.rooms {
		for to := range r.imports {
			all = append(all, arrow{r.dir, to})
		}
	}
	slices.SortFunc(all, func(a, b arrow) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	return all
}

// linkedPackages lists the directories of this module's packages that the program links.
func linkedPackages(module string) (map[string]bool, error) {
	out, err := exec.CommandContext(context.Background(), "go", "list", "-deps", "./cmd/apoidea").Output()
	if err != nil {
		return nil, fmt.Errorf("go list -deps ./cmd/apoidea: %w", err)
	}
	linked := make(map[string]bool)
	for p := range strings.FieldsSeq(string(out)) {
		if dir, ok := strings.CutPrefix(p, module); ok {
			linked[dir] = true
		}
	}
	return linked, nil
}

// size counts the files and lines of the linked packages.
func (h *house) size(linked map[string]bool) (files, lines int) {
	for dir := range linked {
		if r := h.rooms[dir]; r != nil {
			files, lines = files+r.files, lines+r.lines
		}
	}
	return files, lines
}

func (h *house) print(linked map[string]bool) {
	files, lines := h.size(linked)
	fmt.Printf("product: %d lines in %d files of %d packages\n\n", lines, files, len(linked))
	all := h.sorted()
	slices.SortStableFunc(all, func(a, b *room) int { return cmp.Compare(b.lines, a.lines) })
	for _, r := range all {
		fmt.Printf("%6d %4d  %s\n", r.lines, r.files, r.dir)
	}
}

const budgetPath = "scripts/size-budget"

// withinBudget returns an error if the product has more lines than its budget, which only falls. A
// budget that is 200 lines or more above the size is an error too, so that removals lower it.
func (h *house) withinBudget(linked map[string]bool) error {
	const slack = 200
	text, err := os.ReadFile(budgetPath)
	if err != nil {
		return err
	}
	budget, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("%s: %w", budgetPath, err)
	}
	_, lines := h.size(linked)
	switch {
	case lines > budget:
		return fmt.Errorf("the product has %d lines, %d more than the budget of %d in %s", lines, lines-budget, budget, budgetPath)
	case lines <= budget-slack:
		return fmt.Errorf("the product has %d lines: lower the budget of %d in %s", lines, budget, budgetPath)
	}
	return nil
}

// The floors, from the top. On the ground four neighbours stand side by side and do not know each
// other; everybody may know what is common: a key of the ring, what a store of records is, and how
// a message of strangers is counted.
var floors = [][]string{{"cmd"}, {"lab"}, {"node"}, {"crawl", "dht", "dedup", "storage"}}

var everybodys = []string{"dht/ring", "dht/counted", "storage/kv", "storage/kv/kvtest"}

// wing is what of the house a package belongs to: its first folder, but the laboratory is a wing of
// its own, which no room of a peer imports.
func wing(dir string) string {
	if dir == "node/lab" || strings.HasPrefix(dir, "node/lab/") {
		return "lab"
	}
	first, _, _ := strings.Cut(dir, "/")
	return first
}

// floor counts from the top; a folder that no floor names stands below all of them.
func floor(dir string) int {
	for i, names := range floors {
		if slices.Contains(names, wing(dir)) {
			return i
		}
	}
	return len(floors)
}

// upward reports whether an import runs up a floor, or into a neighbour.
func (a arrow) upward() bool {
	from, to := floor(a.from), floor(a.to)
	return !slices.Contains(everybodys, a.to) && (to < from || to == from && wing(a.from) != wing(a.to))
}

// hall is the room that a package belongs to, when a room is a folder of a wing with all below it:
// crawl/placement with its strategies.
func hall(dir string) string {
	parts := strings.SplitN(dir, "/", 3)
	return strings.Join(parts[:min(2, len(parts))], "/")
}

// inOrder is an error that names each import against the order of the floors, and each hall that
// imports itself by way of others. Packages cannot; folders of packages can.
func (h *house) inOrder() error {
	var errs []error
	next := make(map[string]map[string]bool)
	for _, a := range h.arrows() {
		if a.upward() {
			errs = append(errs, fmt.Errorf("%s may not import %s", a.from, a.to))
		}
		from, to := hall(a.from), hall(a.to)
		if next[from] == nil {
			next[from] = make(map[string]bool)
		}
		if from != to {
			next[from][to] = true
		}
	}
	for from := range next {
		if reachable(next, from)[from] {
			errs = append(errs, fmt.Errorf("%s imports itself by way of other folders", from))
		}
	}
	return errors.Join(errs...)
}

// reachable is all that one can come to over at least one arrow.
func reachable(next map[string]map[string]bool, from string) map[string]bool {
	seen := make(map[string]bool)
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		for to := range next[queue[0]] {
			if !seen[to] {
				seen[to] = true
				queue = append(queue, to)
			}
		}
	}
	return seen
}

// A stop of a walk in ARCHITECTURE.md: a file, and a function or method that is declared in it.
var walkStop = regexp.MustCompile("`([a-z0-9/_]+\\.go)` `(\\w+)`")

// walked is an error that names each stop in the text that is not where the text says.
func (h *house) walked() error {
	text, err := os.ReadFile("ARCHITECTURE.md")
	errs := []error{err}
	for _, stop := range walkStop.FindAllStringSubmatch(string(text), -1) {
		if !h.declared[stop[1]+" "+stop[2]] {
			errs = append(errs, fmt.Errorf("ARCHITECTURE.md: no function %s in %s", stop[2], stop[1]))
		}
	}
	return errors.Join(errs...)
}

func upToDate(picture []byte) error {
	committed, err := os.ReadFile(picturePath)
	if err == nil && !bytes.Equal(committed, picture) {
		err = fmt.Errorf("%s is stale: run scripts/house.sh", picturePath)
	}
	return err
}
