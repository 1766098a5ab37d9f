package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/apoidea/apoidea/node"
)

var updateBounds = flag.Bool("update-bounds", false, "rewrite the table in docs/bounds.md")

// bound is a row of the table: a quantity, the flag of run or the constants that limit it, and the
// effect of reaching the limit.
type bound struct {
	part string // a heading; the other fields are empty
	what string
	flag string // its default is the limit; empty: not configurable
	// each returns the limit of a profile, for a flag whose default depends on the profile; nil
	// otherwise.
	each   func(c *node.Config) int
	format string // of the constants, with a %s for each; empty for a flag
	at     string // package and constants: "crawl/fetch FreeBody"
	then   string
}

// TestBounds compares the table in docs/bounds.md with the flags and constants of the program;
// -update-bounds writes it.
func TestBounds(t *testing.T) {
	const path, begin, end = "../../docs/bounds.md", "<!-- bounds: made by cmd/apoidea, TestBounds -->\n", "<!-- end of bounds -->\n"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := bytes.Cut(text, []byte(begin))
	old, after, closed := bytes.Cut(rest, []byte(end))
	if !ok || !closed {
		t.Fatalf("%s has no place for the table: %q and %q", path, begin, end)
	}
	table := boundsTable(t)
	if *updateBounds {
		if err := os.WriteFile(path, slices.Concat(before, []byte(begin), table, []byte(end), after), 0o644); err != nil { // a document
			t.Fatal(err)
		}
	} else if !bytes.Equal(old, table) {
		t.Errorf("the table in %s differs from the program; rewrite it with: go test ./cmd/apoidea -run TestBounds -update-bounds", path)
	}
}

func boundsTable(t *testing.T) []byte {
	t.Helper()
	run, _, err := newRoot().Find([]string{"run"})
	if err != nil {
		t.Fatal(err)
	}
	consts := sources{}
	out := new(bytes.Buffer)
	for _, b := range bounds {
		if b.part != "" {
			fmt.Fprintf(out, "\n## %s\n\n| what | default | flag | what happens at it |\n| --- | --- | --- | --- |\n", b.part)
			continue
		}
		value, name := boundOf(t, run, consts, b), ""
		if b.flag != "" {
			name = "`--" + b.flag + "`"
		}
		fmt.Fprintf(out, "| %s | %s | %s | %s |\n", b.what, value, name, b.then)
	}
	out.WriteByte('\n')
	return out.Bytes()
}

func boundOf(t *testing.T, run *cobra.Command, consts sources, b bound) string {
	t.Helper()
	if b.format == "" {
		f := run.Flags().Lookup(b.flag)
		if f == nil {
			t.Fatalf("%s: run has no flag --%s", b.what, b.flag)
		}
		if b.each != nil {
			return ofProfiles(b.each)
		}
		return defaultOf(f.DefValue)
	}
	dir, names, _ := strings.Cut(b.at, " ")
	values := []any{}
	for name := range strings.FieldsSeq(names) {
		values = append(values, consts.value(t, dir, name))
	}
	if n := strings.Count(b.format, "%s"); n != len(values) {
		t.Fatalf("%s: %d constants for %d places", b.what, len(values), n)
	}
	return fmt.Sprintf(b.format, values...)
}

// ofProfiles is a bound in the lab profile, which is the default one, and in the public one.
func ofProfiles(bound func(*node.Config) int) string {
	lab, public := node.DefaultConfig("", node.ProfileLab), node.DefaultConfig("", node.ProfilePublic)
	return fmt.Sprintf("%s, in the public profile %s", defaultOf(fmt.Sprint(bound(&lab))), defaultOf(fmt.Sprint(bound(&public))))
}

// defaultOf is a flag's default for people: none where it means no bound.
func defaultOf(value string) string {
	switch value {
	case "0", "0s", "-1", "none", "", "[]":
		return "none"
	}
	if d, err := time.ParseDuration(value); err == nil {
		return shortTime(d)
	}
	return value
}

func shortTime(d time.Duration) string {
	s := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// sources holds the constants, and the fields of DefaultConfig, of packages as they stand in their
// files.
type sources map[string]map[string]ast.Expr

// value evaluates a constant and writes it as what it is: a time, bytes in whole KiB or more, or a
// number.
func (s sources) value(t *testing.T, dir, name string) string {
	t.Helper()
	if s[dir] == nil {
		s[dir] = readConstants(t, dir)
	}
	x, isTime := s.eval(t, dir, name, s[dir][name])
	n, exact := constant.Int64Val(constant.ToInt(x))
	if !exact {
		t.Fatalf("%s.%s is no whole number: %s", dir, name, x)
	}
	switch {
	case isTime:
		return shortTime(time.Duration(n))
	case n >= 1<<30 && n%(1<<30) == 0:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 4<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	default:
		return fmt.Sprint(n)
	}
}

func (s sources) eval(t *testing.T, dir, name string, e ast.Expr) (x constant.Value, isTime bool) {
	t.Helper()
	switch e := e.(type) {
	case *ast.BasicLit:
		return constant.MakeFromLiteral(e.Value, e.Kind, 0), false
	case *ast.ParenExpr:
		return s.eval(t, dir, name, e.X)
	case *ast.Ident:
		return s.eval(t, dir, name, s[dir][e.Name])
	case *ast.SelectorExpr:
		unit, ok := map[string]time.Duration{"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour}[e.Sel.Name]
		if ok {
			return constant.MakeInt64(int64(unit)), true
		}
	case *ast.BinaryExpr:
		a, timeA := s.eval(t, dir, name, e.X)
		b, timeB := s.eval(t, dir, name, e.Y)
		if e.Op == token.SHL {
			n, _ := constant.Uint64Val(b)
			return constant.Shift(a, token.SHL, uint(n)), timeA
		}
		return constant.BinaryOp(a, e.Op, b), timeA || timeB
	}
	t.Fatalf("%s: constant %s is not there, or no arithmetic of others", dir, name)
	return nil, false
}

func readConstants(t *testing.T, dir string) map[string]ast.Expr {
	t.Helper()
	found := map[string]ast.Expr{}
	files, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no files, %v", dir, err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			maps.Copy(found, constantsOf(decl))
		}
	}
	return found
}

func constantsOf(decl ast.Decl) map[string]ast.Expr {
	found := map[string]ast.Expr{}
	switch d := decl.(type) {
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if v, ok := spec.(*ast.ValueSpec); ok && d.Tok == token.CONST && len(v.Values) == len(v.Names) {
				for i, name := range v.Names {
					found[name.Name] = v.Values[i]
				}
			}
		}
	case *ast.FuncDecl:
		if d.Name.Name != "DefaultConfig" || d.Body == nil {
			break
		}
		ast.Inspect(d.Body, func(n ast.Node) bool {
			if kv, ok := n.(*ast.KeyValueExpr); ok {
				if key, ok := kv.Key.(*ast.Ident); ok {
					found["DefaultConfig."+key.Name] = kv.Value
				}
			}
			return true
		})
	}
	return found
}
