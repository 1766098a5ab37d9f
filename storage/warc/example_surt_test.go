package warc_test

import (
	"fmt"

	"github.com/apoidea/apoidea/storage/warc"
)

// The index is sorted by hosts from right to left, so that a site and what is below it lie
// together.
func ExampleSURT() {
	fmt.Println(warc.SURT("https://docs.example.org:8443/Bees?b=2&a=1"))
	// Output:
	// org,example,docs:8443)/bees?a=1&b=2
}
