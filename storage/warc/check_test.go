package warc

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// checked returns what Check reports of a directory, and the number of exchanges.
func checked(t *testing.T, dir string) (problems []Problem, exchanges int) {
	t.Helper()
	c := Checker{
		Dir:    dir,
		Report: func(p Problem) { problems = append(problems, p) },
		Each:   func(string, time.Time) error { exchanges++; return nil },
	}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	return problems, exchanges
}

// TestRepair: damage of any kind is found, and repaired so that nothing is found afterwards; what
// was not touched is still there, and what was lies aside.
func TestRepair(t *testing.T) {
	for _, c := range []Compression{Gzip, None} {
		path, raw := pages(t, c, 12, nothing)
		index := IndexName(path)
		lines, err := os.ReadFile(index)
		if err != nil {
			t.Fatal(err)
		}
		if problems, n := checked(t, filepath.Dir(path)); len(problems) > 0 || n != 12 {
			t.Fatalf("%s: sound, and %v; %d exchanges", c, problems, n)
		}
		spoilt := bytes.Clone(raw)
		copy(spoilt[len(raw)/2:], bytes.Repeat([]byte{0x33}, 100))
		for _, h := range []struct {
			name        string
			warc, index []byte
			least       int // exchanges that must be left
		}{
			{"middle", spoilt, lines, 10},
			{"cut", raw[:len(raw)-7], lines, 11},
			{"more", append(bytes.Clone(raw), "some bytes that follow"...), lines, 12},
			{"begins", append([]byte("XXXXXX"), raw[6:]...), lines, 12},
			{"index overwritten", raw, append(append(bytes.Clone(lines[:len(lines)/2]), "xxxxxxxxxx"...), lines[len(lines)/2+10:]...), 12},
			{"index cut", raw, lines[:len(lines)/2], 12},
			{"index gone", raw, nil, 12},
			{"index of another place", raw, bytes.Replace(lines, []byte(`"offset": "`), []byte(`"offset": "1`), 1), 12},
			{"both", spoilt, lines[:len(lines)/2], 10},
		} {
			dir := t.TempDir()
			name := filepath.Base(path)
			write(t, filepath.Join(dir, name), h.warc)
			if h.index != nil {
				write(t, filepath.Join(dir, filepath.Base(index)), h.index)
			}
			if problems, _ := checked(t, dir); len(problems) == 0 {
				t.Errorf("%s, %s: nothing is found", c, h.name)
			}
			aside := filepath.Join(t.TempDir(), "aside")
			if changed, err := Repair(dir, name, aside); err != nil || !changed {
				t.Fatalf("%s, %s: %v, %v", c, h.name, changed, err)
			}
			problems, n := checked(t, dir)
			if len(problems) > 0 || n < h.least {
				t.Errorf("%s, %s: repaired, and %v; %d exchanges", c, h.name, problems, n)
			}
			if !bytes.Equal(h.warc, raw) {
				if old, err := os.ReadFile(filepath.Join(aside, name)); err != nil || !bytes.Equal(old, h.warc) {
					t.Errorf("%s, %s: the file as it was is not aside: %v", c, h.name, err)
				}
			}
			if changed, err := Repair(dir, name, aside); err != nil || changed {
				t.Errorf("%s, %s: repaired twice: %v, %v", c, h.name, changed, err)
			}
		}
	}
}

func write(t *testing.T, path string, raw []byte) {
	t.Helper()
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestOpenFileDamaged: a file that a crash left open is cut at its end, and not in its middle:
// there records would be lost without a word. Repair finishes it.
func TestOpenFileDamaged(t *testing.T) {
	for _, c := range []Compression{Gzip, Zstd} {
		t.Run(string(c), func(t *testing.T) { testOpenFileDamaged(t, c) })
	}
}

func testOpenFileDamaged(t *testing.T, c Compression) {
	t.Helper()
	path, raw := pages(t, c, 12, nothing)
	dir := filepath.Dir(path)
	copy(raw[len(raw)/2:], bytes.Repeat([]byte{0x33}, 100))
	write(t, path+openSuffix, raw)
	if err := errors.Join(os.Remove(path), os.Remove(IndexName(path))); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Config{}); !errors.Is(err, ErrDamaged) {
		t.Fatalf("opened: %v", err)
	}
	if _, err := Repair(dir, filepath.Base(path)+openSuffix, filepath.Join(t.TempDir(), "aside")); err != nil {
		t.Fatal(err)
	}
	problems, n := checked(t, dir)
	if len(problems) > 0 || n < 10 {
		t.Errorf("%v, %d exchanges", problems, n)
	}
	w, err := Open(dir, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRenamedFile: of a file with another name all exchanges are found, and the index that has its
// former name is reported.
func TestRenamedFile(t *testing.T) {
	path, _ := pages(t, Gzip, 3, nothing)
	if err := os.Rename(path, filepath.Join(filepath.Dir(path), "other.warc.gz")); err != nil {
		t.Fatal(err)
	}
	problems, n := checked(t, filepath.Dir(path))
	if len(problems) != 2 || !problems[0].Index || !strings.Contains(problems[1].Text, "missing") || len(problems[1].Lines) != 3 || n != 3 {
		t.Errorf("%+v, %d exchanges", problems, n)
	}
}

// TestIndexWithoutFile: an index whose file is gone names what is lost.
func TestIndexWithoutFile(t *testing.T) {
	path, _ := pages(t, Gzip, 3, nothing)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	problems, _ := checked(t, filepath.Dir(path))
	if len(problems) != 1 || !slices.ContainsFunc(problems[0].Lines, func(l IndexLine) bool { return l.URL == "http://a.example/1" }) {
		t.Errorf("%v", problems)
	}
}

// TestIndexOfEarlierVersion: other keys are a note, and repair renews the index.
func TestIndexOfEarlierVersion(t *testing.T) {
	path, _ := pages(t, Gzip, 3, nothing)
	index := filepath.Join(filepath.Dir(path), filepath.Base(IndexName(path)))
	lines, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	write(t, index, bytes.ReplaceAll(lines, []byte(")/"), []byte(")/x")))
	if problems, _ := checked(t, filepath.Dir(path)); len(problems) != 1 || !problems[0].Note || !problems[0].Index {
		t.Errorf("%+v", problems)
	}
	if changed, err := Repair(filepath.Dir(path), filepath.Base(path), t.TempDir()); err != nil || !changed {
		t.Errorf("%v, %v", changed, err)
	}
	if problems, _ := checked(t, filepath.Dir(path)); len(problems) > 0 {
		t.Errorf("%+v", problems)
	}
}
