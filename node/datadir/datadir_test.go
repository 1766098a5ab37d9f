//go:build unix

package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// stranger is a user that nobody is.
const stranger = 54321

// lay lays out directories (names that end in a slash) and files, open to everybody.
func lay(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil { // open is what is tested
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, "/") {
			if err := os.WriteFile(path, []byte("x"), 0o666); err != nil { // open is what is tested
				t.Fatal(err)
			}
		}
	}
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		return os.Chmod(path, map[bool]fs.FileMode{true: 0o777, false: 0o666}[d.IsDir()])
	}); err != nil {
		t.Fatal(err)
	}
}

// mode is what a file may be opened for.
func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

// TestClaimCloses closes the directory once, and nothing behind a symbolic link in it.
func TestClaimCloses(t *testing.T) {
	top := t.TempDir()
	dir, elsewhere := filepath.Join(top, "peer"), filepath.Join(top, "elsewhere")
	lay(t, top, "peer/db/LOCK", "peer/notes.txt", "elsewhere/x")
	if err := os.Symlink(elsewhere, filepath.Join(dir, "archive")); err != nil {
		t.Fatal(err)
	}
	if open, err := Open(dir); !open || err != nil || mode(t, dir) != 0o777 {
		t.Errorf("open: %v, %v", open, err)
	}
	if closed, err := Claim(dir); !closed || err != nil || mode(t, dir) != 0o700 || mode(t, elsewhere) != 0o777 {
		t.Errorf("closed: %v, %v", closed, err)
	}
	if closed, err := Claim(dir); closed || err != nil {
		t.Errorf("second time: closed %v, %v", closed, err)
	}
}

func TestClaimMakes(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	dir := filepath.Join(t.TempDir(), "share", "peer")
	if open, err := Open(dir); open || err != nil {
		t.Errorf("missing directory is open: %v, %v", open, err)
	}
	if closed, err := Claim(dir); closed || err != nil || mode(t, dir) != 0o700 || mode(t, filepath.Dir(dir)) != 0o700 {
		t.Errorf("closed %v, %v, created with %v", closed, err, mode(t, dir))
	}
}

// TestClaimRefuses what another user has, or could have, planted; nothing of it is changed.
func TestClaimRefuses(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only the administrator can make what is another user's")
	}
	own := func(path string) {
		if err := os.Lchown(path, stranger, stranger); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to, at string) {
		if err := os.Symlink(to, at); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		plant func(top string)
		says  string // empty: it is taken
	}{
		"a directory of another":      {func(top string) { own(filepath.Join(top, "peer")) }, "owned by user 54321"},
		"a file of another in it":     {func(top string) { lay(t, top, "peer/notes"); own(filepath.Join(top, "peer/notes")) }, "notes in it is owned by user 54321"},
		"a database of another":       {func(top string) { own(filepath.Join(top, "peer/db")) }, "db in it is owned by user 54321"},
		"shared, as /tmp is":          {func(top string) { _ = os.Chmod(filepath.Join(top, "peer"), 0o777|fs.ModeSticky) }, "not a peer's"},
		"a file":                      {func(top string) { _ = os.RemoveAll(filepath.Join(top, "peer")); lay(t, top, "peer") }, "not a directory"},
		"what is something else":      {func(top string) { _ = os.RemoveAll(filepath.Join(top, "peer/db")); lay(t, top, "peer/passwd") }, "not a peer's"},
		"a configuration and no more": {func(top string) { _ = os.RemoveAll(filepath.Join(top, "peer/db")); lay(t, top, "peer/config.toml") }, ""},
		"a link of ours": {func(top string) {
			_ = os.Rename(filepath.Join(top, "peer"), filepath.Join(top, "there"))
			link("there", filepath.Join(top, "peer"))
		}, ""},
		"a link of another": {func(top string) {
			_ = os.Rename(filepath.Join(top, "peer"), filepath.Join(top, "there"))
			link("there", filepath.Join(top, "peer"))
			own(filepath.Join(top, "peer"))
		}, "peer is a symbolic link that another user"},
		"a link of another to nothing": {func(top string) {
			_ = os.RemoveAll(filepath.Join(top, "peer"))
			link("there", filepath.Join(top, "peer"))
			own(filepath.Join(top, "peer"))
		}, "peer is a symbolic link that another user"},
		"a link of another behind one of ours": {func(top string) {
			_ = os.Mkdir(filepath.Join(top, "a"), 0o700)
			_ = os.Rename(filepath.Join(top, "peer"), filepath.Join(top, "a/there"))
			link(filepath.Join(top, "a"), filepath.Join(top, "b"))
			own(filepath.Join(top, "b"))
			link("b/there", filepath.Join(top, "peer"))
		}, "b is a symbolic link that another user can change"},
		"a link of another in it": {func(top string) {
			link("/etc", filepath.Join(top, "peer/archive"))
			own(filepath.Join(top, "peer/archive"))
		}, "archive in it is owned by user 54321"},
		"links in a circle": {func(top string) {
			_ = os.RemoveAll(filepath.Join(top, "peer"))
			link("peer", filepath.Join(top, "peer"))
		}, "peer is a symbolic link that"},
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			lay(t, top, "peer/db/LOCK")
			c.plant(top)
			dir := filepath.Join(top, "peer")
			_, looked := Open(dir)
			_, err := Claim(dir)
			if c.says == "" {
				if info, serr := os.Stat(dir); err != nil || looked != nil || serr != nil || info.Mode().Perm() != DirMode {
					t.Errorf("refused: %v, %v", err, looked)
				}
				return
			}
			if err == nil || looked == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("claimed: %v, looked at: %v, want %q", err, looked, c.says)
			}
			if strings.Contains(c.says, "user") && !errors.Is(err, ErrNotOurs) {
				t.Errorf("of another kind: %v", err)
			}
		})
	}
}

func TestToken(t *testing.T) {
	dir := t.TempDir()
	if _, err := Token(dir, ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a token of nobody: %v", err)
	}
	first, err := DrawToken(dir, "")
	if err != nil || len(first) < 26 || mode(t, filepath.Join(dir, TokenFile)) != 0o600 {
		t.Fatalf("%q, %v", first, err)
	}
	if again, err := DrawToken(dir, ""); again != first || err != nil {
		t.Errorf("another token at the second start: %v", err)
	}
	file := filepath.Join(dir, "given")
	if _, err := DrawToken(dir, file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that was named and is not there: %v", err)
	}
	for text, ok := range map[string]bool{
		"": false, "short\n": false, "sixteen-or-more.\n": true, "  sixteen-or-more.\r\n": true, "two of them here\n": false, "sixteen-or-moré.": false,
		strings.Repeat("x", maxToken): true, strings.Repeat("x", maxToken+1): false, strings.Repeat("x", 1<<20): false,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := Token(dir, file); (err == nil) != ok || ok && got != strings.TrimSpace(text) {
			t.Errorf("%.20q: %.20q, %v", text, got, err)
		}
	}
}
