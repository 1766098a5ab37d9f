package text

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// article makes a page of 48 kB like those of a news site: navigation, scripts, an article of 50
// paragraphs with links and inline styles, and a list of other articles.
func article() string {
	rnd := rand.New(rand.NewPCG(1, 2))
	vocabulary := strings.Fields("the council has decided that a new bridge will be built across the river next year because old one is no longer safe for heavy " +
		"vehicles engineers found cracks in three of its pillars and said repairs would cost more than replacing them residents who live near by worry about noise")
	sentence := func(b *strings.Builder, n int) {
		for range n {
			b.WriteString(vocabulary[rnd.IntN(len(vocabulary))] + " ")
		}
	}
	var b strings.Builder
	b.WriteString(`<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>A new bridge &mdash; The Example</title>
<link rel="stylesheet" href="/main.css"><style>body { margin: 0; } .nav li { display: inline; }</style>
<script>window.settings = {"user": null, "ads": ["top", "side"], "version": 12};` + strings.Repeat("function f(a) { return a < 2; } ", 60) + `</script></head>
<body class="page"><header><nav class="nav"><ul>`)
	for i := range 40 {
		fmt.Fprintf(&b, "<li class=\"item\"><a class=\"link\" href=\"/section/%d?from=nav\">Section %d</a></li>\n", i, i)
	}
	b.WriteString("</ul></nav></header><main><article class=\"story\"><h1>A new bridge</h1>\n")
	for i := range 50 {
		b.WriteString("<p class=\"text\">")
		for range 5 {
			sentence(&b, 9)
			fmt.Fprintf(&b, `<a href="/topic/%d" title="topic">`, i)
			sentence(&b, 2)
			b.WriteString("</a> <b>")
			sentence(&b, 1)
			b.WriteString("</b>, it&rsquo;s said. ")
		}
		b.WriteString("</p>\n")
	}
	b.WriteString("</article></main><aside><ul>\n")
	for i := range 60 {
		fmt.Fprintf(&b, "<li><div class=\"teaser\"><a href=\"/story/%d\"><img src=\"/thumb/%d.jpg\" alt=\"\" width=\"120\" height=\"80\"><span>Story %d</span></a></div></li>\n", i, i, i)
	}
	b.WriteString("</ul></aside><footer><p>&copy; The Example</p></footer></body></html>\n")
	return b.String()
}

// pages are that article, or the HTML files in the directory APOIDEA_PAGES.
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
