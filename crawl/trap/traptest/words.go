package traptest

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
)

// vocabularySize is how many words a language has.
const vocabularySize = 6000

// language is a vocabulary. How often a word comes falls with its rank, as in real languages.
type language struct {
	words  []string       // by rank
	sorted []string       // by letters
	rank   map[string]int // of a word
	cum    []uint64       // sums of the weights up to each rank
}

// base is the language of all sites that have but one.
var base = sync.OnceValue(func() *language { return newLanguage("base") })

// newLanguage makes up a vocabulary of words that can be pronounced.
func newLanguage(name string) *language {
	heads := strings.Fields("b br c ch cl d dr f fl g gr h j k l m n p pl pr qu r s sh sl st t th tr v w z")
	vowels := strings.Fields("a e i o u ai ea ee io ou")
	tails := strings.Fields("- - - - - l m n r s t nd rt st")
	l := &language{rank: make(map[string]int)}
	rng, sum := random("language", name), uint64(0)
	for len(l.words) < vocabularySize {
		var b strings.Builder
		for range 1 + (len(l.words)+400)/1200 - rng.IntN(2)*min(1, len(l.words)/800) {
			b.WriteString(heads[rng.IntN(len(heads))])
			b.WriteString(vowels[rng.IntN(len(vowels))])
			b.WriteString(strings.Trim(tails[rng.IntN(len(tails))], "-"))
		}
		w := b.String()
		if _, known := l.rank[w]; known || len(w) < 2 {
			continue
		}
		l.rank[w] = len(l.words)
		l.words = append(l.words, w)
		sum += 1e9 / uint64(len(l.words)+2)
		l.cum = append(l.cum, sum)
	}
	l.sorted = slices.Sorted(slices.Values(l.words))
	return l
}

// draw draws a word as texts do.
func (l *language) draw(rng *rand.Rand) string {
	i, _ := slices.BinarySearch(l.cum, rng.Uint64N(l.cum[len(l.cum)-1]))
	return l.words[min(i, len(l.words)-1)]
}

// text draws n words, in sentences.
func (l *language) text(rng *rand.Rand, n int) string {
	words := make([]string, n)
	end := 0
	for i := range words {
		words[i] = l.draw(rng)
		if i == end {
			words[i] = capital(words[i])
			end += 5 + rng.IntN(12)
			if i > 0 {
				words[i-1] += "."
			}
		}
	}
	if n > 0 {
		words[n-1] += "."
	}
	return strings.Join(words, " ")
}

// name draws n words of a title, the first ones of the vocabulary left out as too common for it.
func (l *language) name(rng *rand.Rand, n int) string {
	words := make([]string, n)
	for i := range words {
		words[i] = capital(l.words[100+rng.IntN(len(l.words)-100)])
	}
	return strings.Join(words, " ")
}

// nameOf is the word that stands for a number below the size of the vocabulary in paths, common
// words last; numberOf is the way back.
func (l *language) nameOf(n int) string { return l.words[(n+300)%len(l.words)] }

func (l *language) numberOf(word string, below int) (int, bool) {
	r, ok := l.rank[word]
	n := (r + len(l.words) - 300) % len(l.words)
	return n, ok && n < below
}

func capital(w string) string { return strings.ToUpper(w[:1]) + w[1:] }

// hash is a number that hangs on all parts.
func hash(parts ...any) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			_, _ = h.Write([]byte(p))
		default:
			fmt.Fprint(h, p)
		}
		_, _ = h.Write([]byte{0})
	}
	x := h.Sum64() // FNV's low bits are poor
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	return x ^ x>>29
}

// random is a generator that hangs on all parts.
func random(parts ...any) *rand.Rand { return rand.New(rand.NewPCG(hash(parts...), 1)) }

// between is a number of [least, most] that hangs on all parts.
func between(least, most int, parts ...any) int {
	return least + int(hash(parts...)%uint64(most-least+1))
}
