package link

// Kind is how a URL was found, which determines how its answer is parsed. Part of the wire and the
// disk format.
type Kind uint8

const (
	// KindPage is a document whose links are extracted.
	KindPage Kind = iota
	// KindSitemap is a sitemap or sitemap index: its entries are links of its own depth plus one.
	KindSitemap
	// KindRequisite is an image, script, style sheet or the like: archived, and extracted for
	// further requisites if it is a style sheet.
	KindRequisite
	// KindRobots is a robots.txt requested by the owner of another host's redirect chain.
	KindRobots
)

// String returns the name of the kind in exports.
func (k Kind) String() string {
	names := [...]string{"page", "sitemap", "requisite", "robots"}
	if int(k) >= len(names) {
		return "unknown"
	}
	return names[k]
}
