package hosts

const (
	// A host whose own pages brought growsTo URLs has firstRequests requests, and namedRequests
	// more for each URL that a sitemap, a seed or another host named.
	growsTo       = 40_000
	firstRequests = 10_000
	namedRequests = 4
)

// Spent is what a job has used up of its share of a host.
type Spent uint8

const (
	SpentNothing Spent = iota
	spentRequests
	spentBytes
	spentGrowth
)
