// Package datadir keeps a peer's data directory to the user who runs the peer: directories are 0700
// and files 0600, what was open to others is closed, and a directory in which another user could
// have planted something is refused. Where the system knows no such owners (Windows), nothing is
// looked at: there a directory below a user's own is that user's.
package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// What a peer's directories and files may be opened for: by its user alone.
const (
	DirMode  fs.FileMode = 0o700
	FileMode fs.FileMode = 0o600
)

// ErrNotOurs says that a data directory, or something in it, is another user's, or could be.
var ErrNotOurs = errors.New("not its peer's alone")

// own are the names of what a peer, a repair and a cluster keep in a data directory; ownBegin are
// how others begin, as damaged-TIME does.
var (
	own = []string{
		"db", "repaired-db", "archive", "spill", "stalls", "essentials", "addrs", "dashboard.secret", TokenFile, "apoidea.sock", "peer.log", "peer.pid",
	}
	ownBegin = []string{"repair-", "damaged-", "optout-url."}
)

// beside are the names of what may lie in a new data directory without being the peer's: its
// configuration, and what a new file system has.
var beside = []string{"config.toml", "lost+found"}

// Claim makes dir if it is not there, and closes to others what of it is the peer's own. It returns
// how many directories and files were open, and an ErrNotOurs for what another user has, or could
// have, planted.
func Claim(dir string) (closed int, err error) {
	if err := examine(dir); err != nil {
		return 0, err
	}
	if err := os.MkdirAll(dir, DirMode); err != nil {
		return 0, err
	}
	if err := examine(dir); err != nil { // whoever was faster
		return 0, err
	}
	err = walk(dir, func(path string, info fs.FileInfo) error {
		if info.Mode().Perm()&^allowed(info) == 0 {
			return nil
		}
		closed++
		return os.Chmod(path, allowed(info))
	})
	return closed, err
}

// Open counts what Claim would close; an error is what it would answer.
func Open(dir string) (open int, err error) {
	if err := examine(dir); err != nil {
		return 0, err
	}
	err = walk(dir, func(_ string, info fs.FileInfo) error {
		if info.Mode().Perm()&^allowed(info) != 0 {
			open++
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return open, err
}

func allowed(info fs.FileInfo) fs.FileMode {
	if info.IsDir() {
		return DirMode
	}
	return FileMode
}

// examine looks at the way to dir, and at dir itself if it is there.
func examine(dir string) error {
	if !owners {
		return nil
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := ownLinks(abs, maxLinks); err != nil {
		return err
	}
	info, err := os.Stat(abs)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is no directory", dir)
	case ownerOf(info) != us():
		return fmt.Errorf("data directory %s: %w: it belongs to user %d, and this is user %d, so another user could read and change what the peer keeps; "+
			"make it yours (chown), or name another with --data-dir, which may be a new one in it", dir, ErrNotOurs, ownerOf(info), us())
	case info.Mode()&fs.ModeSticky != 0 && info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("data directory %s: %w: it is a directory that users share, as /tmp is; name a new one in it with --data-dir", dir, ErrNotOurs)
	}
	return sole(abs, info)
}

// sole refuses, of the administrator alone, to take for a data directory what is something else,
// such as /etc: nobody else could enter it any more.
func sole(dir string, info fs.FileInfo) error {
	if us() != 0 || info.Mode().Perm()&^DirMode == 0 {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	other := ""
	for _, e := range entries {
		switch {
		case e.Name() == "db":
			return nil
		case !isOwn(e.Name()) && !slices.Contains(beside, e.Name()):
			other = e.Name()
		}
	}
	if other == "" {
		return nil
	}
	return fmt.Errorf("data directory %s: %w: it is open to other users and holds other things (%s), and a peer would close it; name a new one with --data-dir, or close it yourself (chmod 700)", dir, ErrNotOurs, other)
}

func isOwn(name string) bool {
	return slices.Contains(own, strings.TrimSuffix(name, ".new")) || slices.ContainsFunc(ownBegin, func(begin string) bool { return strings.HasPrefix(name, begin) })
}

// maxLinks is how many symbolic links may lie on the way, as systems have it.
const maxLinks = 40

// ownLinks refuses a way that leads over a symbolic link of another user, who could turn it to
// where it suits them.
func ownLinks(path string, left int) error {
	at := filepath.VolumeName(path) + string(filepath.Separator)
	rest := strings.Split(path[len(at):], string(filepath.Separator))
	for i, name := range rest {
		at = filepath.Join(at, name)
		info, err := os.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			continue
		}
		if !trusted(info) {
			return fmt.Errorf("data directory: %w: %s is a symbolic link of user %d, who could turn it elsewhere; name the directory itself with --data-dir", ErrNotOurs, at, ownerOf(info))
		}
		if left == 0 {
			return fmt.Errorf("data directory: %s: too many symbolic links", at)
		}
		to, err := os.Readlink(at)
		if err != nil {
			return err
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(at), to)
		}
		return ownLinks(filepath.Join(to, filepath.Join(rest[i+1:]...)), left-1)
	}
	return nil
}

// trusted says whether something is this user's, or the administrator's, who needs no tricks.
func trusted(info fs.FileInfo) bool {
	uid := ownerOf(info)
	return uid == us() || uid == 0
}

// walk shows the directory and everything in it that is the peer's own. What lies behind a symbolic
// link is where a person put it, and is left as it is.
func walk(dir string, each func(path string, info fs.FileInfo) error) error {
	if !owners {
		return nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if err := each(dir, info); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !isOwn(e.Name()) {
			continue
		}
		if err := filepath.WalkDir(filepath.Join(dir, e.Name()), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return ignoreMissing(err) // a peer that runs removes files
			}
			info, err := d.Info()
			if err != nil {
				return ignoreMissing(err)
			}
			switch {
			case !trusted(info):
				return fmt.Errorf("data directory: %w: %s belongs to user %d, who may have planted it; see what it is, and remove it or make it yours (chown)", ErrNotOurs, path, ownerOf(info))
			case info.Mode()&fs.ModeSymlink != 0, ownerOf(info) != us(): // the administrator's: not ours to change
				return nil
			}
			return each(path, info)
		}); err != nil {
			return err
		}
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Replace writes a file as a whole, so that a crash leaves the old one or the new one, and no
// reader sees half of it. It is its user's alone.
func Replace(path string, data []byte) error {
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, FileMode)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync() // a name must not stand for what is not on disk yet
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return errors.Join(err, ignoreMissing(os.Remove(tmp)))
	}
	return nil
}
