// Package adaptive is the strategy of our own: it chooses workers with about two probes a site
// where others need as many as there are candidates, because it remembers what earlier sites looked
// like from here.
//
// Its words: a *memory* is an earlier site with the round trips that candidates measured to it,
// those that nobody measured filled in with what was believed of them. A *hint* is something that
// two sites share before anything is measured: an address, a registered network, a shorter prefix,
// an organisation, a country. A *belief* is what is thought of a new site: each memory with the
// probability that the new site looks like it.
//
//	place a site:
//	  belief = memories, weighed by the hints they share with the site
//	  repeat:
//	    weigh the memories by the probes made so far; draw possible sites from them
//	    for each candidate: in which share of the draws is it the best one (within 1 ms)?
//	    for each probe that could be made: how much better would it make the choice, in the mean?
//	    stop when no probe is worth its price, else make the best one
//	  the candidate that is the best one in most draws, and not far off in the others, takes the site, whether it was probed or not
//	  remember the site; learn what each hint was worth
//
// So ranking by neighbourhood, bounds from probes that were made, and stopping early are one thing:
// a candidate that cannot be the best any more is the best in no draw, and a probe of it is worth
// nothing. How much a shared prefix or country says is not assumed but learnt, and so is how
// exactly sites look like each other. Coordinates of candidates would add nothing to it: what they
// say of distances is in the memories, with detours and without a fit.
//
// There is no training set. The first memories are the peers themselves: each is a site whose round
// trips nobody need probe, since peers talk with each other anyway ([PeerSample]). The price of a
// probe follows a budget: it rises while more is spent a site than the budget allows, and falls
// otherwise; the n-th site may cost more than later ones by the root of 1/n. It has a ceiling:
// where peers come and go a probe that says much is made, whatever was spent. A few sites are
// measured by every candidate for ever, since the world changes. A candidate never seen before is
// measured along with others until enough is known of it.
//
// Downloads teach two things (Observe). Workers differ: one whose downloads take longer than round
// trips and sizes explain, and than chance between hosts explains, counts as farther off than it
// is, until that is some minutes ago. And a download bounds the round trip from above, since it
// takes at least a connect, a request and the rounds of slow start.
//
// The strategy is a plain state machine: no goroutine, clock, disk or network, not safe for
// concurrent use. Its memory is bounded by Config. The same seed and the same calls give the same
// choices. Nothing of it survives a restart; owners that tell each other their samples
// ([Strategy.Samples], [Strategy.Learn]) learn as one.
//
// # Who learns from whom
//
// With --placement adaptive an owner remembers what the sites that it placed looked like from its
// candidates. Every second it tells its leaf set what is new: host, address, who measured what
// (node/placing, service lessons). The others learn from it as from placements of their own, so
// what one had measured the others need not measure again. A neighbour that is new, or was started
// again, is told the last 512. The farthest of a leaf set pass it on, for eight leaf sets to each
// side, so that in a ring of up to 128 owners all learn as one. What they learn of is also who is
// near to a place that no candidate of theirs is near to: [Strategy.Beyond] names such peers.
//
// experiment run placement has both: adaptive, and adaptive-alone without samples of sites, nor
// peers beyond the leaf set.
package adaptive
