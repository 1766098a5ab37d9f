// Package datadir keeps a peer's data directory private to the user that runs the peer. The
// directory has mode 0700, and one that another user owns or could have changed is rejected. On
// systems without Unix permissions (Windows) nothing is checked.
package datadir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// DirMode and FileMode are the permissions of a peer's directories and files.
const (
	DirMode  fs.FileMode = 0o700
	FileMode fs.FileMode = 0o600
)

// ErrNotOurs is returned for a data directory that belongs to another user, or that another user
// could have changed.
var ErrNotOurs = errors.New("not private")

// marks are names by which a data directory is recognized. Another directory that holds files is
// not closed to other users by root: the system would not work with a /etc of mode 0700.
var marks = []string{"db", "archive", "essentials", TokenFile, "seed.json", "config.toml"}

// Claim creates dir if it does not exist, or closes it to other users. It reports whether it was
// open to them, and returns ErrNotOurs for a directory that another user owns or could have
// changed.
func Claim(dir string) (closed bool, err error) {
	if _, err := Open(dir); err != nil {
		return false, err
	}
	if err := os.MkdirAll(dir, DirMode); err != nil {
		return false, err
	}
	if open, err := Open(dir); err != nil || !open { // another user may have created it meanwhile
		return false, err
	}
	return true, os.Chmod(dir, DirMode)
}

// Open reports whether other users may enter dir, with the errors of Claim. It changes nothing.
func Open(dir string) (open bool, err error) {
	if !owners {
		return false, nil
	}
	reject := func(format string, args ...any) (bool, error) {
		return false, fmt.Errorf("data directory %s: %w: %s", dir, ErrNotOurs, fmt.Sprintf(format, args...))
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return false, err
	}
	if link := foreignLink(abs, maxLinks); link != "" {
		return reject("%s is a symbolic link that another user can change; use its target as --data-dir", link)
	}
	info, err := os.Stat(abs)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case !info.IsDir():
		return false, fmt.Errorf("data directory %s: not a directory", dir)
	case ownerOf(info) != os.Geteuid():
		return reject("owned by user %d, this process runs as user %d; chown it, or use a new directory in it as --data-dir", ownerOf(info), os.Geteuid())
	}
	entries, err := os.ReadDir(abs)
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && !trusted(info) { // a running peer removes files
			return reject("%s in it is owned by user %d; inspect it, then chown or remove it", e.Name(), ownerOf(info))
		}
	}
	open = info.Mode().Perm()&^DirMode != 0
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Name() == "lost+found" })
	if open && (info.Mode()&fs.ModeSticky != 0 || os.Geteuid() == 0 && len(entries) > 0 && !slices.ContainsFunc(marks, func(mark string) bool { return exists(filepath.Join(abs, mark)) })) {
		return reject("open to other users and not a peer's; use a new directory as --data-dir, or close it (chmod 700)")
	}
	return open, nil
}

// maxLinks is how many symbolic links may lead to a data directory.
const maxLinks = 8

// foreignLink returns a symbolic link of another user that path leads over, or the last link if
// there are more than left.
func foreignLink(path string, left int) string {
	for at := path; at != filepath.Dir(at); at = filepath.Dir(at) {
		to, err := os.Readlink(at)
		if err != nil {
			continue
		}
		if info, err := os.Lstat(at); err != nil || !trusted(info) || left == 0 {
			return at
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(at), to)
		}
		if link := foreignLink(to, left-1); link != "" {
			return link
		}
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// trusted reports whether a file belongs to this user or to root.
func trusted(info fs.FileInfo) bool {
	uid := ownerOf(info)
	return uid == os.Geteuid() || uid == 0
}

// Replace writes a file with mode 0600 atomically: after a crash it has the old or the new data.
func Replace(path string, data []byte) error {
	return ReplaceBy(path, func(to io.Writer) error {
		_, err := to.Write(data)
		return err
	})
}

// ReplaceBy is Replace for data that is written in parts.
func ReplaceBy(path string, write func(to io.Writer) error) error {
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, FileMode)
	if err != nil {
		return err
	}
	if err = write(f); err == nil {
		err = f.Sync() // before the rename, which could reach the disk first
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		_ = os.Remove(tmp)
	}
	return err
}
