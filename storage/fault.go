package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Fault is one thing that is wrong with the files of a database.
type Fault struct {
	// File without its directory, empty if it is about all of them.
	File string
	Text string // what is wrong, for people
	// Lost says that records were in the bytes that cannot be read.
	Lost bool
	// Note says that it may be as it should: a crash leaves it so as well.
	Note bool
}

// String is the text behind the name of the file.
func (f Fault) String() string {
	if f.File == "" {
		return f.Text
	}
	return f.File + ": " + f.Text
}

// damage makes of an error of the database one that names the damage, without the library's own
// marks in it.
func damage(err error) error {
	if err == nil || !pebble.IsCorruptionError(err) && !isMissing(err) {
		return err
	}
	return &damagedError{text: plain(err), err: err}
}

// isMissing says that the manifest names files that are not there.
func isMissing(err error) bool {
	return errors.Is(err, os.ErrNotExist) || strings.Contains(err.Error(), "object size mismatch")
}

// damagedError is ErrDamaged.
type damagedError struct {
	text string
	err  error
}

func (e *damagedError) Error() string { return fmt.Sprintf("%v: %s", ErrDamaged, e.text) }

// Unwrap lets both be found.
func (e *damagedError) Unwrap() []error { return []error{ErrDamaged, e.err} }

// marks are what the library puts into texts for its own reports.
var marks = regexp.MustCompile(`<[a-z ]*carrier>:? ?|[‹›]`)

// plain is an error's text for people.
func plain(err error) string { return plainText(err.Error()) }

func plainText(text string) string {
	text = marks.ReplaceAllString(text, "")
	text = strings.ReplaceAll(text, "pebble/record: ", "")
	text = strings.ReplaceAll(text, "pebble/table: ", "")
	text = strings.ReplaceAll(text, "pebble: ", "")
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "\n", "; ")), " ")
}

// dbFiles are the files of a database by their kinds, in the order of their numbers.
type dbFiles struct {
	tables, logs, manifests, options []string
	markers                          []string
}

func listFiles(dir string) (f dbFiles, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return f, fmt.Errorf("check storage: %w", err)
	}
	for _, e := range entries {
		name := e.Name()
		switch {
		case e.IsDir():
		case strings.HasSuffix(name, ".sst"):
			f.tables = append(f.tables, name)
		case strings.HasSuffix(name, ".log"):
			f.logs = append(f.logs, name)
		case strings.HasPrefix(name, "MANIFEST-"):
			f.manifests = append(f.manifests, name)
		case strings.HasPrefix(name, "OPTIONS-"):
			f.options = append(f.options, name)
		case strings.HasPrefix(name, "marker.manifest."):
			f.markers = append(f.markers, name)
		}
	}
	byNumber := func(a, b string) int { return int(numberOf(a)) - int(numberOf(b)) }
	slices.SortFunc(f.tables, byNumber)
	slices.SortFunc(f.logs, byNumber)
	return f, nil
}

// numberOf is the number with which the name of a table or log begins.
func numberOf(name string) uint32 {
	digits := strings.TrimRight(name, "abcdefghijklmnopqrstuvwxyz.")
	digits, _, _ = strings.Cut(digits, "-")
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil {
		return 0
	}
	return uint32(n)
}

// Checked is what a check came to.
type Checked struct {
	// Unclean says that the database was not closed: the process was killed, or the end of its log
	// is gone.
	Unclean bool
	Faults  int // how many were told, notes left out
}

// Check looks at all files of the database in dir, of which the caller holds the lock, and tells
// each fault; with data it reads every block, else the logs, what leads to the blocks, and what
// opening reads. Only what cannot be looked at is an error.
func Check(dir string, lock *Lock, data bool, tell func(Fault)) (c Checked, err error) {
	files, err := listFiles(dir)
	if err != nil {
		return c, err
	}
	count := func(f Fault) {
		if !f.Note {
			c.Faults++
		}
		tell(f)
	}
	for _, name := range files.tables {
		if err := checkTable(filepath.Join(dir, name), data, count); err != nil {
			return c, err
		}
	}
	c.Unclean = len(files.logs) == 0
	for i, name := range files.logs {
		log := logFile{path: filepath.Join(dir, name), last: i == len(files.logs)-1, fault: count, batch: func([]byte) error { return nil }}
		if err := log.read(); err != nil {
			return c, err
		}
		c.Unclean = log.unclean
	}
	if len(files.logs) == 0 {
		count(Fault{Text: "log of recent writes missing", Lost: true})
	}
	if len(files.options) == 0 {
		count(Fault{Text: "OPTIONS file missing; nothing is lost, each run writes it", Note: true})
	}
	checkOpen(dir, lock, &files, c.Unclean, count)
	return c, nil
}

// checkOpen opens the database as a run would, without changing it, and compares the tables that it
// knows with those that are there.
func checkOpen(dir string, lock *Lock, files *dbFiles, unclean bool, tell func(Fault)) {
	if len(files.markers) == 0 {
		tell(Fault{Text: "marker of the current MANIFEST missing: a run would start with an empty database", Lost: true})
		return
	}
	if len(files.manifests) == 0 {
		tell(Fault{Text: "MANIFEST missing", Lost: true})
		return
	}
	cache := pebble.NewCache(8 << 20)
	defer cache.Unref()
	var db *pebble.DB
	err := caught(func() (err error) {
		db, err = pebble.Open(dir, &pebble.Options{
			FS: vfs.Default, Lock: lock, ReadOnly: true, Cache: cache, MaxOpenFiles: DefaultOpenFiles, Logger: silent{}, FormatMajorVersion: pebble.FormatNewest,
		})
		return err
	})
	if err != nil {
		tell(Fault{Text: "open failed: " + plain(err), Lost: true})
		return
	}
	defer func() { _ = db.Close() }()
	levels, err := db.SSTables()
	if err != nil {
		tell(Fault{Text: plain(err), Lost: true})
		return
	}
	known := make(map[uint32]bool)
	for _, level := range levels {
		for i := range level {
			known[uint32(level[i].FileNum)] = true //nolint:gosec // numbers of files begin at one
		}
	}
	for _, name := range files.tables {
		if !known[numberOf(name)] {
			tell(Fault{File: name, Text: "table not in the MANIFEST: MANIFEST truncated, or process killed", Lost: true, Note: unclean})
		}
	}
}

// silent takes the library's messages: what is wrong is told by errors.
type silent struct{}

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}

// Fatalf ends the library's work, which cannot go on; whoever called it catches the panic.
func (silent) Fatalf(format string, args ...any) { panic(fmt.Errorf(format, args...)) }

// Eventf and IsTracingEnabled make it a pebble.LoggerAndTracer.
func (silent) Eventf(context.Context, string, ...any) {}

// IsTracingEnabled says no.
func (silent) IsTracingEnabled(context.Context) bool { return false }
