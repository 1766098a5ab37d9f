package webgen

import "strconv"

// blockBytes is the size of the text from which all pages are cut: large enough that pages differ,
// small enough for a processor's cache.
const blockBytes = 256 << 10

// block is running text with the places where words begin.
type block struct {
	text   []byte
	starts []uint32
}

func newBlock(r rng) block {
	const letters = "etaoinshrdlucmfwypvbgkjqxz"
	vocabulary := make([][]byte, 4096)
	for i := range vocabulary {
		word := make([]byte, 2+r.below(8))
		for j := range word {
			// The smaller of two draws prefers the first letters, which are the frequent ones: the text
			// compresses about as prose does.
			word[j] = letters[min(r.below(26), r.below(26))]
		}
		vocabulary[i] = word
	}
	b := block{text: make([]byte, 0, blockBytes)}
	for len(b.text) < blockBytes-16 {
		b.starts = append(b.starts, uint32(len(b.text)))
		b.text = append(b.text, vocabulary[min(r.below(4096), r.below(4096))]...)
		b.text = append(b.text, ' ')
	}
	return b
}

// appendText appends about n bytes of running text from the word selected by d.
func (b *block) appendText(dst []byte, d uint64, n int) []byte {
	at := int(b.starts[scale(d, len(b.starts))])
	for n > 0 {
		part := b.text[at:min(at+n, len(b.text))]
		dst = append(dst, part...)
		n -= len(part)
		at = 0
	}
	return dst
}

// linkBytes is the approximate size of a link with its element and its words.
const linkBytes = 60

// appendBody appends the page made for `of`. It allocates nothing beyond dst.
func (w *Web) appendBody(dst []byte, of place, port string) []byte {
	text := rng(w.draw(saltText, of.host, of.page))
	size := w.cfg.PageBytes/2 + text.below(w.cfg.PageBytes+1)
	begin := len(dst)
	dst = append(dst, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Page "...)
	dst = strconv.AppendInt(dst, int64(of.page), 10)
	dst = append(dst, " of host "...)
	dst = strconv.AppendInt(dst, int64(of.host), 10)
	dst = append(dst, "</title>\n"...)
	if m := w.marksOf(of); !m.header && (m.nofollow || m.noindex) {
		dst = append(dst, "<meta name=\"robots\" content=\""...)
		dst = append(dst, m.content()...)
		dst = append(dst, "\">\n"...)
	}
	dst = append(dst, "</head>\n<body>\n<p>"...)

	gap := max(0, size-(len(dst)-begin)-w.cfg.Links*linkBytes) / (w.cfg.Links + 1)
	links := w.linksOf(of)
	for l, more := links.next(); more; l, more = links.next() {
		d := text.next()
		dst = w.words.appendText(dst, d, gap)
		dst = append(dst, "<a href=\""...)
		dst = w.appendHref(dst, of, l, port)
		if l.trap {
			dst = append(dst, "\" rel=\"nofollow"...)
		}
		dst = append(dst, "\">"...)
		dst = w.words.appendText(dst, mix(d), 12)
		dst = append(dst, "</a>\n"...)
		if links.i%8 == 0 {
			dst = append(dst, "</p>\n<p>"...)
		}
	}
	dst = w.words.appendText(dst, text.next(), gap)
	return append(dst, "</p>\n</body>\n</html>\n"...)
}

// content is the value of a robots meta element or an X-Robots-Tag header.
func (m marks) content() string {
	switch {
	case m.nofollow && m.noindex:
		return "noindex, nofollow"
	case m.nofollow:
		return "nofollow"
	case m.noindex:
		return "noindex"
	default:
		return ""
	}
}

// appendTrap appends page n of a host's trap: a few words and links further in.
func (w *Web) appendTrap(dst []byte, host, n int) []byte {
	dst = append(dst, "<!DOCTYPE html>\n<title>Trap "...)
	dst = strconv.AppendInt(dst, int64(n), 10)
	dst = append(dst, " of host "...)
	dst = strconv.AppendInt(dst, int64(host), 10)
	dst = append(dst, "</title>\n<p>Who came here followed a link marked nofollow. <a href=\""...)
	dst = appendTrapPath(dst, (n+1)%trapPages)
	return append(dst, "\">On</a>.</p>\n"...)
}
