// Command targets type-checks every package of the product and its tests for each target named,
// such as linux/arm: from source and without compiling, so that ten targets take seconds and not
// the minutes that go vet needs to compile what we import for each of them. It finds what does not
// compile there; what a linker or an assembler would say, a build has to find.
//
//	go run ./scripts/targets $(scripts/release.sh --targets)
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	failed := false
	for _, target := range os.Args[1:] {
		system, arch, _ := strings.Cut(target, "/")
		all, err := packages.Load(&packages.Config{
			Mode:      packages.NeedName | packages.NeedTypes | packages.NeedImports | packages.NeedDeps,
			Tests:     true,
			Env:       append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "GOARM=7", "CGO_ENABLED=0"),
			ParseFile: parse,
		}, "./cmd/...", "./crawl/...", "./dedup/...", "./dht/...", "./node/...", "./storage/...")
		if err != nil {
			fmt.Fprintln(os.Stderr, target, err)
			os.Exit(1)
		}
		seen := 0
		packages.Visit(all, nil, func(p *packages.Package) {
			seen++
			for _, fault := range p.Errors {
				if ours(fault.Pos) || !strings.HasSuffix(fault.Msg, " and not used") { // but by a body
					fmt.Fprintf(os.Stderr, "%s: %v\n", target, fault)
					failed = true
				}
			}
		})
		fmt.Printf("%s: %d packages of ours and their tests, %d in all\n", target, len(all), seen)
	}
	if failed {
		os.Exit(1)
	}
}

// ours reports whether a file is of this module.
func ours(path string) bool {
	here, err := os.Getwd()
	return err == nil && strings.HasPrefix(path, here)
}

// parse reads a file. Of what others wrote it keeps no function's body, and so little time is
// needed.
func parse(set *token.FileSet, name string, text []byte) (*ast.File, error) {
	file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
	if err != nil || ours(name) {
		return file, err
	}
	for _, declared := range file.Decls {
		if f, ok := declared.(*ast.FuncDecl); ok && f.Body != nil {
			f.Body.List = []ast.Stmt{&ast.ExprStmt{X: &ast.CallExpr{Fun: ast.NewIdent("panic"), Args: []ast.Expr{ast.NewIdent("nil")}}}}
		}
	}
	return file, nil
}
