package webgen

import "strconv"

// A host's sitemap is an index of parts; together they list every fifth page and all orphans.
const sitemapPages = 5000 // page numbers of one part, which lists about a fifth of them

func (w *Web) sitemapParts(host int) int {
	return (w.pages(host) + sitemapPages - 1) / sitemapPages
}

// inSitemap reports whether page n is in a host's sitemap, if it has one.
func inSitemap(n int) bool { return n%5 == 0 || orphan(n) }

func (w *Web) appendSitemapIndex(dst []byte, host int, port string) []byte {
	dst = append(dst, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<sitemapindex xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n"...)
	for part := range w.sitemapParts(host) {
		dst = append(dst, "<sitemap><loc>"...)
		dst = w.appendOrigin(dst, host, port)
		dst = appendSitemapPath(dst, part)
		dst = append(dst, "</loc></sitemap>\n"...)
	}
	return append(dst, "</sitemapindex>\n"...)
}

func appendSitemapPath(dst []byte, part int) []byte {
	dst = append(dst, "/sitemap-"...)
	dst = strconv.AppendInt(dst, int64(part), 10)
	return append(dst, ".xml"...)
}

func (w *Web) appendSitemap(dst []byte, host, part int, port string) []byte {
	dst = append(dst, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n"...)
	for n := part * sitemapPages; n < min((part+1)*sitemapPages, w.pages(host)); n++ {
		if inSitemap(n) {
			dst = append(dst, "<url><loc>"...)
			dst = w.appendURL(dst, place{host, n}, port)
			dst = append(dst, "</loc></url>\n"...)
		}
	}
	return append(dst, "</urlset>\n"...)
}
