package extract

import (
	"math/bits"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestSimHashOfPages: pages with another advertisement are near each other, in any script and also
// if they repeat a phrase; other pages are not. The value is compared between peers, so it must not
// change.
func TestSimHashOfPages(t *testing.T) {
	sum := func(words []string) uint64 {
		var page Page
		body := "<html><body><p>" + strings.Join(words, " ") + "</p></body></html>"
		if err := new(Extractor).Document(&page, "http://a.example/", http.Header{"Content-Type": {"text/html; charset=utf-8"}}, []byte(body), Options{}); err != nil {
			t.Fatal(err)
		}
		return page.Words
	}
	for _, c := range []struct {
		name, letters string // as frequent as in the language, about
		n             int
		phrase        string
		near          int
		value         uint64
	}{
		{"English", "eeeettaaooiinnsshhrrddllccuummwwffggyyppbbvk", 600, "", 12, 0xc74e7122766ecfe},
		{"short", "eeeettaaooiinnsshhrrddllccuummwwffggyyppbbvk", 60, "", 14, 0x1c94503e2726a3d4},
		{"a phrase again and again", "eeeettaaooiinnsshhrrddllccuummwwffggyyppbbvk", 120, "coordinates and a map", 14, 0x1e94526e2725abde},
		{"Russian", "ооооеееаааиииннтттсссррввллккммддппууяыьгзб", 600, "", 12, 0xbb01cd481ad405ed},
		{"Chinese", "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里", 600, "", 12, 0x11cf261e47317d8b},
	} {
		letters := []rune(c.letters)
		words := func(seed uint64, n int) []string {
			rnd := rand.New(rand.NewPCG(seed, 1))
			list := make([]string, n)
			for i := range list {
				for range 2 + rnd.IntN(8) {
					list[i] += string(letters[rnd.IntN(len(letters))])
				}
			}
			return list
		}
		near, far := 0, 64
		for seed := range uint64(50) {
			page := words(seed, c.n)
			changed := slices.Concat(page[:c.n/2], words(seed+1000, c.n/30), page[c.n/2:])
			if c.phrase != "" { // in an advertisement
				changed = slices.Concat(page, slices.Repeat([]string{c.phrase}, 20))
			}
			near = max(near, bits.OnesCount64(sum(page)^sum(changed)))
			far = min(far, bits.OnesCount64(sum(page)^sum(words(seed+2000, c.n))))
		}
		if near > c.near || far <= 18 {
			t.Errorf("%s: versions of a page differ in up to %d bits, other pages in at least %d", c.name, near, far)
		}
		if got := sum(words(1, c.n)); got != c.value {
			t.Errorf("%s: %#x", c.name, got)
		}
	}
}
