package link_test

import (
	"fmt"

	"github.com/apoidea/apoidea/crawl/link"
)

// Many spellings, one page: every peer has to know it under the same one.
func ExampleCanonical() {
	for _, raw := range []string{
		"HTTP://Example.ORG:80/a/../b%7Ec?q=1#top",
		"https://bücher.example./",
		"mailto:queen@hive.example",
		"http://example.org:25/",
	} {
		url, err := link.Canonical(raw)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(url)
	}
	// Output:
	// http://example.org/b~c?q=1
	// https://xn--bcher-kva.example/
	// scheme must be http or https
	// port 25: port of another protocol
}

// The links of a page are relative to it.
func ExampleBase() {
	base, err := link.NewBase("https://example.org/docs/intro.html")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, href := range []string{"next.html#part-2", "../", "//other.example/", "?print", "javascript:void(0)"} {
		url, err := base.AppendResolve(nil, []byte(href))
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(string(url))
	}
	// Output:
	// https://example.org/docs/next.html
	// https://example.org/
	// https://other.example/
	// https://example.org/docs/intro.html?print
	// scheme must be http or https
}

// The host picks the owner on the ring; a request line has what follows it.
func ExampleHost() {
	const url = "https://example.org:8443/search?q=bees"
	fmt.Println(link.Host(url))
	fmt.Println(link.Origin(url))
	fmt.Println(link.PathQuery(url))
	// Output:
	// example.org:8443
	// https://example.org:8443
	// /search?q=bees
}

// A relative link on a page that answers every path makes paths without end.
