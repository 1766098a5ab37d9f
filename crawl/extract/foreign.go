package extract

import "slices"

// Inside SVG and MathML titles and styles are ordinary markup, CDATA sections exist, and links are
// those of SVG. The tree builder keeps a stack of all open elements for this; for links a stack of
// regions is sufficient, and differs only where end tags do not match.

// region is the language of a part of the document: an open svg, math or integration point (HTML
// within them).
type region uint8

const (
	regionSVG region = iota
	regionMath
	regionHTML // within an integration point
)

// maxRegions bounds the nesting of languages; deeper ones count as the one around them.
const maxRegions = 256

func (w *walk) foreign() bool {
	n := len(w.regions)
	return n > 0 && w.regions[n-1] != regionHTML
}

// cdata reports whether CDATA sections exist here.
func (w *walk) cdata() bool { return w.xml || w.foreign() }

func (w *walk) enter(r region) {
	if len(w.regions) < maxRegions {
		w.regions = append(w.regions, r)
	}
}

// leaveForeign closes SVG and MathML up to the HTML around them.
func (w *walk) leaveForeign() {
	for w.foreign() {
		w.regions = w.regions[:len(w.regions)-1]
	}
}

// breaksOut reports whether a start tag within SVG or MathML is one of HTML that closes them (HTML
// standard, "parsing tokens in foreign content").
func breaksOut(s *scanner, el element) bool {
	return flags[el]&breakout != 0 || el == elFont && s.has&(1<<attrColor|1<<attrFace|1<<attrSize) != 0
}

// startForeign handles a start tag of SVG or MathML.
func (w *walk) startForeign(s *scanner, el element, closed bool) {
	svg := w.regions[len(w.regions)-1] == regionSVG
	if w.inert == 0 && svg {
		w.linksSVG(s, el)
	}
	if closed {
		return
	}
	switch {
	case el == elSVG:
		w.enter(regionSVG)
	case el == elMath:
		w.enter(regionMath)
	case svg && flags[el]&pointSVG != 0, !svg && flags[el]&pointMath != 0:
		w.enter(regionHTML)
	case !svg && el == elAnnotationXML && (s.is(attrEncoding, "text/html") || s.is(attrEncoding, "application/xhtml+xml")):
		w.enter(regionHTML)
	}
}

// linksSVG adds the links of an SVG element; href takes precedence over the older xlink:href.
func (w *walk) linksSVG(s *scanner, el element) {
	at := attrHref
	if _, ok := s.get(at); !ok {
		at = attrXlinkHref
	}
	switch el {
	case elA:
		w.document(s, at, w.hasRel(s, "nofollow"))
	case elScript, elImg: // image in SVG, img in HTML
		if w.opt.Requisites {
			w.requisite(s, at)
		}
	}
}

// endForeign handles an end tag while SVG or MathML is open.
func (w *walk) endForeign(el element) {
	switch {
	case el == elSVG:
		w.closeRegion(regionSVG)
	case el == elMath:
		w.closeRegion(regionMath)
	case !w.foreign() && flags[el]&(pointSVG|pointMath) != 0 || el == elAnnotationXML:
		w.closeRegion(regionHTML)
	case w.foreign() && flags[el]&breakout != 0:
		w.leaveForeign() // the end of an HTML element around
	}
}

// closeRegion closes the innermost region of a kind, and regions open within it.
func (w *walk) closeRegion(r region) {
	for i, open := range slices.Backward(w.regions) {
		if open == r {
			w.regions = w.regions[:i]
			return
		}
	}
}
