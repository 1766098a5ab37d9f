package deflate

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
)

// packed is a member of a text that comes in parts, each ending at one of the places.
func packed(w *Writer, text []byte, places ...int) []byte {
	w.Begin(nil)
	from := 0
	for _, to := range append(places, len(text)) {
		w.Write(text[from:to])
		from = to
	}
	return w.End()
}

// unpacked is what another's reader makes of a member.
func unpacked(t *testing.T, member []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(member))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func noise(seed uint64, n int) []byte {
	rnd := rand.New(rand.NewPCG(seed, 1))
	text := make([]byte, n)
	for i := range text {
		text[i] = byte(rnd.Uint32())
	}
	return text
}

// markup is a page of n bytes as a site makes many.
func markup(seed uint64, n int) []byte {
	rnd := rand.New(rand.NewPCG(seed, 2))
	var b strings.Builder
	for b.Len() < n {
		fmt.Fprintf(&b, `<li class="entry"><a href="/library/item-%d.html" title="%x">`, rnd.IntN(1000), rnd.Uint32())
		for range rnd.IntN(20) {
			fmt.Fprintf(&b, "word%d ", rnd.IntN(400))
		}
		b.WriteString("</a></li>\n")
	}
	return []byte(b.String()[:n])
}

// TestRoundTrip: others read what was written, whatever it is and in which parts it came.
func TestRoundTrip(t *testing.T) {
	many := bytes.Repeat([]byte("x"), 4*room)
	texts := map[string][]byte{
		"nothing": nil, "a byte": []byte("a"), "few": []byte("abcabcab"), "one byte many times": many, "noise": noise(1, 3*room), "markup": markup(1, 5*room),
		"noise between": slicesOf(noise(2, room), many, noise(3, room/2), markup(2, room), noise(4, 10)),
		"lines":         []byte(strings.Repeat("a line of text\n", 10_000)),
	}
	for _, n := range []int{margin - 1, margin, margin + 1, 300, room - reach, room - 1, room, room + 1, 2*room - reach, 2*room - reach + 1} {
		texts[fmt.Sprint("markup of ", n)] = markup(3, n)
		texts[fmt.Sprint("noise of ", n)] = noise(3, n)
	}
	// What stands there again as far back as matches reach, and a byte further.
	for _, far := range []int{reach - 1, reach, reach + 1} {
		texts[fmt.Sprint("again after ", far)] = slicesOf(noise(5, 500), noise(6, far-500), noise(5, 500), noise(7, far-500), noise(5, 500))
	}
	var w Writer
	rnd := rand.New(rand.NewPCG(1, 1))
	for name, text := range texts {
		want := packed(new(Writer), text)
		if got := unpacked(t, want); !bytes.Equal(got, text) {
			t.Fatalf("%s: %d bytes became %d others", name, len(text), len(got))
		}
		half := rnd.IntN(len(text) + 1)
		if !bytes.Equal(packed(&w, text, half, half+rnd.IntN(len(text)-half+1)), want) {
			t.Errorf("%s: in parts, and after others, it is packed in another way", name)
		}
	}
}

func slicesOf(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// TestAppends: a member stands behind what was there, and both are read one after the other.
func TestAppends(t *testing.T) {
	var w Writer
	var out []byte
	for _, text := range []string{"one ", "", "two "} {
		w.Begin(out)
		w.Write([]byte(text))
		out = w.End()
	}
	if got := string(unpacked(t, out)); got != "one two " {
		t.Errorf("%q", got)
	}
}

// TestDamage: a bit that is another is noticed by whoever reads.
func TestDamage(t *testing.T) {
	member := packed(new(Writer), markup(1, 2000))
	for i := len(head); i < len(member); i++ {
		member[i] ^= 1
		r, err := gzip.NewReader(bytes.NewReader(member))
		if err == nil {
			_, err = io.Copy(io.Discard, r)
		}
		if err == nil || errors.Is(err, io.EOF) {
			t.Fatalf("byte %d: %v", i, err)
		}
		member[i] ^= 1
	}
}

// TestLongWords: bytes of which each is as frequent as the two before together would have words of more bits than there may be.
func TestLongWords(t *testing.T) {
	var text []byte
	a, b := 1, 1
	for c := range 21 {
		text = append(text, bytes.Repeat([]byte{byte(c)}, a)...)
		a, b = b, a+b
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	rnd.Shuffle(len(text), func(i, k int) { text[i], text[k] = text[k], text[i] })
	if got := unpacked(t, packed(new(Writer), text)); !bytes.Equal(got, text) {
		t.Errorf("%d bytes became %d others", len(text), len(got))
	}
}

// TestCodes: words are no longer than allowed, none is left unused, and without that bound no code is better.
func TestCodes(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		var c code
		c.clear(2 + rnd.IntN(maxSymbols-1))
		steep := rnd.IntN(17)
		for i := range c.freq[:c.n] {
			c.freq[i] = uint32(rnd.IntN(1 << rnd.IntN(steep+1)))
		}
		c.freq[0], c.freq[c.n-1] = 1, 1
		for _, most := range []int{longest, 9} {
			c.make(most)
			sum, best := 0, huffman(c.freq[:c.n])
			for i, length := range c.length[:c.n] {
				if (length > 0) != (c.freq[i] > 0) || int(length) > most {
					t.Fatalf("symbol of %d: %d bits, at most %d", c.freq[i], length, most)
				}
				if length > 0 {
					sum += 1 << (most - int(length))
				}
			}
			if sum != 1<<most {
				t.Fatalf("words of %v fill %d of %d", c.length[:c.n], sum, 1<<most)
			}
			if got := c.bits(new([maxSymbols]uint8)); got < best || got > best+best/10 && most == longest {
				t.Fatalf("%v: %d bits, the best code has %d", c.freq[:c.n], got, best)
			}
		}
	}
}

// huffman is how many bits the best code has.
func huffman(freq []uint32) (n int) {
	var trees []int
	for _, f := range freq {
		if f > 0 {
			trees = append(trees, int(f))
		}
	}
	least := func() int {
		at := 0
		for i, f := range trees {
			if f < trees[at] {
				at = i
			}
		}
		f := trees[at]
		trees[at] = trees[len(trees)-1]
		trees = trees[:len(trees)-1]
		return f
	}
	for len(trees) > 1 {
		f := least() + least()
		n += f
		trees = append(trees, f)
	}
	return n
}

// TestSize: what is packed is about as small as others make it that are in a hurry.
func TestSize(t *testing.T) {
	for _, n := range []int{600, 2000, 20_000, 200_000} {
		text := markup(uint64(n), n)
		var other bytes.Buffer
		z, _ := gzip.NewWriterLevel(&other, gzip.BestSpeed)
		_, _ = z.Write(text)
		_ = z.Close()
		if got := len(packed(new(Writer), text)); got > other.Len()*103/100 {
			t.Errorf("%d bytes: %d, another's %d", n, got, other.Len())
		}
	}
}

func FuzzWriter(f *testing.F) {
	f.Add([]byte("some text, some text"), uint16(4), uint16(1))
	f.Add([]byte{0, 0, 0, 0, 1, 2, 3}, uint16(2), uint16(20_000))
	f.Fuzz(func(t *testing.T, text []byte, cut, times uint16) {
		long := bytes.Repeat(text, 1+int(times)%(1+4*room/(1+len(text))))
		if got := unpacked(t, packed(new(Writer), long, min(int(cut), len(long)))); !bytes.Equal(got, long) {
			t.Fatalf("%d bytes became %d others", len(long), len(got))
		}
	})
}

func BenchmarkWriter(b *testing.B) {
	for _, n := range []int{600, 2000, 20_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var texts [64][]byte
			for i := range texts {
				texts[i] = markup(uint64(i), n)
			}
			var w Writer
			var out []byte
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				w.Begin(out[:0])
				w.Write(texts[i%len(texts)])
				out = w.End()
			}
		})
	}
}
