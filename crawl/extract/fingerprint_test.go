package extract

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
)

// prose makes n words from a seed.
func prose(seed uint64, n int) []string {
	rnd := rand.New(rand.NewPCG(seed, 7))
	list := make([]string, n)
	for i := range list {
		word := make([]byte, 2+rnd.IntN(8))
		for k := range word {
			word[k] = byte('a' + rnd.IntN(26))
		}
		list[i] = string(word)
	}
	return list
}

// printOf is the fingerprint of a page.
func printOf(t *testing.T, url, body string) Fingerprint {
	t.Helper()
	var x Extractor
	var page Page
	if err := x.HTML(&page, url, "text/html; charset=utf-8", []byte(body), Options{}); err != nil {
		t.Fatal(err)
	}
	return page.Fingerprint
}

func differ(a, b uint64) int { return bits.OnesCount64(a ^ b) }

// TestExactWords: pages have the same hash only if they say the same to the last number, the words
// of their own addresses aside.
func TestExactWords(t *testing.T) {
	text := strings.Join(prose(1, 200), " ")
	long := strings.Join(prose(1, 3000), " ")
	const url = "http://a.example/row/17"
	for _, tt := range []struct {
		name, url, one, other string
		same                  bool
	}{
		{"markup", url, "<p>" + text, "<div><b>" + text, true},
		{"links", url, "<p>" + text, "<p>" + text + "<a href=/x>more</a>", true},
		{"words of their addresses", "http://a.example/column/17", "<p>row " + text, "<p>column " + text, true},
		{"numbers of their items", "http://a.example/row/18", "<p>row 17 " + text, "<p>row 18 " + text, false},
		{"number", url, "<p>5 kg " + text, "<p>6 kg " + text, false},
		{"word", url, "<p>green " + text, "<p>red " + text, false},
		{"order", url, "<p>one two " + text, "<p>two one " + text, false},
		{"image", url, "<p>" + text, "<p>" + text + "<img src=/1.jpg>", false},
		{"behind much text", url, "<p>" + long + " 5", "<p>" + long + " 6", false},
	} {
		if same := printOf(t, url, tt.one).Words == printOf(t, tt.url, tt.other).Words; same != tt.same {
			t.Errorf("%s: same %v, want %v", tt.name, same, tt.same)
		}
	}
	day := func(d string) uint64 {
		return printOf(t, "http://10.1.1.1:81/cal/2024/5/"+d, "<p>"+d+" 5 2024: nothing "+text).Words
	}
	if day("3") != day("17") {
		t.Error("days without a word of their own differ")
	}
	photo := func(n string) uint64 { return printOf(t, "http://10.1.1.1:81/IMG_"+n+".html", "<p>IMG_"+n).Words }
	if photo("0001") == photo("0002") {
		t.Error("two photos are one")
	}
}

// TestFingerprintIsOfWords: what does not change what a page says does not change its fingerprint,
// and what does changes it.
func TestFingerprintIsOfWords(t *testing.T) {
	text := strings.Join(prose(1, 200), " ")
	const url = "http://a.example/dir/page?q=word"
	plain := printOf(t, url, "<p>"+text+"</p>")
	for _, tt := range []struct {
		name, body string
		same       bool
	}{
		{"markup", "<!-- a comment --><div class=x><b>" + strings.Replace(text, " ", "</b> ", 1) + "</div><script>var words = 1</script><style>p { }</style>", true},
		{"upper case", "<p>" + strings.ToUpper(text) + "</p>", true},
		{"numbers", "<p>12 " + strings.ReplaceAll(text, " ", " 34 ") + " 5th</p>", true},
		{"words of the URL", "<p>page dir " + text + " word</p><p>http://a.example/dir/page</p>", true},
		{"other words", "<p>" + strings.Join(prose(2, 200), " ") + "</p>", false},
		{"another order", "<p>" + strings.Join(prose(1, 200)[100:], " ") + " " + strings.Join(prose(3, 100), " ") + "</p>", false},
		{"an image", "<p>" + text + "</p><img src=/photos/1.jpg>", false},
		{"no words", "<p> 1 </p>", false},
	} {
		got := printOf(t, url, tt.body)
		if same := got.Text == plain.Text && got.All == plain.All; same != tt.same {
			t.Errorf("%s: %x, without %x", tt.name, got, plain)
		}
	}
	a, b := printOf(t, url, "<p>"+text+"</p><img src=/photos/1.jpg>"), printOf(t, url, "<p>"+text+"</p><img src=/photos/2.jpg>")
	if a == b {
		t.Error("pages with different images are the same")
	}
	if a, b = printOf(t, url, "<img src=/i.gif?t=1>"), printOf(t, url, "<img src=/i.gif?t=2>"); a != b {
		t.Error("the query of an image makes another page")
	}
}

// TestFingerprintOfNearDuplicates: a word more or less among two hundred moves few bits; pages that
// share half of their words are far apart.
func TestFingerprintOfNearDuplicates(t *testing.T) {
	near, far := 0, 64
	for seed := range uint64(50) {
		words := prose(seed, 400)
		a := printOf(t, "http://a.example/", strings.Join(words, " "))
		words[200] = "different"
		b := printOf(t, "http://a.example/", strings.Join(words, " "))
		c := printOf(t, "http://a.example/", strings.Join(append(words[:200:200], prose(seed+1000, 200)...), " "))
		near, far = max(near, differ(a.All, b.All)), min(far, differ(a.All, c.All))
	}
	if near > 8 || far <= 8 {
		t.Errorf("near duplicates differ in up to %d bits, others in %d at least", near, far)
	}
}

// TestFingerprintOfLinks: the words of links count for All alone.
func TestFingerprintOfLinks(t *testing.T) {
	text := strings.Join(prose(1, 60), " ")
	body := func(link string) string { return "<p>" + text + "</p><a href=/x>" + link + "</a><p>more text</p>" }
	one, other := printOf(t, "http://a.example/", body(strings.Join(prose(2, 40), " "))), printOf(t, "http://a.example/", body(strings.Join(prose(3, 40), " ")))
	if one.Text != other.Text || one.All == other.All {
		t.Errorf("other words in links: %x, then %x", one, other)
	}
}

// TestFingerprintOfAnything: what is no HTML has none, what is has one, however much it says.
func TestFingerprintOfAnything(t *testing.T) {
	var x Extractor
	var page Page
	if err := x.Document(&page, "http://a.example/a.txt", http.Header{"Content-Type": {"text/plain"}}, []byte("some text"), Options{}); err != nil || page.Fingerprint != (Fingerprint{}) {
		t.Errorf("plain text: %x, %v", page.Fingerprint, err)
	}
	for _, n := range []int{0, 1, 1023, 1024, 1025, 70_000, 140_000} {
		words := strings.Join(prose(uint64(n), n), " ")
		body := "<p>" + words + "</p><a href=/>" + words + "</a>"
		got := printOf(t, "http://a.example/", body)
		if got.Text == 0 || got.All == 0 {
			t.Errorf("%d words: %x", n, got)
		}
		if again := printOf(t, "http://a.example/", body); again != got {
			t.Errorf("%d words: %x, then %x", n, got, again)
		}
	}
	if got := printOf(t, "http://a.example/", "<p>"+strings.Repeat("日本語の文章", 100)); got.Text <= noWords {
		t.Errorf("a language without spaces: %x", got)
	}
}

// TestWordsAtOnce: words that are looked for in many bytes at once are those that are found one by
// one, wherever the text ends and whatever stands behind it.
func TestWordsAtOnce(t *testing.T) {
	signs := []string{"a", "Z", "q", "7", "_", " ", " ", "-", "@", "[", "`", "{", "/", ":", "ü", "語", "\x00", "\x7f", "\xff", "\n"}
	rnd := rand.New(rand.NewPCG(1, 1))
	for i := range 5000 {
		var b strings.Builder
		for few := 1 + rnd.IntN(len(signs)); b.Len() <= rnd.IntN(chunk); {
			b.WriteString(strings.Repeat(signs[rnd.IntN(few)], 1+rnd.IntN(3)*rnd.IntN(40)))
		}
		text := []byte(b.String()[:min(b.Len(), chunk)])
		var got, want reader
		got.begin("http://a.example/aa/7")
		want.begin("http://a.example/aa/7")
		for rest := text; ; {
			word, number, after := readWord(rest)
			if rest = after; word == 0 {
				break
			}
			if want.isOwn(word) {
				continue
			}
			want.exact = fold(want.exact^word, first)
			if !number {
				want.text.add(fold(want.text.last^word, second))
				want.text.last = bits.RotateLeft64(word, 23)
			}
		}
		slack := i % (2 * window)
		behind := append(append([]byte("a"), text...), strings.Repeat("a7", window)...)
		got.all(behind[1 : 1+len(text) : 1+len(text)+slack])
		if got.text != want.text || got.exact != want.exact {
			t.Fatalf("%q: other words than one by one", text)
		}
	}
}

// TestCounter: the counters of all bits, added eight at a time, are those that counting makes.
func TestCounter(t *testing.T) {
	for _, n := range []int{1, 2, 7, 8, 9, 15, 16, 17, 100, 1000} {
		rnd := rand.New(rand.NewPCG(uint64(n), 1))
		var c, d counter
		var count [64]int
		for i := range n {
			f := rnd.Uint64()
			if i%3 == 0 {
				d.add(f)
			} else {
				c.add(f)
			}
			for b := range count {
				count[b] += int(f >> b & 1)
			}
		}
		c.flush()
		d.flush()
		c.merge(&d)
		want := uint64(0)
		for b, k := range count {
			if 2*k > n {
				want |= 1 << b
			}
		}
		if got := c.majority(); got != max(want, noWords) {
			t.Errorf("%d features: %x, want %x", n, got, want)
		}
	}
}

func BenchmarkFingerprint(b *testing.B) {
	for _, n := range []int{100, 1000, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			text := []byte(strings.Join(prose(1, n), " "))
			b.SetBytes(int64(len(text)))
			var r reader
			for b.Loop() {
				r.begin("http://a.example/dir/page.html")
				r.words(text)
				r.fingerprint()
			}
		})
	}
}
