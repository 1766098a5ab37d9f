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

// built returns a small module of the given files, by path.
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

// TestInOrder: imports of a higher layer or of another one of the same level are reported, and
// import cycles between directories.
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
		t.Error("two diagrams of the same packages differ")
	}
	if !bytes.Contains(first, []byte("node imports crawl/x")) || bytes.Contains(first, []byte("node imports dht/ring")) {
		t.Errorf("an arrow is missing, or follows from others:\n%s", first)
	}
}
