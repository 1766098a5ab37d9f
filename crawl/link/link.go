package link

// Link is one URL found in a document.
type Link struct {
	// URL is canonical.
	URL string
	// Kind says how its answer will be read.
	Kind Kind
	// Nofollow: every place that named the URL asked crawlers not to follow it.
	Nofollow bool
}
