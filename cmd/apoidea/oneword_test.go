//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apoidea/apoidea/node/control"
)

// answered is the state of the ring that a command or the dashboard returned within a time.
type answered struct {
	what       string
	begun, end time.Time
	word       string // closed, open, or empty where it says nothing of the ring
}

var stateText = regexp.MustCompile(`members?[,;] (?:the ring is )?(consistent|converging)`)

var walkedText = regexp.MustCompile(`data-state="(\w+)">(\d+) members?, [^<]+</b>; checked at <time datetime="([^"]+)"`)

// wordOf asks one peer in one way.
func wordOf(t *testing.T, dir, page, how string) answered {
	t.Helper()
	a := answered{what: how + " of " + filepath.Base(dir), begun: time.Now()}
	out, code := "", 0
	if how == "page" {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, page, nil)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
			return a
		}
		defer res.Body.Close()
		raw, _ := io.ReadAll(res.Body)
		out = string(raw)
	} else {
		out, code, _ = execute(t, append(strings.Fields(how), "--data-dir", dir)...)
	}
	a.end = time.Now()
	var r control.Ring
	var s control.Status
	switch {
	case code != 0:
		t.Errorf("%s: exit code %d: %s", a.what, code, out)
	case how == "page":
		if m := walkedText.FindStringSubmatch(out); m != nil {
			a.word = m[1]
			a.begun, _ = time.Parse(time.RFC3339, m[3]) // what it says is of that moment
		}
	case how == "ring --json":
		if json.Unmarshal([]byte(out), &r) == nil {
			a.word = r.State()
		}
	case strings.HasSuffix(how, "--json"):
		if json.Unmarshal([]byte(out), &s) == nil {
			a.word = s.Ring.State
		}
		if s.Ring.State != "" && s.Ring.Stable != (s.Ring.State == control.RingClosed) || (s.Ring.State == "") == (s.Ring.Neighbours == "") {
			t.Errorf("%s contradicts itself: %+v", a.what, s.Ring)
		}
	default:
		if m := stateText.FindStringSubmatch(out); m != nil {
			a.word = map[string]string{"consistent": control.RingClosed, "converging": control.RingOpen}[m[1]]
		}
		if strings.Contains(strings.ReplaceAll(out, "neighbors stable", ""), "stable") || a.word == "" && regexp.MustCompile(`consistent|converging`).MatchString(out) {
			t.Errorf("%s has another word:\n%s", a.what, out)
		}
	}
	if walks := strings.HasPrefix(how, "ring") || strings.Contains(how, "--ring"); how != "page" && walks != (a.word != "") {
		t.Errorf("%s says %q of the ring: %s", a.what, a.word, out)
	}
	return a
}

// TestOneWordForTheRing: when one of four peers is killed (SIGKILL), nothing that speaks of the
// ring contradicts another at the same moment, until the ring is whole again.
//
// Slow: four processes form a ring and detect a death that nothing announces.
func TestOneWordForTheRing(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	dirs, pages := make([]string, 4), make([]string, 4)
	var last *process
	bootstrap := []string{}
	for i := range dirs {
		dirs[i] = filepath.Join(top, fmt.Sprintf("peer%d", i))
		last = start(t, ", ring of ", append([]string{"run", "--data-dir", dirs[i], "--log-level", "info", "--network", "oneword"}, bootstrap...)...)
		var s control.Status
		out, _ := say(t, "status", "--json", "--data-dir", dirs[i])
		if json.Unmarshal([]byte(out), &s) != nil {
			t.Fatal(out)
		}
		pages[i] = s.Dashboard
		if i == 0 {
			out, _ := say(t, "peers", "--addrs", "--data-dir", dirs[0], "--quiet")
			bootstrap = []string{"--bootstrap", strings.TrimSpace(out)}
		}
	}
	hows := []string{"ring", "ring --json", "status", "status --json", "status --ring", "status --ring --json", "page"}
	// moment asks three peers in all ways at once.
	moment := func() (all []answered) {
		var mu sync.Mutex
		var asked sync.WaitGroup
		for i, dir := range dirs[:3] {
			for _, how := range hows {
				asked.Go(func() {
					a := wordOf(t, dir, pages[i], how)
					mu.Lock()
					defer mu.Unlock()
					all = append(all, a)
				})
			}
		}
		asked.Wait()
		return all
	}
	whole := func(all []answered) bool {
		n := 0
		for _, a := range all {
			if a.word == control.RingOpen {
				return false
			}
			if a.word != "" {
				n++
			}
		}
		return n == 5*3
	}
	for end := time.Now().Add(time.Minute); !whole(moment()); {
		if time.Now().After(end) {
			t.Fatal("the ring does not close")
		}
	}
	last.kill()
	killed := time.Now()
	var said []answered
	opened := 0
	for {
		now := moment()
		said = append(said, now...)
		if whole(now) {
			break
		}
		if time.Since(killed) > time.Minute {
			t.Fatal("the ring does not close again")
		}
	}
	for _, a := range said {
		if a.begun.Before(killed) { // the page says when it walked
			continue
		}
		if a.word == control.RingOpen {
			opened++
		}
		for _, b := range said { // the ring opens at the death and closes once: whatever began after somebody had seen it closed sees it so
			if a.word == control.RingClosed && b.word == control.RingOpen && a.end.Before(b.begun) {
				t.Errorf("%s said closed %v after the death, and %s open after it, at %v", a.what, a.end.Sub(killed), b.what, b.begun.Sub(killed))
			}
		}
	}
	if opened == 0 {
		t.Error("nobody noticed")
	}
	t.Logf("%d answers, %d of them open, whole again %v after the death", len(said), opened, time.Since(killed))
}
