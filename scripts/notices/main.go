// Command notices writes the licences of everything that is linked into the program for the targets
// named: Go itself and each module of which a package is linked, with the licence files of its root
// and of the folders down to these packages. Texts that are the same are written once. A module
// without a licence is an error.
//
//	go run ./scripts/notices $(scripts/release.sh --targets) >THIRD_PARTY_NOTICES
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: notices OS/ARCH...")
		os.Exit(2)
	}
	text, err := notices(context.Background(), "./cmd/apoidea", os.Args[1:])
	if err == nil {
		_, err = os.Stdout.Write(text)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// module is one that is linked: its name and version, its folder, and the folders of its packages
// that are.
type module struct {
	name, dir string
	packages  map[string]bool
}

// licence is a text and whose it is, such as "golang.org/x/net v0.57.0, LICENSE".
type licence struct {
	text string
	of   []string
}

// notices returns the whole file.
func notices(ctx context.Context, program string, targets []string) ([]byte, error) {
	modules := make(map[string]*module)
	for _, target := range targets {
		if err := linked(ctx, program, target, modules); err != nil {
			return nil, fmt.Errorf("%s: %w", target, err)
		}
	}
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	goroot := strings.TrimSpace(string(root))
	modules["go"] = &module{name: "Go and its standard library, " + runtime.Version(), dir: goroot, packages: map[string]bool{goroot: true}}

	var out bytes.Buffer
	fmt.Fprintf(&out, "apoidea is made with the software of others. What follows is whose it is, and their licences.\n\n")
	names := slices.SortedFunc(maps.Values(modules), func(a, b *module) int { return cmp.Compare(a.name, b.name) })
	var all []*licence
	var missing []error
	for _, m := range names {
		fmt.Fprintln(&out, "  "+m.name)
		found, err := m.licences()
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			missing = append(missing, fmt.Errorf("%s has no licence in %s", m.name, m.dir))
		}
		all = merge(all, found)
	}
	for _, l := range all {
		fmt.Fprintf(&out, "\n%s\n%s\n\n%s", strings.Repeat("=", 80), strings.Join(l.of, "\n"), l.text)
	}
	return out.Bytes(), errors.Join(missing...)
}

// linked adds the modules that are linked for a target.
func linked(ctx context.Context, program, target string, modules map[string]*module) error {
	system, arch, ok := strings.Cut(target, "/")
	if !ok {
		return errors.New("no target: must be OS/ARCH, such as linux/arm")
	}
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-json=Dir,Module", program)
	cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "GOARM=7", "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	raw, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	for in := json.NewDecoder(bytes.NewReader(raw)); ; {
		var p struct {
			Dir    string
			Module *struct {
				Path, Version, Dir string
				Main               bool
				Replace            *struct{ Path, Version, Dir string }
			}
		}
		if err := in.Decode(&p); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("go list: %w", err)
		}
		if p.Module == nil || p.Module.Main {
			continue
		}
		path, version, dir := p.Module.Path, p.Module.Version, p.Module.Dir
		if r := p.Module.Replace; r != nil {
			path, version, dir = r.Path, r.Version, r.Dir
		}
		m := modules[path]
		if m == nil {
			m = &module{name: strings.TrimSpace(path + " " + version), dir: dir, packages: make(map[string]bool)}
			modules[path] = m
		}
		m.packages[p.Dir] = true
	}
}

// isLicence says which files hold licences, notices that go with them, and grants of patents.
var isLicence = regexp.MustCompile(`(?i)^(un)?(licen[cs]es?|copying|copyright|notice|patents|third_party_licenses)([-._].*)?$`)

// licences reads the files of the module, those in folders of that name too.
func (m *module) licences() ([]*licence, error) {
	folders := make(map[string]bool)
	for dir := range m.packages {
		for ; len(dir) >= len(m.dir); dir = filepath.Dir(dir) {
			folders[dir] = true
		}
	}
	var found []*licence
	for _, dir := range slices.Sorted(maps.Keys(folders)) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		for _, e := range entries {
			if !isLicence.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), ".sh") {
				continue
			}
			err := filepath.WalkDir(filepath.Join(dir, e.Name()), func(path string, e os.DirEntry, err error) error {
				if err != nil || e.IsDir() {
					return err
				}
				raw, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				file, err := filepath.Rel(m.dir, path)
				if err != nil {
					return err
				}
				text := strings.TrimSpace(strings.ReplaceAll(string(raw), "\r\n", "\n")) + "\n"
				found = append(found, &licence{text: text, of: []string{m.name + ", " + filepath.ToSlash(file)}})
				return nil
			})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", m.name, err)
			}
		}
	}
	return found, nil
}

// merge adds licences to those that are there.
func merge(all, found []*licence) []*licence {
	for _, l := range found {
		if i := slices.IndexFunc(all, func(had *licence) bool { return had.text == l.text }); i >= 0 {
			all[i].of = append(all[i].of, l.of...)
		} else {
			all = append(all, l)
		}
	}
	return all
}
