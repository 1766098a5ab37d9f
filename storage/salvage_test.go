package storage

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/apoidea/apoidea/storage/kv"
)

// filled makes a database with n keys of several versions, some deleted, in tables and in a log,
// and returns what it holds.
func filled(t *testing.T, dir string, n int) map[string]string {
	t.Helper()
	want := make(map[string]string)
	for round := range 3 {
		s, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		random := rand.New(rand.NewPCG(1, uint64(round)))
		for range n / 50 {
			wait, err := s.Keyspace('k').Update(func(b kv.Batch) {
				for range 50 {
					key := fmt.Sprintf("key\x00%05d", random.IntN(n))
					if random.IntN(10) == 0 {
						b.Delete([]byte(key))
						delete(want, "k"+key)
						continue
					}
					value := fmt.Sprintf("%d %s", round, strings.Repeat(key, random.IntN(20)))
					b.Set([]byte(key), []byte(value))
					want["k"+key] = value
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := wait(); err != nil {
				t.Fatal(err)
			}
		}
		if round == 1 {
			wait, err := s.Keyspace('k').Update(func(b kv.Batch) {
				b.DeleteRange([]byte("key\x0000100"), []byte("key\x0000200"))
			})
			if err != nil || wait() != nil {
				t.Fatal(err)
			}
			for i := 100; i < 200; i++ {
				delete(want, fmt.Sprintf("kkey\x00%05d", i))
			}
		}
		if round < 2 { // the last one stays in its log
			if err := s.db.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return want
}

func checked(t *testing.T, dir string, data bool) (faults, notes []Fault) {
	t.Helper()
	lock, err := Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	c, err := Check(dir, lock, data, func(f Fault) {
		if f.Note {
			notes = append(notes, f)
		} else {
			faults = append(faults, f)
		}
	})
	if err != nil || c.Faults != len(faults) {
		t.Fatal(c, err)
	}
	return faults, notes
}

// salvaged is what Salvage finds.
func salvaged(t *testing.T, dir string) (got map[string]string, faults []Fault) {
	t.Helper()
	s, err := Salvage(dir, t.TempDir()+"/scratch", func(f Fault) { faults = append(faults, f) })
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	got = make(map[string]string)
	last := ""
	if err := s.Scan(nil, nil, func(key, value []byte) bool {
		if string(key) <= last {
			t.Errorf("%q comes behind %q", key, last)
		}
		last = string(key)
		got[last] = string(value)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	for key, value := range got {
		if v, ok, err := s.Get([]byte(key)); err != nil || !ok || string(v) != value {
			t.Fatalf("get %q: %v, %v", key, ok, err)
		}
		break
	}
	return got, faults
}

// copied copies a database.
func copied(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "db")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

func files(t *testing.T, dir, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("no %s in %s: %v", pattern, dir, err)
	}
	return names
}

// TestSalvageSound: of a sound database everything is found, and Check finds nothing.
func TestSalvageSound(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	want := filled(t, dir, 2000)
	if faults, notes := checked(t, dir, true); len(faults)+len(notes) > 0 {
		t.Errorf("faults %v, notes %v", faults, notes)
	}
	got, faults := salvaged(t, dir)
	if len(faults) > 0 {
		t.Errorf("faults %v", faults)
	}
	compare(t, "sound", want, got, 0)
}

// compare allows so many keys to be lost or to be of an older version.
func compare(t *testing.T, what string, want, got map[string]string, lost int) {
	t.Helper()
	n := 0
	for key, value := range want {
		if got[key] != value {
			n++
		}
	}
	for key := range got {
		if !strings.HasPrefix(key, "kkey\x00") && key != string(KeyspaceFormat)+"format" {
			t.Errorf("%s: %q was never written", what, key)
		}
	}
	t.Logf("%s: %d of %d keys are lost or old", what, n, len(want))
	if n > lost {
		t.Errorf("%s: %d of %d keys are lost or old, want %d at most", what, n, len(want), lost)
	}
}

// TestSalvageDamaged: damage to any file is found, costs what was in the damaged bytes, and that is
// told.
func TestSalvageDamaged(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	want := filled(t, dir, 4000)
	overwrite := func(pattern string, at func(size int) int, n int) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			for _, name := range files(t, dir, pattern) {
				raw, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				from := at(len(raw))
				copy(raw[from:], bytes.Repeat([]byte{0x5a}, min(n, len(raw)-from)))
				if err := os.WriteFile(name, raw, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	middle, end := func(size int) int { return size / 2 }, func(size int) int { return max(0, size-300) }
	remove := func(pattern string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			for _, name := range files(t, dir, pattern) {
				if err := os.Remove(name); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	all := len(want)
	for _, c := range []struct {
		name  string
		harm  func(t *testing.T, dir string)
		lost  int
		quiet bool // nothing is lost that salvage could tell of
	}{
		{"a block of a table", overwrite("*.sst", middle, 50), all / 5, false},
		{"the index of a table", overwrite("*.sst", end, 250), all / 5, false},
		{"the foot of a table", overwrite("*.sst", func(size int) int { return size - 40 }, 40), all / 5, false},
		{"the tables", remove("*.sst"), all, true},
		{"the middle of a log", overwrite("*.log", middle, 40), all / 5, false},
		{"the manifest", overwrite("MANIFEST-*", func(int) int { return 0 }, 4000), 0, true},
		{"the manifest is gone", remove("MANIFEST-*"), 0, true},
		{"the markers are gone", remove("marker.*"), 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := copied(t, dir)
			c.harm(t, dir)
			if faults, _ := checked(t, dir, true); len(faults) == 0 {
				t.Error("check finds nothing")
			}
			if s, err := Open(copied(t, dir), Options{ReadOnly: true}); err == nil {
				_ = s.Close() // it is met when the block is read
			} else if !errors.Is(err, ErrDamaged) || strings.Contains(err.Error(), "carrier") {
				t.Errorf("open: %v", err)
			}
			got, faults := salvaged(t, dir)
			compare(t, c.name, want, got, c.lost)
			if len(faults) == 0 && !c.quiet {
				t.Error("salvage tells nothing")
			}
			if len(got) == 0 && c.lost < all {
				t.Error("salvage finds nothing")
			}
			for _, f := range faults {
				if strings.Contains(f.String(), "carrier") || strings.Contains(f.String(), "‹") {
					t.Errorf("a mark of the library: %s", f)
				}
			}
		})
	}
}

// TestSalvageLogAnywhere: wherever a log is overwritten, all batches behind are found.
func TestSalvageLogAnywhere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	const n = 300
	for i := range n {
		wait, err := s.Keyspace('k').Update(func(b kv.Batch) {
			b.Set(fmt.Appendf(nil, "%03d", i), bytes.Repeat([]byte{byte(i)}, 700))
		})
		if err != nil || wait() != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var log string
	size := int64(0)
	for _, name := range files(t, dir, "*.log") {
		if info, err := os.Stat(name); err == nil && info.Size() > size {
			log, size = name, info.Size()
		}
	}
	raw, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for step := range 40 {
		at := len(raw) * step / 40
		bad := bytes.Clone(raw)
		copy(bad[at:], bytes.Repeat([]byte{0xee}, 100))
		if err := os.WriteFile(log, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		got, faults := salvaged(t, dir)
		if len(got) < n-4 || len(got) < n && len(faults) == 0 {
			t.Errorf("at %d of %d: %d keys, faults %v", at, len(raw), len(got), faults)
		}
		if sound, notes := checked(t, dir, false); len(sound)+len(notes) == 0 {
			t.Errorf("at %d of %d: check finds nothing", at, len(raw))
		}
	}
}

// TestSalvageLatest: of a key's versions the highest sequence number counts, in whatever order they
// are found and written out; of those with the same number, as in tables that replaced others, the
// one of the later file.
func TestSalvageLatest(t *testing.T) {
	for _, flush := range []bool{false, true} {
		s, err := Salvage(t.TempDir(), t.TempDir()+"/scratch", func(f Fault) { t.Error(f) })
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range []entry{
			{[]byte("a"), []byte("first"), 0, pebble.InternalKeyKindSet},
			{[]byte("a"), []byte("second"), 0, pebble.InternalKeyKindSet},
			{[]byte("b"), []byte("late"), 300, pebble.InternalKeyKindSet},
			{[]byte("b"), nil, 2, pebble.InternalKeyKindDelete},
			{[]byte("c"), []byte("gone"), 0, pebble.InternalKeyKindSet},
			{[]byte("c"), nil, 0, pebble.InternalKeyKindDelete},
			{[]byte("a\x00"), []byte("other"), 7, pebble.InternalKeyKindSet},
			{nil, []byte("nobody's"), 1, pebble.InternalKeyKindSet},
		} {
			if err := errors.Join(s.put(&e), s.apply(0)); err != nil {
				t.Fatal(err)
			}
			if flush && i%2 == 0 {
				if err := s.db.Flush(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if flush {
			if err := s.db.Compact(t.Context(), []byte{0}, []byte("z"), false); err != nil {
				t.Fatal(err)
			}
		}
		got := ""
		if err := s.Scan(nil, nil, func(key, value []byte) bool {
			got += fmt.Sprintf("%q=%s ", key, value)
			return true
		}); err != nil || got != `"a"=second "a\x00"=other "b"=late ` {
			t.Errorf("written out %v: %s, %v", flush, got, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOrphans: records of which nothing names the MANIFEST are not taken for a new database, which
// would remove them.
func TestOrphans(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	filled(t, dir, 500)
	for _, name := range files(t, dir, "marker.manifest.*") {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(dir, Options{}); !errors.Is(err, ErrDamaged) {
		t.Errorf("opened: %v", err)
	}
	files(t, dir, "*.sst")
}

// TestDamageWhileReading: who meets damage hears that it is damage, in plain words, and the store
// ends.
func TestDamageWhileReading(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	filled(t, dir, 4000)
	for _, name := range files(t, dir, "*.sst") {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		copy(raw[len(raw)/3:], bytes.Repeat([]byte{0x5a}, 200))
		if err := os.WriteFile(name, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(dir, Options{})
	if err == nil {
		err = s.Keyspace('k').Scan(nil, nil, func(_, _ []byte) bool { return true })
		if err != nil {
			<-s.Failed()
			if !errors.Is(s.Err(), ErrDamaged) || strings.Contains(s.Err().Error(), "carrier") {
				t.Errorf("the store says %v", s.Err())
			}
		}
	}
	if !errors.Is(err, ErrDamaged) || strings.Contains(err.Error(), "carrier") {
		t.Errorf("reading: %v", err)
	}
}
