package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"io"
	"slices"
	"text/tabwriter"
)

// figures is all that is measured of the house.
type figures struct {
	Files       int        `json:"files"`
	Lines       int        `json:"lines"`
	Packages    []counted  `json:"packages"` // the longest first
	Types       []methods  `json:"types"`    // those with most methods first
	Functions   lengths    `json:"functions"`
	Names       share      `json:"exported_names"`
	Fields      share      `json:"exported_fields"`
	Equal       []equal    `json:"equal_runs"`
	Arrows      int        `json:"arrows"`
	Upward      []arrow    `json:"upward"`
	Circles     [][]string `json:"circles"`
	Dead        []dead     `json:"dead"`
	DeadUnknown string     `json:"dead_unknown,omitempty"` // why the dead code could not be found
}

type counted struct {
	Package string `json:"package"`
	Files   int    `json:"files"`
	Lines   int    `json:"lines"`
}

type methods struct {
	Type    string `json:"type"`
	Methods int    `json:"methods"`
	Files   int    `json:"files"`
}

// lengths of functions in lines, from func to the closing brace.
type lengths struct {
	Count   int    `json:"count"`
	Median  int    `json:"median"`
	P90     int    `json:"p90"`
	P99     int    `json:"p99"`
	Max     int    `json:"max"`
	Longest string `json:"longest"`
}

// share is how many of all are documented.
type share struct {
	All        int      `json:"all"`
	Documented int      `json:"documented"`
	Missing    []string `json:"missing"`
}

func (s share) percent() float64 { return 100 * float64(s.Documented) / float64(max(s.All, 1)) }

func (s *share) count(name string, documented bool) {
	s.All++
	if documented {
		s.Documented++
	} else {
		s.Missing = append(s.Missing, name)
	}
}

func (h *house) measure() *figures {
	f := &figures{Equal: h.equalRuns(), Arrows: len(h.arrows()), Upward: h.upward(), Circles: h.circles()}
	var all []function
	for _, r := range h.rooms() {
		if len(r.files) == 0 {
			continue
		}
		f.Files += len(r.files)
		f.Lines += r.lines
		f.Packages = append(f.Packages, counted{Package: r.dir, Files: len(r.files), Lines: r.lines})
		f.Types = append(f.Types, r.types()...)
		all = append(all, h.functions(r)...)
		h.documented(r, &f.Names, &f.Fields)
	}
	slices.SortStableFunc(f.Packages, func(a, b counted) int { return cmp.Compare(b.Lines, a.Lines) })
	slices.SortStableFunc(f.Types, func(a, b methods) int { return cmp.Compare(b.Methods, a.Methods) })
	f.Types = f.Types[:min(12, len(f.Types))]
	f.Functions = summary(all)
	return f
}

type function struct {
	name  string
	lines int
}

func (h *house) functions(r *room) []function {
	var all []function
	for _, file := range r.files {
		for _, d := range file.tree.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				all = append(all, function{name: file.path + " " + fn.Name.Name, lines: h.line(fn.End()) - h.line(fn.Pos()) + 1})
			}
		}
	}
	return all
}

func (h *house) line(p token.Pos) int { return h.fset.Position(p).Line }

func summary(all []function) lengths {
	if len(all) == 0 {
		return lengths{}
	}
	slices.SortStableFunc(all, func(a, b function) int { return cmp.Compare(a.lines, b.lines) })
	at := func(percent int) int { return all[min(len(all)*percent/100, len(all)-1)].lines }
	last := all[len(all)-1]
	return lengths{Count: len(all), Median: at(50), P90: at(90), P99: at(99), Max: last.lines, Longest: last.name}
}

func (r *room) types() []methods {
	of := make(map[string]*methods)
	for _, file := range r.files {
		here := make(map[string]bool)
		for _, d := range file.tree.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil {
				continue
			}
			name := receiver(fn)
			if of[name] == nil {
				of[name] = &methods{Type: r.dir + "." + name}
			}
			of[name].Methods++
			if !here[name] {
				here[name] = true
				of[name].Files++
			}
		}
	}
	var all []methods
	for _, m := range of {
		all = append(all, *m)
	}
	slices.SortFunc(all, func(a, b methods) int { return cmp.Compare(a.Type, b.Type) })
	return all
}

// receiver is the name of a method's type.
func receiver(fn *ast.FuncDecl) string {
	t := fn.Recv.List[0].Type
	for {
		switch u := t.(type) {
		case *ast.StarExpr:
			t = u.X
		case *ast.IndexExpr:
			t = u.X
		case *ast.IndexListExpr:
			t = u.X
		case *ast.Ident:
			return u.Name
		default:
			return ""
		}
	}
}

// documented counts the exported names of a package, and the exported fields and methods of its
// exported structs and interfaces. A comment on a group counts for all in it, and so does one
// behind a name.
func (h *house) documented(r *room, names, fields *share) {
	for _, file := range r.files {
		for _, d := range file.tree.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if !d.Name.IsExported() || d.Recv != nil && !ast.IsExported(receiver(d)) {
					continue
				}
				names.count(h.where(d.Name), d.Doc != nil)
			case *ast.GenDecl:
				for _, s := range d.Specs {
					h.documentedSpec(d, s, names, fields)
				}
			}
		}
	}
}

func (h *house) documentedSpec(d *ast.GenDecl, s ast.Spec, names, fields *share) {
	switch s := s.(type) {
	case *ast.TypeSpec:
		if !s.Name.IsExported() {
			return
		}
		names.count(h.where(s.Name), d.Doc != nil || s.Doc != nil || s.Comment != nil)
		switch t := s.Type.(type) {
		case *ast.StructType:
			h.documentedFields(t.Fields, fields)
		case *ast.InterfaceType:
			h.documentedFields(t.Methods, fields)
		}
	case *ast.ValueSpec:
		for _, name := range s.Names {
			if name.IsExported() {
				names.count(h.where(name), d.Doc != nil || s.Doc != nil || s.Comment != nil)
			}
		}
	}
}

func (h *house) documentedFields(list *ast.FieldList, fields *share) {
	for _, field := range list.List {
		for _, name := range field.Names {
			if name.IsExported() {
				fields.count(h.where(name), field.Doc != nil || field.Comment != nil)
			}
		}
	}
}

func (h *house) where(name *ast.Ident) string {
	p := h.fset.Position(name.Pos())
	return fmt.Sprintf("%s:%d %s", p.Filename, p.Line, name.Name)
}

func (f *figures) print(out io.Writer) {
	fmt.Fprintf(out, "product: %d lines in %d files of %d packages\n\n", f.Lines, f.Files, len(f.Packages))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, p := range f.Packages {
		fmt.Fprintf(w, "%d\t%d\t  %s\n", p.Lines, p.Files, p.Package)
	}
	_ = w.Flush() // an error of out shows in what is printed next
	fmt.Fprintf(out, "\nmethods of the largest types (methods, files)\n")
	for _, m := range f.Types {
		fmt.Fprintf(w, "%d\t%d\t  %s\n", m.Methods, m.Files, m.Type)
	}
	_ = w.Flush() // an error of out shows in what is printed next
	fmt.Fprintf(out, "\nfunctions: %d; lines: median %d, p90 %d, p99 %d, max %d (%s)\n",
		f.Functions.Count, f.Functions.Median, f.Functions.P90, f.Functions.P99, f.Functions.Max, f.Functions.Longest)
	fmt.Fprintf(out, "documented: %.1f %% of %d exported names, %.1f %% of %d exported fields\n", f.Names.percent(), f.Names.All, f.Fields.percent(), f.Fields.All)
	fmt.Fprintf(out, "imports between packages: %d; against the floors: %d; circles of rooms: %d\n", f.Arrows, len(f.Upward), len(f.Circles))
	for _, a := range f.Upward {
		fmt.Fprintf(out, "  %s -> %s\n", a.From, a.To)
	}
	for _, c := range f.Circles {
		fmt.Fprintf(out, "  %v\n", c)
	}
	fmt.Fprintf(out, "runs of %d or more equal lines: %d\n", runLength, len(f.Equal))
	for _, e := range f.Equal {
		fmt.Fprintf(out, "  %s:%d = %s:%d (%d lines)\n", e.A, e.LineA, e.B, e.LineB, e.Lines)
	}
	if f.DeadUnknown != "" {
		fmt.Fprintf(out, "dead code: not known: %s\n", f.DeadUnknown)
		return
	}
	if f.Dead == nil {
		return
	}
	fmt.Fprintf(out, "dead functions: %d\n", len(f.Dead))
	for _, d := range f.Dead {
		tested := ""
		if d.Tested {
			tested = ", named in tests"
		}
		fmt.Fprintf(out, "  %s:%d %s%s\n", d.File, d.Line, d.Name, tested)
	}
}
