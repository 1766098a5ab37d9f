// Package webtruth computes the result of a correct crawl of a synthetic web, for tests. It
// traverses the generator itself, not the pages that it serves.
package webtruth

import "slices"

// Web is a web of package webgen.
type Web interface {
	Seeds(port int) []string
	Sitemap(host int) (files int, pages []int)
	Answer(host, page, port int) (url, kind string, body [2]int, links [][2]int)
}

// Walk describes a crawl: its seeds, scope and limits.
type Walk struct {
	// Port is the port that the web is served at; 0 or 80 is omitted from URLs.
	Port int
	// Seeds are the numbers of the hosts whose first pages are the seeds, at depth 0. None means
	// all.
	Seeds []int
	// Everywhere admits all hosts of the web; otherwise only those of the seeds are in scope.
	Everywhere bool
	// MaxDepth bounds the depth of pages, negative means no limit. A link is one deeper than its page,
	// the target of a redirect as deep as the redirect. A sitemap counts as depth 0, so its entries
	// are at depth 1.
	MaxDepth int
	// Admits, if set, reports whether a page is requested, in addition to the other limits: by URL and
	// depth.
	Admits func(url string, depth int) bool
	// NoSitemaps ignores sitemaps.
	NoSitemaps bool
}

// Truth is the result of a correct crawl of a web: robots.txt and nofollow obeyed, failures below
// webgen.Config.FlakyFailures retried.
type Truth struct {
	// URLs are the pages that finally answer with 200, without robots.txt and sitemaps, sorted.
	URLs []string
	// Bodies is the number of distinct bodies among them.
	Bodies int
	// Redirects, Gone and Disallowed count the reached URLs in scope that answer so, or must not be
	// requested.
	Redirects, Gone, Disallowed int
	// Sitemaps counts the sitemaps and sitemap indexes of the hosts reached.
	Sitemaps int
}

// Of traverses a web from the seeds. Its memory is proportional to the pages reached, unlike
// serving.
func Of(w Web, walk Walk) Truth {
	t := truthWalk{w: w, Walk: walk, depth: map[place]int{}, reached: map[int]bool{}, inScope: map[int]bool{}, bodies: map[place]bool{}}
	if len(t.Seeds) == 0 {
		for h := range w.Seeds(t.Port) {
			t.Seeds = append(t.Seeds, h)
		}
	}
	for _, h := range t.Seeds {
		t.inScope[h] = true
	}
	for _, h := range t.Seeds {
		t.admit(place{h, 0}, 0)
	}
	// Depth by depth: what one depth appends to itself (the targets of redirects) is processed with
	// it.
	for depth := 0; depth < len(t.levels); depth++ {
		for i := 0; i < len(t.levels[depth]); i++ {
			if p := t.levels[depth][i]; t.depth[p] == depth {
				t.visit(p, depth)
			}
		}
	}
	slices.Sort(t.found.URLs)
	t.found.Bodies = len(t.bodies)
	return t.found
}

// place is a page: its host, and its number on it.
type place = [2]int

// truthWalk is the state of a breadth-first traversal of the generator.
type truthWalk struct {
	Walk
	w       Web
	inScope map[int]bool
	reached map[int]bool  // hosts whose sitemaps were added
	depth   map[place]int // smallest depth so far
	levels  [][]place
	bodies  map[place]bool
	found   Truth
}

// admit adds a page at a depth, unless it is out of scope or was added at that depth or a smaller
// one.
func (t *truthWalk) admit(p place, depth int) {
	if t.MaxDepth >= 0 && depth > t.MaxDepth || !t.Everywhere && !t.inScope[p[0]] {
		return
	}
	if d, known := t.depth[p]; known && d <= depth {
		return
	}
	if t.Admits != nil {
		if url, _, _, _ := t.w.Answer(p[0], p[1], t.Port); !t.Admits(url, depth) {
			return
		}
	}
	t.depth[p] = depth
	for len(t.levels) <= depth {
		t.levels = append(t.levels, nil)
	}
	t.levels[depth] = append(t.levels[depth], p)
	t.sitemaps(p[0])
}

// sitemaps adds the entries of a host's sitemaps, when the host is first reached.
func (t *truthWalk) sitemaps(host int) {
	if t.NoSitemaps || t.reached[host] {
		return
	}
	t.reached[host] = true
	files, pages := t.w.Sitemap(host)
	t.found.Sitemaps += files
	for _, n := range pages {
		t.admit(place{host, n}, 1)
	}
}

func (t *truthWalk) visit(p place, depth int) {
	url, kind, body, links := t.w.Answer(p[0], p[1], t.Port)
	switch kind {
	case "disallowed":
		t.found.Disallowed++
	case "gone":
		t.found.Gone++
	case "redirect":
		t.found.Redirects++
	default:
		t.found.URLs = append(t.found.URLs, url)
		t.bodies[body] = true
		depth++
	}
	for _, to := range links {
		t.admit(to, depth)
	}
}
