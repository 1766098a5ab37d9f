package link

// Link is one URL found in a document.
type Link struct {
	// URL is canonical.
	URL string
	// Kind determines how its answer will be parsed.
	Kind Kind
	// Nofollow: all links to the URL were marked nofollow.
	Nofollow bool
}
