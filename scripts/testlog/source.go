package main

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strings"
)

// integrationPackages lists the packages whose tests link libp2p or start processes of the program.
func integrationPackages() map[string]bool {
	out, err := exec.CommandContext(context.Background(), "go", "list", "-test", "-f",
		`{{if .ForTest}}{{$p := .ForTest}}{{range .Deps}}{{if eq . "github.com/libp2p/go-libp2p"}}{{$p}}{{"\n"}}{{end}}{{end}}{{end}}`, "./...").Output()
	if err != nil {
		return nil // every test is held to the limit of unit tests
	}
	linked := make(map[string]bool)
	for p := range strings.FieldsSeq(string(out)) {
		linked[strings.TrimPrefix(p, "github.com/apoidea/apoidea/")] = true
	}
	return linked
}

// hasReason reports whether the doc comment of a test says why it is slow.
func hasReason(name testName) bool {
	files, _ := filepath.Glob(filepath.Join(name.pkg, "*_test.go")) // the pattern is well formed
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			continue
		}
		for _, d := range tree.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == name.test {
				return strings.Contains(f.Doc.Text(), "Slow: ")
			}
		}
	}
	return false
}
