package limits

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestWatch: only a peer that has work at every look, and in which nothing moves for a minute of
// them, is stalled.
func TestWatch(t *testing.T) {
	const every = 5 * time.Second
	still := func(work string) func(int) observation { return func(int) observation { return observation{7, work} } }
	for _, tt := range []struct {
		name  string
		every time.Duration
		look  func(i int) observation
		begun int // the look at which it begins, 0 for never
		over  int
	}{
		{"nothing moves", every, still("fetchers"), 12, 0},
		{"no work", every, still(""), 0, 0},
		{"moves at every look", every, func(i int) observation { return observation{int64(i), "fetchers"} }, 0, 0},
		{"moves now and then", every, func(i int) observation { return observation{int64(i / 11), "fetchers"} }, 0, 0},
		{"moves too seldom", every, func(i int) observation { return observation{int64(i / 30), "fetchers"} }, 12, 30},
		{"work comes late", every, func(i int) observation {
			if i < 20 {
				return observation{7, ""}
			}
			return observation{7, "fetchers"}
		}, 31, 0},
		{"paused in between", every, func(i int) observation {
			if i%10 == 0 {
				return observation{7, ""}
			}
			return observation{7, "fetchers"}
		}, 0, 0},
		{"another work each time", every, func(i int) observation { return observation{7, strings.Repeat("x", i+1)} }, 12, 0},
		{"the process is stopped between looks", time.Hour, still("fetchers"), 0, 0},
		{"work goes away", every, func(i int) observation {
			if i >= 25 {
				return observation{7, ""}
			}
			return observation{7, "fetchers"}
		}, 12, 25},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var w watchdog
			now, begun, over := time.Unix(1e9, 0), 0, 0
			for i := range 50 {
				switch w.observe(now, tt.look(i)) {
				case stallBegan:
					if begun != 0 && over == 0 {
						t.Fatal("it begins twice")
					}
					if begun == 0 {
						begun = i
					}
				case stallEnded:
					over = i
				case noChange:
				}
				now = now.Add(tt.every)
			}
			if begun != tt.begun || over != tt.over {
				t.Errorf("begins at look %d and is over at %d, want %d and %d", begun, over, tt.begun, tt.over)
			}
		})
	}
}

// TestStacks: they say what every goroutine does, and only the last few are kept.
func TestStacks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "stalls")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	blocked := make(chan struct{})
	defer close(blocked)
	begun := make(chan struct{})
	go waitForNobody(begun, blocked)
	<-begun // before, its stack does not name it
	now, last := time.Unix(1e9, 0), ""
	for range 3 * maxFiles {
		path, err := writeStacks(dir, now, "fetchers wait")
		if err != nil {
			t.Fatal(err)
		}
		last, now = path, now.Add(time.Second)
	}
	files, err := filepath.Glob(filepath.Join(dir, prefix+"*"))
	if err != nil || len(files) != maxFiles || files[len(files)-1] != last {
		t.Errorf("kept %v, %v", files, err)
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(last)
	if err != nil || !strings.Contains(string(text), "fetchers wait") || !strings.Contains(string(text), "waitForNobody") {
		t.Errorf("%v, %.300s", err, text)
	}
	if _, err := writeStacks(filepath.Join(other, "below"), now, ""); err == nil {
		t.Error("written below a file")
	}
}

func waitForNobody(begun, c chan struct{}) {
	close(begun)
	<-c
}
