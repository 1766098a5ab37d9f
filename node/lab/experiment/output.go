package experiment

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// runInfo is run.json.
type runInfo struct {
	Experiment string         `json:"experiment"`
	Seed       uint64         `json:"seed"`
	Version    string         `json:"version"`
	Go         string         `json:"go"`
	Inputs     map[string]any `json:"inputs"`
	Begun      time.Time      `json:"begun"`
	Seconds    float64        `json:"seconds"`
	Files      []string       `json:"files"`
}

// file is one to be written.
type file struct {
	name string
	data []byte
}

// files renders a report, run.json not included.
func files(r *Report) ([]file, error) {
	var out []file
	add := func(name string, data []byte, err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, file{name, data})
		return nil
	}
	data, err := r.Table.JSON()
	if err := add("table.json", data, err); err != nil {
		return nil, err
	}
	data, err = r.Table.CSV()
	if err := add("table.csv", data, err); err != nil {
		return nil, err
	}
	for i := range r.Series {
		data, err := r.Series[i].CSV()
		if err := add(r.Series[i].Name+".csv", data, err); err != nil {
			return nil, err
		}
	}
	for i := range r.Plots {
		data, err := r.Plots[i].SVG()
		if err := add(r.Plots[i].Name+".svg", data, err); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// write puts a report into a directory; run.json comes last, so where it is the rest is there as well.
func write(dir string, r *Report, run *runInfo) error {
	all, err := files(r)
	if err != nil {
		return err
	}
	run.Go = runtime.Version()
	for _, f := range all {
		run.Files = append(run.Files, f.name)
	}
	data, err := json.MarshalIndent(run, "", "  ")
	if err != nil {
		return fmt.Errorf("run.json: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // for everybody to look at
		return err
	}
	// The marker of an earlier run must not vouch for a mixture of two.
	if err := os.Remove(filepath.Join(dir, "run.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, f := range append(all, file{"run.json", append(data, '\n')}) {
		if err := replace(filepath.Join(dir, f.name), f.data); err != nil {
			return err
		}
	}
	return nil
}

// replace writes a file so that it is at no time half there.
func replace(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if _, err = f.Write(data); err == nil {
		err = f.Chmod(0o644)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
