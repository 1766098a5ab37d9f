// Command targets type-checks every package of the module and its tests for each target named, such
// as linux/arm: from source and without compiling, so that ten targets take seconds and not the
// minutes that go vet needs to compile what we import for each of them. It finds what does not
// compile there; what a linker or an assembler would say, a build has to find.
//
//	go run ./scripts/targets $(scripts/release.sh --targets)
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: targets OS/ARCH...")
		os.Exit(2)
	}
	debug.SetGCPercent(400)
	read := &reader{set: token.NewFileSet(), files: map[string]func() (*ast.File, error){}}
	failed := make([]error, len(os.Args)-1)
	slots := make(chan struct{}, 2) // a target takes some 300 MB
	var all sync.WaitGroup
	for i, target := range os.Args[1:] {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if failed[i] = check(context.Background(), read, target); failed[i] != nil {
				failed[i] = fmt.Errorf("%s: %w", target, failed[i])
			}
		})
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// listed is what go list tells of a package.
type listed struct {
	ImportPath, Name, Dir string
	GoFiles               []string
	ImportMap             map[string]string // from what a file says to what it gets
	DepOnly               bool
	Module                *struct{ GoVersion string }
	Error                 *struct{ Err string }
}

// check lists what is built for a target, dependencies first, and checks one package after the
// other.
func check(ctx context.Context, read *reader, target string) error {
	system, arch, ok := strings.Cut(target, "/")
	sizes := types.SizesFor("gc", arch)
	if !ok || sizes == nil {
		return errors.New("no target: must be OS/ARCH, such as linux/arm")
	}
	cmd := exec.CommandContext(ctx, "go", "list", "-e", "-deps", "-test", "-json=ImportPath,Name,Dir,GoFiles,ImportMap,DepOnly,Module,Error", "./...")
	cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "GOARM=7", "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	c := checker{read: read, sizes: sizes, done: map[string]*types.Package{"unsafe": types.Unsafe}}
	var faults []error
	ours := 0
	for in := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := in.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("go list: %w", err)
		}
		if p.ImportPath == "unsafe" || strings.HasSuffix(p.ImportPath, ".test") {
			continue // the compiler's, and the mains of tests, which go test writes
		}
		if !p.DepOnly {
			ours++
		}
		faults = append(faults, c.check(p)...)
	}
	if len(faults) == 0 {
		fmt.Printf("%s: %d packages of ours and what they import, %d in all\n", target, ours, len(c.done))
	}
	return errors.Join(faults[:min(len(faults), 20)]...)
}

// reader parses each file once for all targets. Of what others wrote it keeps no function's body,
// and so little memory.
type reader struct {
	set   *token.FileSet
	lock  sync.Mutex
	files map[string]func() (*ast.File, error)
}

func (r *reader) read(path string, bodies bool) (*ast.File, error) {
	r.lock.Lock()
	parse, ok := r.files[path]
	if !ok {
		parse = sync.OnceValues(func() (*ast.File, error) {
			file, err := parser.ParseFile(r.set, path, nil, parser.SkipObjectResolution)
			if err != nil || bodies {
				return file, err
			}
			for _, declared := range file.Decls {
				if function, ok := declared.(*ast.FuncDecl); ok && function.Body != nil {
					function.Body = &ast.BlockStmt{Lbrace: function.Body.Lbrace, Rbrace: function.Body.Rbrace}
				}
			}
			return file, nil
		})
		r.files[path] = parse
	}
	r.lock.Unlock()
	return parse()
}

type checker struct {
	read  *reader
	sizes types.Sizes
	done  map[string]*types.Package
}

// check checks a package whose imports are done. Of what others wrote it looks at no function's
// body.
func (c *checker) check(p listed) []error {
	if p.Error != nil {
		return []error{errors.New(p.Error.Err)}
	}
	var faults []error
	files := make([]*ast.File, 0, len(p.GoFiles))
	for _, name := range p.GoFiles {
		file, err := c.read.read(filepath.Join(p.Dir, name), !p.DepOnly)
		if err != nil {
			return []error{err}
		}
		files = append(files, file)
	}
	config := types.Config{
		Sizes: c.sizes, IgnoreFuncBodies: p.DepOnly,
		Importer: importer(func(path string) (*types.Package, error) {
			if mapped, ok := p.ImportMap[path]; ok {
				path = mapped
			}
			if done := c.done[path]; done != nil {
				return done, nil
			}
			return nil, fmt.Errorf("package %s is not listed", path)
		}),
		Error: func(err error) {
			var fault types.Error
			if p.DepOnly && errors.As(err, &fault) && fault.Soft {
				return // an import that only a body uses
			}
			faults = append(faults, err)
		},
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		config.GoVersion = "go" + p.Module.GoVersion
	}
	path, _, _ := strings.Cut(p.ImportPath, " ")                         // without "[of.test]"
	c.done[p.ImportPath], _ = config.Check(path, c.read.set, files, nil) // Error has heard of the faults
	return faults
}

type importer func(path string) (*types.Package, error)

func (f importer) Import(path string) (*types.Package, error) { return f(path) }
