package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// trial is one kind of damage.
type trial struct {
	name string
	harm func(dir string) error
	// quick trials are one of each kind of file.
	quick bool
	// harmless: nothing is lost by design, and check says so. any: it may be found or not. refused:
	// a run on it has to end and to say what helps.
	harmless, any, refused bool
	// rollback: the database has an earlier state, or the job is lost: undamaged pages may be fetched
	// again.
	rollback bool
	// killed: of the peer that was killed.
	killed bool
	// ring: of one peer of three.
	ring bool
}

var trials = []trial{
	{name: "nothing", harm: func(string) error { return nil }, harmless: true},
	{name: "killed", harm: func(string) error { return nil }, harmless: true, killed: true, quick: true},
	{name: "table-overwritten", harm: on("db/*.sst", largest, overwrite(0.5, 300)), quick: true},
	{name: "table-bit", harm: on("db/*.sst", largest, overwrite(0.3, 1))},
	{name: "table-index", harm: on("db/*.sst", largest, overwrite(0.97, 100)), any: true},
	{name: "table-foot", harm: on("db/*.sst", largest, overwrite(1, 40))},
	{name: "table-cut", harm: on("db/*.sst", largest, cut(0.6)), refused: true},
	{name: "table-gone", harm: on("db/*.sst", largest, remove), refused: true},
	{name: "tables-gone", harm: on("db/*.sst", all, remove), refused: true},
	{name: "log-overwritten", harm: on("db/*.log", largest, overwrite(0.4, 100)), refused: true, quick: true},
	{name: "log-cut", harm: on("db/*.log", largest, cut(0.5)), any: true, rollback: true},
	{name: "log-gone", harm: on("db/*.log", all, remove), any: true, rollback: true},
	{name: "manifest-overwritten", harm: on("db/MANIFEST-*", last, overwrite(0, 60)), refused: true, quick: true},
	{name: "manifest-cut", harm: on("db/MANIFEST-*", last, cut(0.4)), any: true, rollback: true},
	{name: "manifest-gone", harm: on("db/MANIFEST-*", last, remove), refused: true},
	{name: "current-gone", harm: on("db/marker.manifest.*", all, remove), refused: true, quick: true},
	{name: "format-gone", harm: on("db/marker.format-version.*", all, remove), any: true},
	{name: "options-overwritten", harm: on("db/OPTIONS-*", last, overwrite(0, 300)), any: true, quick: true},
	{name: "options-gone", harm: on("db/OPTIONS-*", all, remove), harmless: true},
	{name: "lock-gone", harm: on("db/LOCK", all, remove), harmless: true},
	{name: "database-gone", harm: on("db", all, remove), refused: true},
	{name: "database-and-essentials-gone", harm: both(on("db", all, remove), on("essentials", all, remove)), refused: true, rollback: true},
	{name: "essentials-overwritten", harm: on("essentials", all, overwrite(0.5, 20)), quick: true},
	{name: "essentials-gone", harm: on("essentials", all, remove), harmless: true},
	{name: "gzip-overwritten", harm: on("archive/*.warc.gz", largest, overwrite(0.5, 2000)), quick: true},
	{name: "gzip-bit", harm: on("archive/*.warc.gz", largest, overwrite(0.7, 1))},
	{name: "gzip-begins", harm: on("archive/*.warc.gz", largest, overwrite(0, 700))},
	{name: "gzip-cut", harm: on("archive/*.warc.gz", largest, cut(0.6))},
	{name: "gzip-gone", harm: on("archive/*.warc.gz", largest, remove)},
	{name: "zstd-overwritten", harm: on("archive/*.warc.zst", largest, overwrite(0.5, 2000)), quick: true},
	{name: "zstd-begins", harm: on("archive/*.warc.zst", largest, overwrite(0, 700))},
	{name: "zstd-cut", harm: on("archive/*.warc.zst", largest, cut(0.6))},
	{name: "plain-overwritten", harm: on("archive/*.warc", largest, overwrite(0.5, 2000)), quick: true},
	{name: "plain-cut", harm: on("archive/*.warc", largest, cut(0.6))},
	{name: "plain-head", harm: on("archive/*.warc", largest, overwrite(0, 100))},
	{name: "index-overwritten", harm: on("archive/*.cdxj", largest, overwrite(0.5, 50)), quick: true},
	{name: "index-cut", harm: on("archive/*.cdxj", largest, cut(0.5))},
	{name: "index-gone", harm: on("archive/*.cdxj", all, remove)},
	{name: "archive-gone", harm: on("archive", all, remove)},
	{name: "archive-and-index", harm: both(on("archive/*.warc.gz", largest, overwrite(0.4, 900)), on("archive/*.cdxj", all, cut(0.7)))},
	{name: "table-and-archive", harm: both(on("db/*.sst", largest, overwrite(0.5, 300)), on("archive/*.warc.gz", largest, overwrite(0.4, 900)))},
	{name: "open-overwritten", harm: on("archive/*.open", largest, overwrite(0.4, 500)), killed: true, refused: true, quick: true},
	{name: "open-cut", harm: on("archive/*.warc.gz.open", largest, cut(0.7)), killed: true},
	{name: "killed-log-cut", harm: on("db/*.log", largest, cut(0.6)), killed: true, any: true},
}

// on does harm to the files of a pattern that pick chooses.
func on(pattern string, pick func([]string) []string, harm func(path string) error) func(dir string) error {
	return func(dir string) error {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		if len(paths) == 0 {
			return fmt.Errorf("no %s", pattern)
		}
		for _, path := range pick(paths) {
			if err := harm(path); err != nil {
				return err
			}
		}
		return nil
	}
}

func both(harms ...func(dir string) error) func(dir string) error {
	return func(dir string) error {
		for _, harm := range harms {
			if err := harm(dir); err != nil {
				return err
			}
		}
		return nil
	}
}

func all(paths []string) []string { return paths }

func last(paths []string) []string { return []string{slices.Max(paths)} }

func largest(paths []string) []string {
	size := func(path string) int64 {
		info, err := os.Stat(path)
		if err != nil {
			return 0
		}
		return info.Size()
	}
	return []string{slices.MaxFunc(paths, func(a, b string) int { return int(size(a) - size(b)) })}
}

func remove(path string) error { return os.RemoveAll(path) }

// cut shortens a file to a share of it.
func cut(share float64) func(path string) error {
	return func(path string) error {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		return os.Truncate(path, int64(float64(info.Size())*share))
	}
}

// overwrite changes n bytes of a file from a share of it on, at its end at most.
func overwrite(share float64, n int) func(path string) error {
	return func(path string) error {
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		at := max(0, min(int(float64(len(raw))*share), len(raw)-n))
		for i := at; i < min(at+n, len(raw)); i++ {
			raw[i] ^= 0x41
		}
		return os.WriteFile(path, raw, 0o600)
	}
}

// byDesign are files of which nothing depends on what they hold.
var byDesign = []string{"LOCK", "addrs", "OPTIONS-", "marker.format-version", "MANIFEST-"}

// randomTrials spoil any file at any place, except the database's log, whose end may be lost
// undetected.
func randomTrials(o *options) (list []trial) {
	for i := range o.seeds {
		seed := o.seed + uint64(i)
		list = append(list, trial{name: fmt.Sprintf("random-%d", seed), quick: true, any: true, harm: func(dir string) error { return randomHarm(dir, seed) }})
	}
	return list
}

func randomHarm(dir string, seed uint64) error {
	random := rand.New(rand.NewPCG(seed, 1))
	var paths []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !strings.HasSuffix(path, ".log") && !slices.ContainsFunc(byDesign, func(name string) bool { return strings.HasPrefix(d.Name(), name) }) {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil || len(paths) == 0 {
		return errors.Join(err, fmt.Errorf("%d files", len(paths)))
	}
	path := paths[random.IntN(len(paths))]
	switch random.IntN(4) {
	case 0:
		return remove(path)
	case 1:
		return cut(random.Float64())(path)
	default:
		return overwrite(random.Float64(), 1+random.IntN(3000))(path)
	}
}
