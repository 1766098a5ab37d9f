package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// built is a small house of the files given, by path.
func built(t *testing.T, files map[string]string) *house {
	t.Helper()
	root := t.TempDir()
	files["go.mod"] = "module example.org/house\n"
	for name, text := range files {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("git", "-C", root, "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("git init: %v: %s", err, out)
	}
	t.Chdir(root)
	h, err := read()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func source(pkg string, imports ...string) string {
	text := "package " + pkg + "\n"
	for _, i := range imports {
		text += fmt.Sprintf("import _ %q\n", "example.org/house/"+i)
	}
	return text
}

// TestInOrder: imports up a floor or into a neighbour are named, and folders that import each
// other.
func TestInOrder(t *testing.T) {
	h := built(t, map[string]string{
		"cmd/a/a.go":        source("main", "node", "crawl/x"),
		"node/n.go":         source("node", "crawl/x", "node/r"),
		"node/r/r.go":       source("r", "dht", "node/lab/net"),
		"node/lab/s/s.go":   source("s", "node/r2", "node/lab/net"),
		"node/lab/net/n.go": source("net"),
		"node/r2/r.go":      source("r2"),
		"crawl/x/x.go":      source("x", "dht/ring", "storage/kv", "crawl/y/z"),
		"crawl/y/y.go":      source("y", "crawl/x/w"),
		"crawl/x/w/w.go":    source("w"),
		"crawl/y/z/z.go":    source("z", "dht"),
		"dht/d.go":          source("dht", "dht/ring", "node/up"),
		"dht/ring/ring.go":  source("ring"),
		"node/up/up.go":     source("up"),
		"storage/kv/kv.go":  source("kv"),
	})
	got := strings.Split(h.inOrder().Error(), "\n")
	slices.Sort(got)
	const itself = " imports itself by way of other folders"
	want := []string{"crawl/x" + itself, "crawl/y" + itself, "crawl/y/z may not import dht", "dht may not import node/up", "node/r may not import node/lab/net"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestWalked: a walk that names what is not there is named, and tests and scripts are no part of
// the house.
func TestWalked(t *testing.T) {
	h := built(t, map[string]string{
		"crawl/a/a.go":      "package a\n\nfunc (*T) F() {}\n",
		"crawl/a/a_test.go": "package a\n\nfunc G() {}\n",
		"scripts/s/s.go":    "package main\n\nfunc H() {}\n",
		"ARCHITECTURE.md":   "`crawl/a/a.go` `F`, `crawl/a/a_test.go` `G` and `scripts/s/s.go` `H`",
	})
	if err := h.walked(); err == nil || err.Error() != "ARCHITECTURE.md: no function G in crawl/a/a_test.go\nARCHITECTURE.md: no function H in scripts/s/s.go" {
		t.Error(err)
	}
	if len(h.rooms) != 1 || h.rooms["crawl/a"].lines != 3 {
		t.Errorf("%+v", h.rooms)
	}
}

func TestPicture(t *testing.T) {
	files := func() map[string]string {
		return map[string]string{
			"node/n.go":        source("node", "crawl/x", "dht/ring"),
			"crawl/x/x.go":     source("x", "dht/ring"),
			"dht/ring/ring.go": source("ring"),
		}
	}
	first := built(t, files()).draw()
	if !bytes.Equal(first, built(t, files()).draw()) {
		t.Error("two pictures of one house")
	}
	if !bytes.Contains(first, []byte("node imports crawl/x")) || bytes.Contains(first, []byte("node imports dht/ring")) {
		t.Errorf("the picture has an arrow that follows from others, or lacks one:\n%s", first)
	}
}
