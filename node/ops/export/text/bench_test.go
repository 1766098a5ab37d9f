//go:build unix

package text

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pages are those of article, or the HTML files in the directory APOIDEA_PAGES.
func pages(b *testing.B) (list [][]byte) {
	dir := os.Getenv("APOIDEA_PAGES")
	if dir == "" {
		return [][]byte{[]byte(article())}
	}
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".html") && d.Type().IsRegular() && len(list) < 1000 {
			var page []byte
			if page, err = os.ReadFile(path); err == nil {
				list = append(list, page)
			}
		}
		return err
	}); err != nil || len(list) == 0 {
		b.Fatalf("%s: %d pages, %v", dir, len(list), err)
	}
	return list
}

// cpuTime is that of the process.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkPage(b *testing.B) {
	for _, wantMain := range []bool{false, true} {
		b.Run(map[bool]string{false: "plain", true: "main"}[wantMain], func(b *testing.B) {
			list := pages(b)
			var x Extractor
			bytes, text, mainText, failed := 0, 0, 0, 0
			b.ReportAllocs()
			before := cpuTime()
			for i := 0; b.Loop(); i++ {
				body := list[i%len(list)]
				page, err := x.Page("text/html; charset=utf-8", body, wantMain)
				if page == nil {
					b.Fatal(err)
				}
				if err != nil {
					failed++
				}
				bytes, text, mainText = bytes+len(body), text+len(page.Text), mainText+len(page.Main)
			}
			n := float64(b.N)
			b.ReportMetric(float64(bytes)/n, "bytes/page")
			b.ReportMetric(float64(text)/n, "text/page")
			b.ReportMetric(float64(mainText)/n, "main/page")
			b.ReportMetric(n/(cpuTime()-before).Seconds(), "pages/cpu-s")
			b.ReportMetric(float64(failed), "failed")
		})
	}
}

func BenchmarkDetect(b *testing.B) {
	text := strings.Repeat("the council has decided that a new bridge will be built across the river next year. ", 40)
	b.Run("Detect", func(b *testing.B) {
		for b.Loop() {
			Detect(text)
		}
	})
	b.Run("SimHash", func(b *testing.B) {
		for b.Loop() {
			SimHash(text)
		}
	})
}
