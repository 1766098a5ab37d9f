// Package adaptive is the adaptive placement strategy: it chooses workers with about two probes a
// site where others need as many as there are candidates, because it remembers the measurements of
// earlier sites.
//
// Terms: a *memory* is an earlier site with the round trips that candidates measured to it;
// unmeasured ones are estimated. A *hint* is a property that two sites share before anything is
// measured: an address or a shorter prefix. A
// *belief* is the estimate for a new site: each memory with the probability that the new site is
// similar to it.
//
//	place a site:
//	  belief = memories, weighed by the hints they share with the site
//	  repeat:
//	    weigh the memories by the probes made so far; draw possible sites from them
//	    for each candidate: in which share of the draws is it the best one (within 1 ms)?
//	    for each possible probe: how much would it improve the choice on average?
//	    stop when no probe is worth its price, else make the best one
//	  the candidate that is the best one in most draws, and not far off in the others, gets the site, whether it was probed or not
//	  store the site; learn the worth of each hint
//
// So ranking by neighborhood, bounds from earlier probes, and early stopping are one mechanism: a
// candidate that cannot be the best is the best in no draw, and a probe of it has no value. The
// information in a shared prefix is not assumed but learned, and so is the degree of
// similarity of sites. Coordinates of candidates would add nothing: the memories contain the
// distances, including detours and without a fitting error.
//
// There is no training set. The first memories are the peers themselves: each is a site whose round
// trips need no probe, since peers communicate anyway ([PeerSample]). The price of a probe follows
// a budget: it rises while the cost of a site exceeds the budget, and falls otherwise; the n-th
// site may cost more than later ones by the root of 1/n. It has an upper limit: where peers join
// and leave, an informative probe is always made. A few sites are measured by every candidate
// permanently, since the network changes. A new candidate measures along with others until enough
// is known about it.
//
// Downloads provide two kinds of data (Observe). Workers differ: one whose downloads take longer
// than round trips, sizes and the variance between hosts explain counts as farther away than it is,
// until that is some minutes ago. And a download bounds the round trip from above, since it takes
// at least a connect, a request and the rounds of slow start.
//
// The strategy is a plain state machine: no goroutine, clock, disk or network, not safe for
// concurrent use. Its memory is bounded. The same seed and the same calls result in the
// same choices. Its state is not persistent; owners that exchange their samples
// ([Strategy.Samples], [Strategy.Learn]) learn together.
//
// # Exchange of samples
//
// With --placement adaptive an owner stores the candidates' measurements of the sites that it
// placed. Every second it sends new samples to its leaf set (node/services/placer, service
// lessons). The others learn from them as from placements of their own, so a measurement by one
// need not be repeated by the others. A new or restarted neighbor receives the last 512. The
// farthest peers of a leaf set forward them, for eight leaf sets to each side, so that in a ring of
// up to 128 owners all learn together. The samples also reveal peers that are near to a location
// where no candidate is: [Strategy.Beyond] returns such peers.
//
// experiment run placement has both: adaptive, and adaptive-alone without samples of sites, nor
// peers beyond the leaf set.
package adaptive
