package extract

import (
	"math/bits"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
)

// TestSimHashOfPages: pages with another advertisement and another time are near each other, other
// pages are not. The value is compared between peers, so it must not change.
func TestSimHashOfPages(t *testing.T) {
	words := func(seed uint64, n int) []string {
		rnd := rand.New(rand.NewPCG(seed, 1))
		list := make([]string, n)
		for i := range list {
			for range 2 + rnd.IntN(8) { // as frequent as in English, about
				list[i] += string("eeeettaaooiinnsshhrrddllccuummwwffggyyppbbvk"[rnd.IntN(44)])
			}
		}
		return list
	}
	sum := func(list []string) uint64 {
		var page Page
		body := "<html><body><p>" + strings.Join(list, " ") + "</p></body></html>"
		if err := new(Extractor).Document(&page, "http://a.example/", http.Header{"Content-Type": {"text/html"}}, []byte(body), Options{}); err != nil {
			t.Fatal(err)
		}
		return page.Words
	}
	near, far := 0, 64
	for seed := range uint64(50) {
		page := words(seed, 600)
		changed := append(append(append([]string(nil), page[:300]...), words(seed+1000, 20)...), page[300:]...)
		near = max(near, bits.OnesCount64(sum(page)^sum(changed)))
		far = min(far, bits.OnesCount64(sum(page)^sum(words(seed+2000, 600))))
	}
	if near > 12 || far <= 18 {
		t.Errorf("versions of a page differ in up to %d bits, other pages in at least %d", near, far)
	}
	if got := sum(words(1, 600)); got != 0xc7ce7302767eeea {
		t.Errorf("%#x", got)
	}
}
