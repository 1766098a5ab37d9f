package hosts

const (
	// A host that no seed names has firstRequests requests, and namedRequests more for each URL that
	// a sitemap or another host named.
	firstRequests = 10_000
	namedRequests = 100
)

// Spent is the limit that a job reached on a host.
type Spent uint8

const (
	SpentNothing Spent = iota
	spentRequests
	spentBytes
	spentGrowth
)
