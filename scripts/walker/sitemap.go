package main

import (
	"context"
	"encoding/xml"
	"net/url"
	"strings"
)

// maxSitemaps bounds the sitemaps that one robots.txt leads to, indexes included.
const maxSitemaps = 1000

// walkSitemaps admits what the sitemaps named in a robots.txt list, one level below the seeds.
func (w *walk) walkSitemaps(ctx context.Context, queue []string) {
	for i := 0; i < len(queue) && i < maxSitemaps; i++ {
		_, body, err := w.get(ctx, queue[i])
		if err != nil {
			continue
		}
		var doc struct {
			Sitemaps []string `xml:"sitemap>loc"`
			Pages    []string `xml:"url>loc"`
		}
		if xml.Unmarshal(body, &doc) != nil {
			continue
		}
		queue = append(queue, doc.Sitemaps...)
		for _, page := range doc.Pages {
			if u, err := url.Parse(strings.TrimSpace(page)); err == nil {
				w.admit(u, 1)
			}
		}
	}
}
