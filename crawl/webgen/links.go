package webgen

import "strconv"

// here is the host of a relative link: the host that its page is served from.
const here = -1

// trapPages is the size of each host's trap: pages with nofollow links only. It is finite, so that
// a crawler that enters it comes out again, and is detected.
const trapPages = 1000

// outlink is one link of a body, before it is written.
type outlink struct {
	to   place // host may be here
	trap bool  // to.page is a page of the trap, and the link is marked nofollow
	form uint8 // one of many forms; see appendHref
}

// outlinks enumerates the links of a body: its children in a tree, which keep most of the host
// reachable, then a mixture as on real sites: navigation that each page repeats, adjacent pages,
// other hosts, any pages.
type outlinks struct {
	w    *Web
	of   place
	i    int
	draw rng
}

func (w *Web) linksOf(body place) outlinks {
	return outlinks{w: w, of: body, draw: rng(w.draw(saltLinks, body.host, body.page))}
}

func (l *outlinks) next() (outlink, bool) {
	c, pages := &l.w.cfg, l.w.pages(l.of.host)
	if l.i >= c.Links {
		return outlink{}, false
	}
	i := l.i
	l.i++
	d := l.draw.next()
	out := outlink{to: place{here, 0}, form: uint8(d & 15)}
	if child := l.of.page*l.w.arity + 1 + i; i < l.w.arity && child < pages {
		out.to.page = unorphan(child, pages)
		return out, true
	}
	u := unit(d)
	pick := l.draw.next()
	if u -= c.NofollowShare; u < 0 {
		return outlink{to: place{here, scale(pick, trapPages)}, trap: true}, true
	}
	if u -= c.CrossHostShare; u < 0 {
		out.to.host = scale(mix(pick), c.Hosts)
		pages = l.w.pages(out.to.host)
		out.to.page = scale(pick, pages)
		if pick&1 == 0 { // most links lead to the front page
			out.to.page = min(int(pick>>1&15), pages-1)
		}
		out.to.page = unorphan(out.to.page, pages)
		return out, true
	}
	switch pick & 3 {
	case 0: // navigation
		out.to.page = min(scale(pick, 32), pages-1)
	case 1: // an adjacent page in any section
		out.to.page = wrap(l.of.page+scale(pick, 65)-32, pages)
	case 2: // an adjacent page in the same section
		out.to.page = wrap(l.of.page+(scale(pick, 33)-16)*sections, pages)
	default:
		out.to.page = scale(pick, pages)
	}
	out.to.page = unorphan(out.to.page, pages)
	return out, true
}

func wrap(n, size int) int { return ((n % size) + size) % size }

func unorphan(n, size int) int {
	if orphan(n) {
		return (n + 1) % size
	}
	return n
}

// appendHref writes a link of the body `of`. All forms of a link are the same canonical URL.
func (w *Web) appendHref(dst []byte, of place, l outlink, port string) []byte {
	if l.trap {
		return appendTrapPath(dst, l.to.page)
	}
	if l.to.host != here {
		switch l.form & 7 {
		case 0:
			dst = append(dst, "//"...)
			dst = w.appendHost(dst, l.to.host, port)
		case 1:
			at := len(dst)
			dst = w.appendOrigin(dst, l.to.host, port)
			for i := range w.Scheme() + "://h" {
				if c := &dst[at+i]; *c >= 'a' {
					*c -= 'a' - 'A'
				}
			}
		default:
			dst = w.appendOrigin(dst, l.to.host, port)
		}
		return appendPath(dst, l.to.page)
	}
	sameSection := of.page != 0 && l.to.page != 0 && of.page%sections == l.to.page%sections
	switch {
	case sameSection && l.form < 12:
		dst = strconv.AppendInt(dst, int64(l.to.page), 10)
		dst = append(dst, ".html"...)
	case l.form < 6:
		dst = append(dst, ".."...)
		dst = appendPath(dst, l.to.page)
	case l.form == 6:
		dst = append(dst, "/."...)
		dst = appendPath(dst, l.to.page)
	default:
		dst = appendPath(dst, l.to.page)
	}
	if l.form&3 == 3 {
		dst = append(dst, "#t"...)
		dst = strconv.AppendInt(dst, int64(l.form), 10)
	}
	return dst
}

func appendTrapPath(dst []byte, n int) []byte {
	dst = append(dst, "/trap/"...)
	dst = strconv.AppendInt(dst, int64(n), 10)
	return append(dst, ".html"...)
}
