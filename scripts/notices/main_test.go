package main

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestNotices: every module that is linked has a licence, and what is not linked is not named.
func TestNotices(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	text, err := notices(context.Background(), "./cmd/apoidea", []string{runtime.GOOS + "/" + runtime.GOARCH})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Go and its standard library", "github.com/libp2p/go-libp2p v", "Apache License", "Redistribution and use in source and binary forms", "SIL OPEN FONT LICENSE"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is not in it", want)
		}
	}
	for _, no := range []string{"github.com/jimsmart/grobotstxt ", "github.com/apoidea/apoidea"} {
		if strings.Contains(string(text), no) {
			t.Errorf("%q is in it", no)
		}
	}
}

func TestLicences(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"LICENSE": "of all\r\n", "licensed.go": "no", "checklicense.sh": "no", "LICENSES/MIT.txt": "one more", "linked/deep/COPYING.md": "of a part", "linked/NOTICE": "of all\n",
		"other/LICENSE": "of what is not linked", "UNLICENSE": "nobody's",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m := module{name: "m v1", dir: dir, packages: map[string]bool{filepath.Join(dir, "linked", "deep"): true}}
	found, err := m.licences()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range merge(nil, found) {
		got = append(got, strings.Join(l.of, "+")+": "+strings.TrimSpace(l.text))
	}
	want := "m v1, LICENSE+m v1, linked/NOTICE: of all|m v1, LICENSES/MIT.txt: one more|m v1, UNLICENSE: nobody's|m v1, linked/deep/COPYING.md: of a part"
	if strings.Join(got, "|") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "|"), want)
	}
}
