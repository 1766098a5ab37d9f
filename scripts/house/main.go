// Command house draws the import diagram, docs/architecture.svg.
//
//	go run ./scripts/house [--check]
//
// With --check it writes nothing, and fails if the diagram is stale or if an import points to a
// higher layer or forms a cycle.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
)

const picturePath = "docs/architecture.svg"

func main() {
	h, err := read()
	switch {
	case err != nil:
	case slices.Contains(os.Args, "--check"):
		err = errors.Join(h.inOrder(), upToDate(h.draw()))
	default:
		err = os.WriteFile(picturePath, h.draw(), 0o644) // a document
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
}

// house is the parsed source. Nothing is type-checked, so files of every operating system count.
type house struct {
	rooms map[string]*room // by directory
}

// room is a package.
type room struct {
	dir     string
	imports map[string]bool // directories of imported packages of the product
}

// arrow is an import, of packages named by their directories.
type arrow struct{ from, to string }

// read parses all Go files that git tracks or would add.
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
	h := &house{rooms: make(map[string]*room)}
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
				delete(r.imports, to) // not part of the product
			}
		}
	}
	return h, nil
}

// take adds one file.
func (h *house) take(module, name string, text []byte) error {
	tree, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly)
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
		p, _ := strconv.Unquote(imported.Path.Value) // the parser has checked the quotes
		if inside, ok := strings.CutPrefix(p, module); ok {
			r.imports[inside] = true
		}
	}
	return nil
}

// sorted returns the packages ordered by directory.
func (h *house) sorted() []*room {
	var all []*room
	for _, r := range h.rooms {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *room) int { return cmp.Compare(a.dir, b.dir) })
	return all
}

// arrows returns all imports, sorted.
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

// floors lists the layers from the top. The four lowest ones do not import each other.
var floors = [][]string{{"cmd"}, {"lab"}, {"node"}, {"crawl", "dht", "dedup", "storage"}}

// everybodys lists the packages that every layer may import.
var everybodys = []string{"dht/ring", "dht/sizelimit", "storage/kv", "storage/kv/kvtest"}

// wing returns the layer of a package: its first directory, or lab for node/lab.
func wing(dir string) string {
	if dir == "node/lab" || strings.HasPrefix(dir, "node/lab/") {
		return "lab"
	}
	first, _, _ := strings.Cut(dir, "/")
	return first
}

// floor returns the index of a package's layer; directories that floors does not list are lowest.
func floor(dir string) int {
	for i, names := range floors {
		if slices.Contains(names, wing(dir)) {
			return i
		}
	}
	return len(floors)
}

// upward reports whether an import points to a higher layer, or to another one of the same level.
func (a arrow) upward() bool {
	from, to := floor(a.from), floor(a.to)
	return !slices.Contains(everybodys, a.to) && (to < from || to == from && wing(a.from) != wing(a.to))
}

// hall returns the first two directories of a package: crawl/placement for each of its strategies.
func hall(dir string) string {
	parts := strings.SplitN(dir, "/", 3)
	return strings.Join(parts[:min(2, len(parts))], "/")
}

// inOrder returns an error for each import that breaks the order of the layers, and for each import
// cycle between directories of packages, which the compiler does not reject.
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

// reachable returns all nodes that are reachable over at least one edge.
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

func upToDate(picture []byte) error {
	committed, err := os.ReadFile(picturePath)
	if err == nil && !bytes.Equal(committed, picture) {
		err = fmt.Errorf("%s is stale: run scripts/house.sh", picturePath)
	}
	return err
}
