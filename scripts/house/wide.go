package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// columns is how many a line of a comment has at most; a tab is one.
const columns = 100

// wide is an error that names each line of a comment below root that has more than columns.
func wide(root string) error {
	var errs []error
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root:
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, ".pb.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		lines := bufio.NewScanner(bytes.NewReader(text))
		lines.Buffer(nil, len(text)+1)
		for n := 1; lines.Scan(); n++ {
			if line := lines.Text(); strings.HasPrefix(strings.TrimLeft(line, "\t"), "// ") && utf8.RuneCountInString(line) > columns {
				errs = append(errs, fmt.Errorf("%s:%d: a comment of over %d columns", path, n, columns))
			}
		}
		return lines.Err()
	})
	return errors.Join(append(errs, err)...)
}
