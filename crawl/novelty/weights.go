package novelty

// What a page adds to a score, and takes off it. Weak evidence counts for a third.
const (
	strongWeight = 50
	abroadWeight = 16 // of a repeat where only others bring more URLs of the host
	weakWeight   = 16
	newWeight    = 19 * strongWeight
	nearWeight   = 3
	sameWeight   = 2 // of a repeat, and of an error, where nothing grows: of a list without end, such as that of sitemaps
	errorWeight  = 1
	otherWeight  = 19 * nearWeight
	mazeWeight   = 8
	chainWeight  = 4
	graphWeight  = 19 * mazeWeight
)

// hostWeight is what a page's words add to the score of its host.
func hostWeight(e evidence, how growth, failed bool) int32 {
	switch {
	case e == evNew:
		return -newWeight
	case e == evStrong && how == grows:
		return strongWeight
	case e == evWeak && how == grows:
		return weakWeight
	case e == evStrong && failed:
		return errorWeight
	case e == evStrong && how == abroad:
		return abroadWeight
	case e == evStrong:
		return sameWeight
	default:
		return 0
	}
}

// likeWeight is what a page that says almost what others say adds to the score of such.
func likeWeight(e evidence, growing bool) int32 {
	switch {
	case e == evNew:
		return -otherWeight
	case e >= evNear && growing:
		return nearWeight
	default:
		return 0
	}
}

// linkWeight is what a page's links add to the score of its host's links. An error among the pages of a maze or a chain is of it.
func linkWeight(p *Page, t tree, among bool) int32 {
	switch {
	case p.Failed && among:
		return mazeWeight
	case p.Failed:
		return 0
	case t == maze:
		return mazeWeight
	case t == chain:
		return chainWeight
	default:
		return -graphWeight
	}
}

// partWeight is what a page adds to the score of a part of its host.
func partWeight(e evidence, how growth) int32 {
	switch {
	case e == evNew:
		return -newWeight
	case e == evStrong && how == grows:
		return strongWeight
	case e == evStrong && how == abroad:
		return abroadWeight
	default:
		return 0
	}
}

// step moves a score. One that has come to the end stays there: what is asked of a trap afterwards was on its way before.
func step(score uint32, w int32, stop uint32) uint32 {
	switch {
	case score >= stop:
		return score
	case w < 0:
		return score - min(score, uint32(-w))
	default:
		return score + uint32(w)
	}
}

// limit is the score of a trap.
func limit(pages int) uint32 { return strongWeight * uint32(min(max(pages, 1), MaxPages)) } //nolint:gosec // bounded
