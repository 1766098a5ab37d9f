// Package traptest makes up web sites: real ones, each modelled on a kind of site whose pages
// look more alike than they are, and endless ones, which make up pages for ever.
//
// A site is a function of a path. Nothing of it is kept but a vocabulary and the words that all of
// its pages have (its frame); what a page says hangs on the name of the site and the number of the
// page alone, so that it says the same whenever it is asked for.
//
// [Site.Own] of a real site names the pages that a crawl must not miss. What else it has are pages
// that say what other pages say: answers to buttons, logins, the same list in another order.
package traptest

import "net/http"

// Answer is what a server says to a request for a path and query.
type Answer struct {
	Status   int
	Type     string // of the content, with its charset
	Location string // of a redirect
	Body     []byte
}

// Site is a made-up web site of one host.
type Site struct {
	Name  string // one word, fits a DNS label
	What  string // one sentence
	Start string // the path where a crawl begins
	// Get answers a request for a path with its query; with 404 for what is not there.
	Get func(pathQuery string) Answer
	// Own yields the pages that must all be fetched, each once: those with content of their own.
	// It is nil for an endless site.
	Own func(yield func(pathQuery string) bool)
}

// Real returns the sites that end. Scale divides how many pages each has; 1 is full size.
func Real(scale int) []Site {
	scale = max(scale, 1)
	var sites []Site
	for _, build := range []func(scale int) Site{
		shop, tracker, code, forum, forum302, wiki, wikitree, dictionary, gallery, events, blog, law,
		registry, cgit, directory, stats, docs, multilingual, qa, classifieds, people, tracks,
	} {
		sites = append(sites, build(scale))
	}
	return sites
}

// Endless returns the sites that make up pages for ever.
func Endless() []Site {
	return []Site{
		calendar(), growing(), same(), session(), facets(), labyrinth(), markov(), near(), login(),
		numbers(), search(),
	}
}

var notFound = Answer{
	Status: http.StatusNotFound, Type: htmlType, Body: []byte("<title>404</title><p>Not found."),
}
