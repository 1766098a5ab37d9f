package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/cpuid/v2"
	"github.com/pbnjay/memory"
)

// Run is the content of run.json: how a report was made.
type Run struct {
	Experiment string         `json:"experiment"`  // its name
	Seed       uint64         `json:"seed"`        // of all that was drawn
	Version    string         `json:"version"`     // of this program
	Commit     string         `json:"commit"`      // it was built from, or "unknown"
	Command    []string       `json:"command"`     // command line, without the path of the program
	Machine    map[string]any `json:"machine"`     // system, architecture, processor and its logical cores, physical memory (0 if unknown)
	Go         string         `json:"go"`          // of the language
	Inputs     map[string]any `json:"inputs"`      // as in the report
	Begun      time.Time      `json:"begun"`       // when it was made
	Seconds    float64        `json:"seconds"`     // that it took
	CPUSeconds float64        `json:"cpu_seconds"` // of all cores; 0 if unknown
	Files      []string       `json:"files"`       // beside run.json
}

// files returns the writer of each file except run.json.
func (r *Report) files() (names []string, render []func() ([]byte, error)) {
	names, render = []string{"table.json", "table.csv"}, []func() ([]byte, error){r.Table.JSON, r.Table.CSV}
	for i := range r.Series {
		names, render = append(names, r.Series[i].Name+".csv"), append(render, r.Series[i].CSV)
	}
	for i := range r.Plots {
		names, render = append(names, r.Plots[i].Name+".svg"), append(render, func() ([]byte, error) { return r.Plots[i].SVG(), nil })
	}
	return names, render
}

// Write writes a report to dir, which it creates if needed. run.json is written last, so its
// presence means that the report is complete.
func (r *Report) Write(dir string, run *Run) error {
	r.caption(run.Seed)
	names, render := r.files()
	var contents [][]byte
	for i, name := range names {
		data, err := render[i]()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		contents = append(contents, data)
	}
	run.Machine = map[string]any{"os": runtime.GOOS, "arch": runtime.GOARCH, "cpu": cpuid.CPU.BrandName, "cpus": runtime.NumCPU(), "memory_bytes": memory.TotalMemory()}
	run.Go, run.Inputs, run.Files = runtime.Version(), r.Inputs, names
	data, err := json.MarshalIndent(run, "", "  ")
	if err != nil {
		return fmt.Errorf("run.json: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { // for everybody to look at
		return err
	}
	// A run.json of an earlier run must not remain while files are replaced.
	if err := os.Remove(filepath.Join(dir, "run.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	contents = append(contents, append(data, '\n'))
	for i, name := range append(names, "run.json") {
		if err := replace(filepath.Join(dir, name), contents[i]); err != nil {
			return err
		}
	}
	return nil
}

// caption writes the simple inputs below each chart.
func (r *Report) caption(seed uint64) {
	parts := []string{fmt.Sprintf("seed %d", seed)}
	for _, name := range slices.Sorted(maps.Keys(r.Inputs)) {
		switch v := r.Inputs[name].(type) {
		case bool, int, float64, string:
			parts = append(parts, name+" "+filepath.Base(fmt.Sprint(v))) // a file without its directory
		}
	}
	for i := range r.Plots {
		r.Plots[i].Caption = strings.Join(parts, ", ")
	}
}

// replace writes a file atomically.
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
