package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/scripts/harness"
)

const (
	tenPages   = 40
	tenChanges = 10
	tenAfter   = 20 * time.Second // the pages change, after the start of the server
)

// ten changes ten pages of a site after its crawl and has all of it fetched again at once.
func (t *trial) ten(ctx context.Context) {
	const start, speed = 1_700_000_000, 3600
	names := webgen.New(webgen.Config{Seed: t.seed, Hosts: 1, PagesPerHost: tenPages + 1})
	text := []byte("page,host,unix_s\n")
	left := tenChanges
	for n := 1; n <= tenPages; n++ {
		text = fmt.Appendf(text, "%d,site,%d\n", n, start)
		if habit := names.Habit(0, n); left > 0 && (habit == "honest" || habit == "nonce") {
			text = fmt.Appendf(text, "%d,site,%d\n", n, int64(start+tenAfter.Seconds()*speed))
			left--
		}
	}
	file := filepath.Join(t.dir, "changes.csv")
	harness.Check(os.WriteFile(file, text, 0o600))
	t.start(ctx, 1)
	t.serve(ctx, file, speed, 0)
	begun := time.Now()
	seed := t.web.Seeds(t.port)[0]
	harness.Must(harness.Apoidea(ctx, "crawl", "--data-dir", t.peers[0].Dir, seed, "--wait"))
	harness.Check(harness.Sleep(ctx, time.Until(begun.Add(tenAfter+time.Second))))
	host := strings.Trim(strings.TrimPrefix(seed, "http://"), "/")
	harness.Must(harness.Apoidea(ctx, "refresh", "--data-dir", t.peers[0].Dir, host, "--now"))
	var pages []*page
	again := 0
	for until := time.Now().Add(time.Minute); again <= tenPages && time.Now().Before(until); {
		harness.Check(harness.Sleep(ctx, time.Second))
		again = 0
		for pages = t.read(); again < len(pages) && len(pages[again].visits) > 1; again++ {
		}
	}
	t.check(again == tenPages+1, "%d of %d pages visited again", again, tenPages+1)
	var want []string
	statuses := make(map[string]int)
	for _, p := range pages {
		for i := range p.visits[1:] {
			v := &p.visits[i+1]
			kind := ""
			if v.Conditional {
				kind = " to a condition"
			}
			statuses[fmt.Sprint(v.Status)+kind]++
			if v.Status == http.StatusOK && v.Version != v.held {
				want = append(want, p.url)
			}
		}
	}
	say("visits of refresh --now by status: %v", statuses)
	t.leave()
	var got []string
	for dec := json.NewDecoder(bytes.NewReader(export(ctx, "changes", "--data-dir", t.peers[0].Dir))); dec.More(); {
		var c change
		harness.Check(dec.Decode(&c))
		if c.Change == "text" {
			got = append(got, c.URL)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	t.check(slices.Equal(want, got) && len(got) == tenChanges, "export changes lists the changed pages: %d of %d", len(got), tenChanges)
}
