package link

// Kind says what a URL was found as, and so how its answer is read. Part of the wire and the disk
// format.
type Kind uint8

const (
	// KindPage is a document whose links are extracted.
	KindPage Kind = iota
	// KindSitemap is a sitemap or sitemap index: its entries are links of depth as its own plus
	// one.
	KindSitemap
	// KindRequisite is an image, script, style sheet or the like: archived, and extracted for
	// further requisites if it is a style sheet.
	KindRequisite
	// KindRobots is a robots.txt asked for by the owner of another host's redirect chain.
	KindRobots
)

// String returns the kind as exports have it.
func (k Kind) String() string {
	names := [...]string{"page", "sitemap", "requisite", "robots"}
	if int(k) >= len(names) {
		return "unknown"
	}
	return names[k]
}
